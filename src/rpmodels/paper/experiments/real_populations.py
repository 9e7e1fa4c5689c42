"""Populations of neurons in trials: behaviour read from the latents, and from denoised rates, on trials never seen."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import RPGPFA
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


def _doubles(trials: Any) -> Bins:
    return [np.asarray(each, np.float64) for each in trials]


def poisson_rates(latents: Bins, counts: Bins, training: Index) -> Bins:
    """Rates of every unit by a Poisson regression on the latents, fitted on the training trials."""
    return PoissonReadOut().fit(subset(latents, training), subset(counts, training)).predict(latents)
