"""Coordinates without an RPM: decompositions of bins, smoothed or not, linear GPFA, CCA, and contrast over time."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from sklearn.cross_decomposition import CCA
from sklearn.exceptions import ConvergenceWarning

from rpmodels import errors
from rpmodels.baselines import GPFA
from rpmodels.estimators import Latents
from rpmodels.evaluation.decoding import Reading
from rpmodels.evaluation.folds import Index, TrialFolds, subset
from rpmodels.seeding import seeded

Bins = list[NDArray[np.float64]]
SMOOTHING = 5.0
"""Bins (sd) of what is smoothed first, where nothing chooses."""
WIDTHS = (0.0, 1.0, 2.0, 3.0, 5.0, 8.0)
"""Bins (sd) that a reading chooses from."""
INNER_FOLDS = 3
"""Of the training trials, on which it does."""
CONTRASTIVE_STEPS = 5_000


class Method(ABC):
    """Methods see scaled bins, factors side by side, zero (the mean) where absent."""

    name: str
    package: str | None = None
    """What must be installed beside the library."""

    @abstractmethod
    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """Fitted to some trials, applied to all: lists, with states where there are some."""

    def chosen(
        self, training: Bins, behaviour: Any, readings: Mapping[str, Reading], size: int, seed: int, groups: Any = None
    ) -> "dict[str, Method]":
        """The method as each reading likes it best on the training trials: itself, where nothing is to be chosen."""
        return dict.fromkeys(readings, self)


@dataclass(frozen=True)
class ByBins(Method):
    """Any of scikit-learn's decompositions of single bins, after smoothing within trials."""

    name: str
    kind: Any
    smoothing: float = 0.0

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """Bin by bin."""
        rows = np.concatenate(smoothed(training, self.smoothing))
        model = self.kind(size, random_state=seed).fit(rows)
        return Latents([model.transform(x) for x in smoothed(all_trials, self.smoothing)])


@dataclass(frozen=True)
class Smoothed(Method):
    """`ByBins` with a width of smoothing that is chosen by what is to be read: the strongest of its kind.

    Every reading has a width of its own, from `WIDTHS`: the one with the highest mean score over inner folds of the
    training trials, on which both the decomposition and the decoder are fitted anew. Without behaviour, `SMOOTHING`.
    """

    name: str
    kind: Any

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """With the width that nothing chose."""
        return self._of(SMOOTHING).latents(training, all_trials, size, seed)

    def chosen(
        self, training: Bins, behaviour: Any, readings: Mapping[str, Reading], size: int, seed: int, groups: Any = None
    ) -> dict[str, Method]:
        """A `ByBins` for every reading."""
        if len(training) < 2 or (groups is not None and len(np.unique(groups)) < 2):
            return dict.fromkeys(readings, self._of(SMOOTHING))

        def found(width: float, index: Index) -> Bins:
            known: Bins = self._of(width).latents(subset(training, index), training, size, seed).values
            return known

        try:
            widths = chosen_widths(found, training, behaviour, readings, seed, groups)
        except errors.InputError:  # too few trials of some label to be divided once more
            return dict.fromkeys(readings, self._of(SMOOTHING))
        return {name: self._of(width) for name, width in widths.items()}

    def _of(self, width: float) -> ByBins:
        return ByBins(self.name, self.kind, width)


def chosen_widths(
    latents: Callable[[float, Index], Bins],
    trials: Bins,
    behaviour: Any,
    readings: Mapping[str, Reading],
    seed: int,
    groups: Any = None,
) -> dict[str, float]:
    """Of every reading, the width of `WIDTHS` with the highest mean score over inner folds of these trials.

    `latents`: of all trials, smoothed by a width, learnt from those of an index. `groups` stay together.
    """
    most = len(trials) if groups is None else len(np.unique(groups))
    folds = list(TrialFolds(min(INNER_FOLDS, most), seed).split(trials, groups=groups))

    def scores(width: float) -> list[dict[str, float]]:
        every = ((dict.fromkeys(readings, latents(width, fold[0])), fold) for fold in folds)
        return [scores_of(readings, found, behaviour, fold) for found, fold in every]

    by_width = [scores(width) for width in WIDTHS]
    means = {name: [np.mean([each[name] for each in some]) for some in by_width] for name in readings}
    return {name: WIDTHS[int(np.argmax(each))] for name, each in means.items()}


class LinearGPFA(Method):
    """`baselines.GPFA`."""

    name = "GPFA"

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """Smoothed by its own Gaussian processes."""
        return Latents(list(GPFA(size, random_state=seed).fit(training).transform(all_trials)))


class Canonical(Method):
    """Canonical correlation analysis of the first factor with the others; latents are the mean of both sides."""

    name = "CCA"

    def __init__(self, widths: Sequence[int]) -> None:
        self._first = widths[0]

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """Bin by bin."""
        rows = np.concatenate(training)
        most = min(size, self._first, rows.shape[1] - self._first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = CCA(most, max_iter=2000).fit(rows[:, : self._first], rows[:, self._first :])
        return Latents([np.mean(model.transform(x[:, : self._first], x[:, self._first :]), 0) for x in all_trials])


class ContrastOverTime(Method):
    """CEBRA-time (Schneider, Lee and Mathis 2023) as its authors set it up, where the package is installed.

    It learns from the training trials one after the other, as one recording, and embeds every trial by itself.
    """

    name = "CEBRA-time"
    package = "cebra"

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """From ten bins around every bin."""
        model = import_module("cebra").CEBRA(
            model_architecture="offset10-model", batch_size=512, learning_rate=3e-4, temperature=1.12, time_offsets=10,
            output_dimension=size, max_iterations=CONTRASTIVE_STEPS, distance="cosine", conditional="time",
        )  # fmt: skip
        with seeded(seed):
            model.fit(np.concatenate(training).astype(np.float32))
        return Latents([np.asarray(model.transform(x.astype(np.float32)), np.float64) for x in all_trials])


def latents_of(chosen: Mapping[str, Method], training: Bins, all_trials: Bins, size: int, seed: int) -> dict[str, Bins]:
    """Latents for every reading; what several of them chose is fitted once."""
    found = {each: each.latents(training, all_trials, size, seed).values for each in set(chosen.values())}
    return {name: found[each] for name, each in chosen.items()}


def scores_of(
    readings: Mapping[str, Reading], latents: Mapping[str, Bins], behaviour: Any, fold: tuple[Index, Index]
) -> dict[str, float]:
    """By every reading, from the latents that are for it: (training, held-out) trials."""
    return {
        name: readings[name](*(part for index in fold for part in (subset(each, index), subset(behaviour, index))))
        for name, each in latents.items()
    }


def smoothed(trials: Bins, width: float) -> Bins:
    """By a Gaussian, along time."""
    return [np.asarray(gaussian_filter1d(x, width, axis=0)) for x in trials] if width else trials
