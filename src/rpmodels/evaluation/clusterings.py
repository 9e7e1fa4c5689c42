"""States and topics without an RPM: k-means, Gaussian mixtures, a hidden Markov model, latent Dirichlet allocation."""

import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA, LatentDirichletAllocation
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from rpmodels.estimators import Latents
from rpmodels.evaluation.methods import Bins, ByBins, Canonical, Method, smoothed
from rpmodels.seeding import spawn

COMPONENTS = 20
"""Principal components that a Gaussian mixture sees."""
STARTS = 5
"""Of mixtures and hidden Markov models: EM keeps poor optima, and the likeliest of several is the honest rival."""
WORDS = 10
"""For every topic, as many clusters of parts stand for words."""
COUNTED_BEFORE = 1.1
"""Dirichlet parameter of the rows of a hidden Markov model: a state that nobody visits keeps a row that sums to one."""


class Clusters(Method):
    """k-means of single bins, after smoothing within trials."""

    def __init__(self, name: str, smoothing: float = 0.0) -> None:
        self.name = name
        self._smoothing = smoothing

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """A state for every bin, as probabilities of 0 and 1 too."""
        seen, every = (smoothed(each, self._smoothing) for each in (training, all_trials))
        return _sure(_clustered(seen, every, size, seed), size)


class WeightedClusters(Method):
    """k-means in which factors weigh the same, whatever their widths: columns are divided by the root of these."""

    name = "k-means, weighted"

    def __init__(self, widths: Sequence[int]) -> None:
        self._weights = np.repeat(1.0 / np.sqrt(widths), widths)

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """A state for every bin."""
        seen, every = ([x * self._weights for x in each] for each in (training, all_trials))
        return _sure(_clustered(seen, every, size, seed), size)


class CanonicalClusters(Method):
    """k-means of canonical variates of the first factor with the others: one fewer than states tell K places apart."""

    name = "CCA, k-means"

    def __init__(self, widths: Sequence[int]) -> None:
        self._canonical = Canonical(widths)

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """A state for every bin."""
        seen, every = _features(self._canonical, training, all_trials, max(1, size - 1), seed)
        return _sure(_clustered(seen, every, size, seed), size)


class MixtureOfComponents(Method):
    """Gaussians with covariances of their own, on principal components."""

    name = "Gaussian mixture"

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """A state for every bin, with its probability."""
        rows = np.concatenate(training)
        seen, every = _features(ByBins("PCA", PCA), training, all_trials, min(COMPONENTS, *rows.shape), seed)
        model = GaussianMixture(size, reg_covar=1e-4, n_init=STARTS, random_state=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(np.concatenate(seen))
        found = [model.predict_proba(x) for x in every]
        return Latents(found, states=[each.argmax(1) for each in found])


class GaussianHMM(Method):
    """hmmlearn's, with diagonal covariances, by EM from k-means, where the package is installed."""

    name = "Gaussian HMM"
    package = "hmmlearn"

    def latents(self, training: Bins, all_trials: Bins, size: int, seed: int) -> Latents:
        """The most probable sequence of states of every trial, and their probabilities bin by bin."""
        rows, lengths = np.concatenate(training), [len(each) for each in training]
        starts = [self._start(size, number).fit(rows, lengths) for number in spawn(seed, STARTS)]
        model = max(starts, key=lambda each: each.score(rows, lengths))
        return Latents([model.predict_proba(x) for x in all_trials], states=[model.predict(x) for x in all_trials])

    def _start(self, size: int, seed: int) -> Any:
        return import_module("hmmlearn.hmm").GaussianHMM(
            size, n_iter=200, random_state=seed, startprob_prior=COUNTED_BEFORE, transmat_prior=COUNTED_BEFORE
        )


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


def _features(method: Method, training: Bins, trials: Bins, size: int, seed: int) -> tuple[Bins, Bins]:
    """What a method of coordinates makes of the training trials, and of all."""
    found = method.latents(training, [*training, *trials], size, seed).values
    return found[: len(training)], found[len(training) :]


def _clustered(training: Bins, trials: Bins, size: int, seed: int) -> list[NDArray[Any]]:
    """The cluster of every row of every trial."""
    model = KMeans(size, n_init=10, random_state=seed).fit(np.concatenate(training))
    places = np.cumsum([len(each) for each in trials])[:-1]
    return list(np.split(model.predict(np.concatenate(trials)), places))


def _sure(states: list[NDArray[Any]], size: int) -> Latents:
    """States without doubts."""
    return Latents([np.eye(size)[each] for each in states], states=states)


def _counts(words: Sequence[NDArray[Any]], n_words: int) -> NDArray[np.int64]:
    return np.stack([np.bincount(each, minlength=n_words) for each in words])
