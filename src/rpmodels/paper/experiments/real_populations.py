"""Populations of neurons in trials: behaviour read from the latents, and from denoised rates, on trials never seen."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold

from rpmodels import RPGPFA, datasets
from rpmodels.evaluation import Decoder, TrialFolds
from rpmodels.evaluation.bits import PROBABILITIES, RATES
from rpmodels.evaluation.co_smoothing import gained_by
from rpmodels.evaluation.co_smoothing_rivals import gained_by_rival
from rpmodels.evaluation.comparison import scaled_bins
from rpmodels.evaluation.counts import Counts, chosen_channels
from rpmodels.evaluation.decoding import READINGS, Reading
from rpmodels.evaluation.folds import Fold, Index, subset
from rpmodels.evaluation.methods import Bins, chosen_widths, latents_of, scores_of, smoothed
from rpmodels.evaluation.read_outs import PoissonReadOut
from rpmodels.evaluation.rivals import LINEAR
from rpmodels.inference import NaturalGradient
from rpmodels.observations import read
from rpmodels.paper.experiments.experiment import Outcome
from rpmodels.paper.experiments.real_examples import example
from rpmodels.paper.experiments.real_sets import RealSet, Task

HELD_OUT = 0.25
"""Of the units, in co-smoothing."""
REFINED = NaturalGradient(steps=2)
"""How q is found there."""


@dataclass(frozen=True)
class Trials:
    """Counts (T_n, units), behaviour (T_n, D), which trials are learnt from and judged by, and a label for each."""

    counts: Bins
    behaviour: Bins
    folds: list[Fold]
    labels: NDArray[np.int64]
    """What figures tell trials apart by."""


class Population(RealSet):
    """RP-GPFA and its rivals: every reading of the latents, the first of them from rates, and co-smoothing.

    Rates of RP-GPFA are its own where its units are recognised one by one; those of others are by a Poisson regression
    of every unit on the latents; of rivals that are chosen, on those of the first reading. Co-smoothing is bits per
    spike from rates by the same rule for all ("co_smoothing"), and by the RPM's own probabilities ("co_smoothing_own"):
    a quarter of the units, drawn from the seed, is hidden.
    """

    own = "RP-GPFA"
    smoothed = "RP-GPFA, smoothed"
    """The same fit with the freedom that smoothed rivals have: a width for every reading, chosen on training trials."""
    rivals = LINEAR
    readings: Mapping[str, Reading] = READINGS
    drawn = 2
    """The number of latents that is drawn, where it was run."""
    told: Mapping[str, Sequence[str]] = {"from latents": ("z₁", "z₂")}
    """What behaviour is drawn as, and from what it is read: "from latents" by neighbours, "from rates" by a line."""

    @property
    def methods(self) -> Sequence[str]:
        """The RPM twice: as it is, and smoothed as its strongest rivals are."""
        return [self.own, self.smoothed, *super().methods[1:]]

    @abstractmethod
    def trials(self, seed: int, folds: int) -> Trials:
        """The seed deals trials to folds."""

    def measured(self, task: Task) -> Outcome:
        """Means over the folds."""
        data = self.trials(task.seed, task.folds)
        ask = self._own if task.method in (self.own, self.smoothed) else self._peer
        found = [ask(task, data, fold) for fold in data.folds]
        metrics = {name: float(np.mean([each.metrics[name] for each in found])) for name in found[0].metrics}
        extras = [{**each.extras} for each in found]
        shown = [each.pop("example") for each in extras]
        folds = [{**each.metrics, **more} for each, more in zip(found, extras, strict=True)]
        return Outcome(metrics, {"folds": folds, "example": shown[0]})

    def _own(self, task: Task, data: Trials, fold: Fold) -> Outcome:
        model = RPGPFA(int(task.condition), random_state=task.seed, **task.fit)
        counts = Counts.of(model, data.counts, None)
        training, held_out = (counts.only(index) for index in fold)
        training.given.fit(model)
        found = _doubles(model.transform(data.counts))
        latents = dict.fromkeys(self.readings, found)
        widths: Mapping[str, float] = {}
        if task.method == self.smoothed:
            latents, widths = self._smoothed(task, found, data, fold)
        if not model.populations_:
            rates = poisson_rates(found, data.counts, fold[0])
            return self._outcome(latents, rates, data, fold, {}, widths)
        gained = gained_by(model, training, held_out, self._hidden(task, data), REFINED)
        names = {RATES: "co_smoothing", PROBABILITIES: "co_smoothing_own"}
        bits = {name: gained[measure].total for measure, name in names.items()}
        return self._outcome(latents, _doubles(model.rates(data.counts)), data, fold, bits, widths, model.tuning())

    def _smoothed(
        self, task: Task, found: Bins, data: Trials, fold: Fold
    ) -> tuple[dict[str, Bins], Mapping[str, float]]:
        """Latents as each reading likes them best on the training trials, of the one fit to all of these."""
        seen, behaviour = (subset(each, fold[0]) for each in (found, data.behaviour))
        chosen = chosen_widths(lambda width, _: smoothed(seen, width), seen, behaviour, self.readings, task.seed)
        latents = {name: smoothed(found, width) for name, width in chosen.items()}
        return latents, {f"smoothing_{name}": width for name, width in chosen.items()}

    def _peer(self, task: Task, data: Trials, fold: Fold) -> Outcome:
        size, bins = int(task.condition), scaled_bins(read({"x": data.counts}, series=True), fold[0])
        seen, behaviour = (subset(each, fold[0]) for each in (bins, data.behaviour))
        method = self.peer(task.method, [bins[0].shape[1]])
        chosen = method.chosen(seen, behaviour, self.readings, size, task.seed)
        found = latents_of(chosen, seen, bins, size, task.seed)
        rates = poisson_rates(found[self._first], data.counts, fold[0])
        gained = gained_by_rival(method, data.counts, self._hidden(task, data), fold, size, task.seed)
        # Nobody else has a width; the runner writes what was chosen beside the numbers.
        widths = {f"smoothing_{name}": getattr(each, "smoothing", None) for name, each in chosen.items()}
        extras = {name: each for name, each in widths.items() if each is not None}
        return self._outcome(found, rates, data, fold, {"co_smoothing": gained.total}, extras)

    def _hidden(self, task: Task, data: Trials) -> Index:
        return chosen_channels(HELD_OUT, data.counts[0].shape[1], task.seed)

    def _outcome(
        self,
        found: Mapping[str, Bins],
        rates: Bins,
        data: Trials,
        fold: Fold,
        bits: Mapping[str, float],
        extras: Mapping[str, Any],
        tuning: Any = None,
    ) -> Outcome:
        from_rates = self._read({self._first: rates}, data, fold)[self._first]
        shown = example(found, rates, data.behaviour, data.labels, fold, tuning)
        metrics = {**self._read(found, data, fold), f"{self._first}_rates": from_rates, **bits}
        return Outcome(metrics, {**extras, "example": shown})

    @property
    def _first(self) -> str:
        return next(iter(self.readings))

    def _read(self, found: Mapping[str, Bins], data: Trials, fold: Fold) -> dict[str, float]:
        return scores_of(self.readings, found, data.behaviour, fold)


class Track(Population):
    """Position of a rat on a linear track, from CA1."""

    drawn = 3
    told: Mapping[str, Sequence[str]] = {"from latents": ("position on the track",)}

    def trials(self, seed: int, folds: int) -> Trials:
        """Runs up and down, dealt at random."""
        runs = datasets.load_hippocampus().runs()
        dealt = list(TrialFolds(folds, seed).split(runs.counts))
        return Trials(runs.counts, runs.position, dealt, runs.direction)


class Barriers(Population):
    """Velocity of a monkey's hand, from motor cortex."""

    drawn = 8
    told: Mapping[str, Sequence[str]] = {"from rates": ("vₓ (mm/s)", "v_y (mm/s)")}

    def trials(self, seed: int, folds: int) -> Trials:
        """Dealt so that every fold has its share of every condition."""
        maze = datasets.load_mc_maze()
        splitter = StratifiedKFold(folds, shuffle=True, random_state=seed)
        dealt = list(splitter.split(maze.condition, maze.condition))
        return Trials(list(maze.counts), list(maze.velocity), dealt, maze.condition)


