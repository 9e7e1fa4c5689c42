"""Latents without an RPM: what a comparison puts beside states, coordinates and topics."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from sklearn.cluster import KMeans
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import PCA, FactorAnalysis, LatentDirichletAllocation

from rpmodels import errors
from rpmodels.baselines import GPFA
from rpmodels.estimators import Circle, Coordinates, LatentKind, Latents, Proportions, States

Bins = list[NDArray[np.float64]]
SMOOTHING = 5.0
"""Bins (sd) of what is smoothed first."""
WORDS = 10
"""For every topic, as many clusters of parts stand for words."""


class Method(ABC):
    """Methods see scaled bins, factors side by side, zero (the mean) where absent."""

    name: str

    @abstractmethod
    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """Fitted to some trials, applied to all: lists, with states where there are some."""


class ByBins(Method):
    """Any of scikit-learn's decompositions of single bins, after smoothing within trials."""

    def __init__(self, name: str, kind: Any, smoothing: float = 0.0) -> None:
        self.name = name
        self._kind = kind
        self._smoothing = smoothing

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """Bin by bin."""
        rows = np.concatenate(_smoothed(training, self._smoothing))
        model = self._kind(size, random_state=seed).fit(rows)
        return Latents([model.transform(x) for x in _smoothed(all_trials, self._smoothing)])


class LinearGPFA(Method):
    """`baselines.GPFA`."""

    name = "GPFA"

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """Smoothed by its own Gaussian processes."""
        return Latents(list(GPFA(size, random_state=seed).fit(training).transform(all_trials)))


class Canonical(Method):
    """Canonical correlation analysis of the first factor with the others; latents are the mean of both sides."""

    name = "CCA"

    def __init__(self, first: int) -> None:
        self._first = first

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """Bin by bin."""
        rows = np.concatenate(training)
        most = min(size, self._first, rows.shape[1] - self._first)
        model = CCA(most, max_iter=2000).fit(rows[:, : self._first], rows[:, self._first :])
        return Latents([np.mean(model.transform(x[:, : self._first], x[:, self._first :]), 0) for x in all_trials])


class Clusters(Method):
    """k-means of single bins, after smoothing within trials."""

    def __init__(self, name: str, smoothing: float = 0.0) -> None:
        self.name = name
        self._smoothing = smoothing

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """A state for every bin, as probabilities of 0 and 1 too."""
        seen, every = (_smoothed(each, self._smoothing) for each in (training, all_trials))
        states = _clustered(seen, every, size, seed)
        return Latents([np.eye(size)[each] for each in states], states=states)


class Shares(Method):
    """k-means of parts; the share of every cluster in an observation."""

    name = "k-means"

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """One row of shares for every observation, a state for every part."""
        states = _clustered(training, all_trials, size, seed)
        return Latents([np.eye(size)[each].mean(0, keepdims=True) for each in states], states=states)


class WordsAndTopics(Method):
    """Latent Dirichlet allocation over words that are clusters of parts."""

    name = "k-means, LDA"

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """One row of topics for every observation, and the most probable topic of every part."""
        words = min(WORDS * size, sum(map(len, training)))
        seen, every = (_clustered(training, each, words, seed) for each in (training, all_trials))
        model = LatentDirichletAllocation(size, random_state=seed).fit(_counts(seen, words))
        shares = model.transform(_counts(every, words))
        of_words = model.components_ / model.components_.sum(1, keepdims=True)
        states = [(share[:, None] * of_words).argmax(0)[each] for share, each in zip(shares, every, strict=True)]
        return Latents([share[None] for share in shares], states=states)


@dataclass(frozen=True)
class Rivals:
    """What a kind of latents is compared with."""

    always: tuple[Method, ...]
    over_time: tuple[Method, ...] = ()
    """Where trials have several bins."""
    between_factors: bool = False
    """Whether two factors or more ask for canonical correlations."""
    of_sites: bool = False
    """Whether latents are states of single sites, so that the label of a trial is that of all its sites."""

    def methods(self, widths: Sequence[int], longest: int) -> list[Method]:
        """From the channels of the factors and the length of the longest trial."""
        canonical = [Canonical(widths[0])] if self.between_factors and len(widths) > 1 else []
        return [*self.always, *(self.over_time if longest > 1 else ()), *canonical]


LINEAR = Rivals(
    (ByBins("PCA", PCA), ByBins("FA", FactorAnalysis)),
    (ByBins("PCA, smoothed", PCA, SMOOTHING), LinearGPFA()),
    between_factors=True,
)
RIVALS: dict[type[LatentKind], Rivals] = {
    Coordinates: LINEAR,
    Circle: LINEAR,
    States: Rivals((Clusters("k-means"),), (Clusters("k-means, smoothed", SMOOTHING),), of_sites=True),
    Proportions: Rivals((Shares(), WordsAndTopics())),
}


def rivals_of(latent: LatentKind) -> Rivals:
    """Of this kind of latents."""
    if type(latent) not in RIVALS:
        raise errors.no_rivals(type(latent).__name__)
    return RIVALS[type(latent)]


def _smoothed(trials: Bins, width: float) -> Bins:
    return [np.asarray(gaussian_filter1d(x, width, axis=0)) for x in trials] if width else trials


def _clustered(training: Bins, trials: Bins, size: int, seed: int) -> list[NDArray[Any]]:
    """The cluster of every row of every trial."""
    model = KMeans(size, n_init=10, random_state=seed).fit(np.concatenate(training))
    places = np.cumsum([len(each) for each in trials])[:-1]
    return list(np.split(model.predict(np.concatenate(trials)), places))


def _counts(words: Sequence[NDArray[Any]], n_words: int) -> NDArray[np.int64]:
    return np.stack([np.bincount(each, minlength=n_words) for each in words])
