"""Quality and free energy against the clock (paper, appendix "Compute time"): peer supervision and the plain ball.

Every model trains once, from one start, with the settings it has in the tables; the clock is the processor's, which
other work does not disturb, and stands still while a model's quality is measured. Run it with one thread: the time of
several adds up. Quality is the accuracy on test images, and the share of the ball's path that is explained.
"""

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels import datasets, metrics
from rpmodels.datasets import Images, Series
from rpmodels.estimators import RPGPFA, Inference, Recognition, RPCategorical
from rpmodels.inference import summed_potentials
from rpmodels.learning import State, train
from rpmodels.observations import read
from rpmodels.paper.baselines import SparseGPVAE
from rpmodels.paper.baselines.recognisers import in_parts
from rpmodels.paper.experiments import time_figures
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.peer_baselines import AUTOENCODERS
from rpmodels.paper.experiments.recovery import METHODS
from rpmodels.persistence import write_text

PAIRS, BALL = "peer-supervision", "plain-ball"
LOOKED_AT = 5_000
"""Images that a network in training is judged by."""
GROWTH = 1.25
"""Steps between two looks grow by this factor."""
LEVELS = {PAIRS: (0.2, 0.3, 0.4, 0.5, 0.8), BALL: (0.5, 0.7, 0.9, 0.95, 0.98, 0.99)}
"""Of quality, at which times are compared."""


@dataclass(frozen=True)
class Settings:
    """Which pairs; trials, times and inducing points of the ball; steps with each (those of the tables)."""

    data: str = "mnist"
    n_trials: int = 50
    n_times: int = 50
    n_inducing: int = 20
    pair_steps: int = 1000
    ball_steps: int = 400


class ComputeTime(Experiment):
    """RPMs and the paper's baselines, each from its first step."""

    name = "compute-time"
    summary = "free energy and quality against the clock, for RPMs and the paper's baselines"
    presets: Mapping[str, Any] = {"quick": Settings("digits", 30, 30, 15), "paper": Settings()}
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 3}

    def rows(self, settings: Any) -> Sequence[Row]:
        """Two panels of the figure."""
        pairs = [Row(model, condition=PAIRS) for model in ("RPM", *AUTOENCODERS)]
        ours = [Row("RP-GPFA", method, BALL) for method in ("interior", "second-order", "monte-carlo")]
        return [*pairs, *ours, Row("sGP-VAE-1D", condition=BALL)]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Curves only."""
        return {}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """One training with looks at it."""
        importlib.import_module("torch._dynamo")  # the first step of a process would, and it takes a second
        return (_pairs if row.condition == PAIRS else _ball)(row, settings, seed)

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Curves, and who reached what first."""
        time_figures.draw(outcomes, (PAIRS, BALL), folder)
        lines = [line for panel in (PAIRS, BALL) for line in (*_medians(outcomes, panel), *_firsts(outcomes, panel))]
        write_text(folder / "first.md", "\n".join(lines) + "\n")


class Stopwatch:
    """A callback that looks at the model now and then and does not count the time that takes."""

    def __init__(self, quality: Callable[[Any], float]) -> None:
        self._quality = quality
        self._passed = 0.0
        self._going_since = time.process_time()
        self._next = 1
        self.curve: dict[str, list[float]] = {"step": [], "seconds": [], "quality": [], "free_energy": []}

    def __call__(self, state: State) -> None:
        """Stop the clock, look, go on."""
        self._passed += time.process_time() - self._going_since
        if state.step >= self._next:
            self._next = max(state.step + 1, round(GROWTH * state.step))
            with torch.no_grad():
                state.model.eval()
                quality = self._quality(state.model)
                state.model.train()
            found = (float(state.step), self._passed, quality, state.terms["free_energy"])
            for values, value in zip(self.curve.values(), found, strict=True):
                values.append(round(float(value), 5))
        self._going_since = time.process_time()

    def outcome(self) -> Outcome:
        """The best quality, when it was first within 1 % of it, and the curve."""
        quality, seconds = np.array(self.curve["quality"]), np.array(self.curve["seconds"])
        best = float(quality.max())
        when = float(seconds[np.argmax(quality >= best - 0.01 * abs(best))])
        return Outcome({"quality": best, "seconds_to_best": when, "seconds_in_all": float(seconds[-1])}, self.curve)


def _pairs(row: Row, settings: Settings, seed: int) -> Outcome:
    images = datasets.load_mnist() if settings.data == "mnist" else datasets.load_digit_images(seed)
    pairs, _ = datasets.make_pairs(images.train_images, images.train_labels, n_factors=2, random_state=seed)
    if row.model == "RPM":
        observations = read(pairs)
        tied = Recognition(tied=True)
        estimator = RPCategorical(10, recognition=tied, max_iter=settings.pair_steps, random_state=seed)
        model, training = estimator.build(observations)
        clock = Stopwatch(lambda model: _accuracy(images, lambda part: _recognised(model, part)))
        train(model, observations, training, random_state=seed, callbacks=[clock])
        return clock.outcome()
    clock = Stopwatch(lambda model: _accuracy(images, lambda part: _coded(model, part)))
    AUTOENCODERS[row.model](10, n_init=1, max_iter=settings.pair_steps, random_state=seed, callbacks=[clock]).fit(pairs)
    return clock.outcome()


def _accuracy(images: Images, states: Callable[[NDArray[Any]], NDArray[np.int64]]) -> float:
    """On test images; states are matched to digits on training images."""
    known = slice(0, LOOKED_AT)
    matching = metrics.match_states(images.train_labels[known], states(images.train_images[known]), 10)
    return float((matching[states(images.test_images[known])] == images.test_labels[known]).mean())