class Targets(Population):
    """Direction of a reach, bin by bin, from motor cortex: right within π/8."""

    drawn = 4
    told: Mapping[str, Sequence[str]] = {"from rates": ("cosine", "sine")}

    def __init__(self) -> None:
        self.readings = {"direction": right_direction}

    def trials(self, seed: int, folds: int) -> Trials:
        """Four fifths in the order of the recording; of the rest the second half. Nothing is chosen on the first."""
        reach = datasets.load_reach()
        ends = np.round(np.array([0.8, 0.9]) * len(reach)).astype(int)
        points = np.stack([np.cos(reach.angle), np.sin(reach.angle)], -1)
        behaviour = [np.tile(point, (len(each), 1)) for point, each in zip(points, reach.counts, strict=True)]
        fold = (np.arange(ends[0]), np.arange(ends[1], len(reach)))
        return Trials(reach.counts, behaviour, [fold], reach.target)


class Simulated(Population):
    """Poisson counts of units that are log-linear in smooth latents, which are what is read."""

    def __init__(self, n_trials: int = 40, n_times: int = 25, n_units: int = 30, n_latents: int = 2) -> None:
        self._shape = (n_trials, n_times, n_units, n_latents)

    def trials(self, seed: int, folds: int) -> Trials:
        """Drawn from the seed."""
        n_trials, n_times, n_units, n_latents = self._shape
        random = np.random.default_rng(seed)
        t = np.arange(n_times)
        covariance = np.exp(-0.5 * np.square((t[:, None] - t) / 4.0))
        drawn = random.multivariate_normal(np.zeros(n_times), covariance, (n_trials, n_latents), method="eigh")
        z = np.swapaxes(drawn, 1, 2)
        loadings = 0.7 * random.standard_normal((n_latents, n_units)) / np.sqrt(n_latents)
        counts = random.poisson(np.exp(z @ loadings - 0.7)).astype(np.float64)
        dealt = list(TrialFolds(folds, seed).split(z))
        return Trials(list(counts), list(z), dealt, np.zeros(n_trials, np.int64))


def _doubles(trials: Any) -> Bins:
    return [np.asarray(each, np.float64) for each in trials]


def right_direction(latents: Any, points: Any, new: Any, truth: Any) -> float:
    """Share of bins whose direction, by a linear map of latents to points of the circle, is within π/8."""
    found = np.concatenate(Decoder().fit(latents, points).predict(new))
    known = np.concatenate(truth)
    off = np.angle((found @ [1, 1j]) * (known @ [1, -1j]))
    return float((np.abs(off) < np.pi / 8).mean())


def poisson_rates(latents: Bins, counts: Bins, training: Index) -> Bins:
    """Rates of every unit by a Poisson regression on the latents, fitted on the training trials."""
    return PoissonReadOut().fit(subset(latents, training), subset(counts, training)).predict(latents)
