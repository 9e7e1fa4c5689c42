"""Multi-factorial integration (paper, figure 6): whose range-finder is it that goes with this video?"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import datasets, metrics
from rpmodels.datasets import Arena
from rpmodels.estimators import RPGPFA
from rpmodels.experiments import arena_figures
from rpmodels.experiments.experiment import Experiment, Outcome, Row
from rpmodels.experiments.figures import save
from rpmodels.experiments.recovery import thinned

VIEWS: Mapping[str, tuple[str, ...]] = {"both": ("video", "ranges"), "video": ("video",), "ranges": ("ranges",)}
"""Method → the factors that are there."""
DISTRACTORS = ("distractor-1", "distractor-2")
CONDITIONS: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "noise=0.1": {"noise": 0.1},
    "second-order": {"expected_log_mixture": "second_order"},
}
"""What differs from the first; the paper has noise 0.1 and the second order."""
Linear = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Settings:
    """Episodes to learn from and held out, frames of each, and the fit."""

    n_training: int = 50
    n_heldout: int = 10
    n_times: int = 200
    n_inducing: int = 40
    max_iter: int = 500
    trials_a_step: int = 5
    learning_rate: float = 3e-3
    conditions: tuple[str, ...] = tuple(CONDITIONS)


class ArenaExperiment(Experiment):
    """RP-GPFA on video and ranges; the posterior from both, and from each alone, against the paths of all agents."""

    name = "arena"
    summary = "one agent among distractors, from video of all and ranges of one"
    presets: Mapping[str, Any] = {
        "quick": Settings(n_training=20, n_heldout=5, n_times=100, n_inducing=25, max_iter=150, conditions=("",)),
        "paper": Settings(),
    }
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 3}

    def rows(self, settings: Any) -> Sequence[Row]:
        """One fit a condition, looked at in five ways."""
        methods = (*VIEWS, *DISTRACTORS)
        return [Row("RP-GPFA", method, condition) for condition in settings.conditions for method in methods]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """A figure, no numbers."""
        return {}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """The rows of a condition come one after the other, and share its fit."""
        return _outcomes(settings, row.condition, seed)[row.method]

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """The paper's figure, missing sensors, a contact sheet and a film, all of the first seed."""
        data = _data(settings, "", 0)
        save(arena_figures.contact_sheet(data), folder / "contact_sheet")
        rows = {row.method: each[0].extras for row, each in outcomes.items() if not row.condition}
        views = {name: rows[name] for name in VIEWS if name in rows}
        if len(views) < len(VIEWS):
            return
        shown = data.episodes(slice(settings.n_training, settings.n_training + 1))
        save(arena_figures.integration(shown, views), folder / "integration")
        save(arena_figures.missing_sensors(shown, rows["both"]["gaps"]), folder / "missing_sensors")
        arena_figures.film(shown, views["both"], folder / "arena.gif")


def _data(settings: Settings, condition: str, seed: int) -> Arena:
    noise = CONDITIONS[condition].get("noise", 0.01)
    count = settings.n_training + settings.n_heldout
    return datasets.arena(count, settings.n_times, noise=noise, random_state=seed)


@lru_cache(maxsize=1)
def _outcomes(settings: Settings, condition: str, seed: int) -> dict[str, Outcome]:
    """One fit, and everything that is asked of it."""
    data = _data(settings, condition, seed)
    training, heldout = data.episodes(slice(settings.n_training)), data.episodes(slice(settings.n_training, None))
    options = {name: value for name, value in CONDITIONS[condition].items() if name != "noise"}
    model = RPGPFA(
        2,
        n_inducing=settings.n_inducing,
        atoms="pooled",
        batch_size=settings.trials_a_step,
        learning_rate=settings.learning_rate,
        max_iter=settings.max_iter,
        n_init=1,
        random_state=seed,
        **options,
    )
    begun = time.perf_counter()
    model.fit(training.factors)
    seconds = time.perf_counter() - begun
    known = model.transform(training.factors)
    line = metrics.linear_map(known, training.z)
    found = {name: _view(model, name, training, heldout, known, line) for name in VIEWS}
    refined = model.posterior(heldout.factors, e_step="natural_gradient")
    place = metrics.mapped(refined.mean, refined.covariance, *line)
    own = {
        "nmse_heldout_refined": metrics.nmse(refined.mean, heldout.z, known, training.z),
        "coverage_90_refined": metrics.region_coverage(*place, heldout.z),
        "score_nats": float(model.score_),
        "ceiling_nats": model.score_.ceiling,
        "steps": float(model.n_iter_),
        "fit_seconds": seconds,
    }
    extras = {
        "gaps": {name: _described(*each) for name, each in _gaps(model, heldout.episodes(slice(1)), line).items()},
        "history": thinned(model.history_),
        "length_scales": np.round(model.length_scales_, 3).tolist(),
        "stopped": model.stop_reason_,
    }
    both = found["both"]
    found["both"] = Outcome({**both.metrics, **own}, {**both.extras, **extras})
    others = [agent for agent in range(training.paths.shape[2]) if agent != training.equipped]
    for name, agent in zip(DISTRACTORS, others, strict=True):
        found[name] = _distractor(agent, training, heldout, known, model.transform(heldout.factors))
    return found


def _view(model: RPGPFA, name: str, training: Arena, heldout: Arena, known: NDArray[Any], line: Linear) -> Outcome:
    """From some of the factors, at test time: the model and the map to positions are those of both."""
    seen, new = ({each: data.factors[each] for each in VIEWS[name]} for data in (training, heldout))
    there = model.posterior(new)
    mean, covariance = metrics.mapped(there.mean, there.covariance, *line)
    return Outcome(
        {
            "nmse": metrics.nmse(model.transform(seen), training.z, known, training.z),
            "nmse_heldout": metrics.nmse(there.mean, heldout.z, known, training.z),
            "coverage_90": metrics.region_coverage(mean, covariance, heldout.z),
        },
        _described(mean[0], covariance[0]),
    )


def _distractor(agent: int, training: Arena, heldout: Arena, known: NDArray[Any], new: NDArray[Any]) -> Outcome:
    """How much the latents, and how much the equipped agent's true path, say of another agent."""
    path, held = training.paths[:, :, agent], heldout.paths[:, :, agent]
    return Outcome(
        {
            "nmse": metrics.nmse(known, path),
            "nmse_heldout": metrics.nmse(new, held, known, path),
            "nmse_of_true_path": metrics.nmse(training.z, path),
        }
    )


def _gaps(model: RPGPFA, one: Arena, line: Linear) -> dict[str, Linear]:
    """Positions in an episode of which the middle half lacks one sensor, the other, or both."""
    times = np.arange(one.ranges.shape[1])
    there = (times < len(times) // 4) | (times >= 3 * len(times) // 4)
    found = {}
    for name, cut in (("no ranges", ("ranges",)), ("no video", ("video",)), ("neither", ("video", "ranges"))):
        posterior = model.posterior(one.factors, presence=dict.fromkeys(cut, there[None]))
        mean, covariance = metrics.mapped(posterior.mean, posterior.covariance, *line)
        found[name] = (mean[0], covariance[0])
    return found


def _described(mean: NDArray[Any], covariance: NDArray[Any]) -> dict[str, Any]:
    return {"mean": np.round(mean, 4).tolist(), "covariance": np.round(covariance, 6).tolist()}


EXPERIMENT = ArenaExperiment()