def _recognised(model: Any, images: NDArray[Any]) -> NDArray[np.int64]:
    """argmax f_1(z|x)."""
    observations = read({"x1": images}, known=model.specs)
    parts = [
        (model.references(batch.sites)["x1"] + factors["x1"].g)[:, 0].argmax(-1)
        for batch, factors in model.recognised(observations)
    ]
    return np.asarray(torch.cat(parts).numpy())


def _coded(model: Any, images: NDArray[Any]) -> NDArray[np.int64]:
    parts = [model.quantiser.logits(model.recognise(part)).argmax(-1) for part in in_parts(images)]
    return np.asarray(torch.cat(parts).numpy())


def _ball(row: Row, settings: Settings, seed: int) -> Outcome:
    series = datasets.plain_ball(n_trials=settings.n_trials, n_times=settings.n_times, random_state=seed)
    shared: dict[str, Any] = {"n_inducing": settings.n_inducing, "max_iter": settings.ball_steps}
    if row.model == "RP-GPFA":
        observations = read({"x": series.x}, series=True, times=series.times)
        inference = Inference(expected_log_mixture=METHODS[row.method])
        estimator = RPGPFA(1, inference=inference, random_state=seed, **shared)
        model, training = estimator.build(observations)
        clock = Stopwatch(lambda model: _explained(series, _smoothed(model, observations)))
        train(model, observations, training, random_state=seed, callbacks=[clock])
        return clock.outcome()
    clock = Stopwatch(lambda model: _explained(series, _conditioned(model, series)))
    SparseGPVAE(1, n_init=1, random_state=seed, callbacks=[clock], **shared).fit(series.x, times=series.times)
    return clock.outcome()


def _explained(series: Series, mean: NDArray[Any]) -> float:
    return 1.0 - metrics.nmse(mean, series.z)


def _smoothed(model: Any, observations: Any) -> NDArray[Any]:
    """Posterior means of an RPM in training, whose mixtures are not needed for them."""
    parts = [
        model.prior.family.moments(model.prior.condition(summed_potentials(factors), batch.sites).eta)[0]
        for batch, factors in model.recognised(observations)
    ]
    return np.asarray(torch.cat(parts).numpy())


def _conditioned(model: Any, series: Series) -> NDArray[Any]:
    observations = read({model.name: series.x}, series=True, times=series.times)
    parts = [model.family.moments(model.recognise(batch)[1].eta)[0] for batch in model.batches(observations)]
    return np.asarray(torch.cat(parts).numpy())


def _medians(outcomes: Mapping[Row, Sequence[Outcome]], panel: str) -> list[str]:
    """A table of the seconds to every level, medians over seeds (∞ where half of them never reach it)."""
    rows = {row: each for row, each in outcomes.items() if row.condition == panel}
    if not rows:
        return []
    lines = ["", f"| {panel} | " + " | ".join(f"{level}" for level in LEVELS[panel]) + " |"]
    lines.append("|---" * (1 + len(LEVELS[panel])) + "|")
    for row, each in rows.items():
        times = [np.median([_when(outcome.extras, level) for outcome in each]) for level in LEVELS[panel]]
        lines.append(f"| {row.model} {row.method} | " + " | ".join(f"{when:.3g} s" for when in times) + " |")
    return [*lines, ""]


def _when(curve: Mapping[str, Sequence[float]], level: float) -> float:
    """Seconds until the quality was first at a level."""
    return _reached(np.array(curve["seconds"]), np.maximum.accumulate(np.array(curve["quality"])), level)


def _firsts(outcomes: Mapping[Row, Sequence[Outcome]], panel: str) -> list[str]:
    """For every baseline: was the RPM earlier at all that it reached?"""
    rows = {row: each for row, each in outcomes.items() if row.condition == panel}
    ours = {row: each for row, each in rows.items() if row.model.startswith("RP")}
    lines = []
    for row, each in rows.items():
        if row in ours:
            continue
        for own, theirs in ours.items():
            ratios = [earliest(a.extras, b.extras) for a, b in zip(theirs, each, strict=True)]
            shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            name = f"{own.model} {own.method}".strip()
            lines.append(f"* {panel}: {name} against {row.model}: at worst {shown} of its time (one number a seed)")
    return lines


def earliest(ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]]) -> float:
    """The largest ratio of our time to theirs over all the levels of quality that they reached; ∞ where we did not.

    Levels below what a first look sees are left out: at the first step nobody has learnt anything.
    """
    mine, other = (np.maximum.accumulate(np.array(each["quality"])) for each in (ours, theirs))
    worst = 0.0
    for level in np.unique(other[other > max(mine[0], other[0])]):
        when = _reached(np.array(ours["seconds"]), mine, level)
        worst = max(worst, when / theirs["seconds"][int(np.argmax(other >= level))])
    return float(worst)


def _reached(seconds: NDArray[Any], best: NDArray[Any], level: float) -> float:
    """When the best so far was at a level; between two looks it is taken to rise steadily in the logarithm of time."""
    if best[-1] < level:
        return float("inf")
    after = int(np.argmax(best >= level))
    if after == 0:
        return float(seconds[0])
    share = (level - best[after - 1]) / (best[after] - best[after - 1])
    return float(seconds[after - 1] * (seconds[after] / seconds[after - 1]) ** share)


EXPERIMENT = ComputeTime()
