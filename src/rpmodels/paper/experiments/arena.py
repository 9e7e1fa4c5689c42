"""Multi-factorial integration (paper, figure 6): whose range-finder is it that goes with this video?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from rpmodels import datasets
from rpmodels.datasets import Arena
from rpmodels.estimators import RPGPFA, Inference, Training
from rpmodels.paper.experiments import arena_figures, arena_tracking
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.figures import save

VIEWS: Mapping[str, tuple[str, ...]] = {"both": ("video", "ranges"), "video": ("video",), "ranges": ("ranges",)}
"""Method → the factors that are there."""
DISTRACTORS = ("distractor-1", "distractor-2")
CONDITIONS: Mapping[str, Mapping[str, Any]] = {
    "": {},
    "noise=0.1": {"noise": 0.1},
    "second-order": {"approximation": "second_order"},
}
"""What differs from the first; the paper has noise 0.1 and the second order."""


@dataclass(frozen=True)
class Settings:
    """Episodes to learn from and held out, frames of each, and the fit."""

    n_training: int = 50
    n_heldout: int = 10
    n_times: int = 200
    n_inducing: int = 40
    max_iter: int = 300
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
        heldout = data.episodes(slice(settings.n_training, None))
        chosen = arena_tracking.shown_episode(heldout)
        shown = heldout.episodes(slice(chosen, chosen + 1))
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
    approximation = CONDITIONS[condition].get("approximation", "interior")
    model = RPGPFA(
        2,
        n_inducing=settings.n_inducing,
        learning_rate=settings.learning_rate,
        max_iter=settings.max_iter,
        n_init=1,
        random_state=seed,
        inference=Inference(atoms="pooled", expected_log_mixture=approximation),
        training=Training(batch_size=settings.trials_a_step),
    )
    tracked = arena_tracking.Tracked(model, data, settings.n_training)
    found = {name: tracked.view(factors) for name, factors in VIEWS.items()}
    both = found["both"]
    found["both"] = Outcome(
        {**both.metrics, **tracked.calibration(), **tracked.training_numbers()}, {**both.extras, **tracked.extras()}
    )
    return found | {name: tracked.distractor(number) for number, name in enumerate(DISTRACTORS)}


EXPERIMENT = ArenaExperiment()
