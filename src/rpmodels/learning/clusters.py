"""Ways to guess states before anything is learnt. None of them is the best everywhere, so several compete."""

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from rpmodels.learning.spectra import are_images, spectral_features
from rpmodels.learning.teaching import compact_features, k_means
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.recognition import GenerativeFactor

COMPONENTS = 20
"""Principal components that a Gaussian mixture sees."""
NEARLY = 1e-6
"""Nats by which labels may differ and say the same."""


class Clusters(ABC):
    """States of all sites (N·T,), by a simple method."""

    name: str

    @abstractmethod
    def __call__(self, model: RPM, observations: Observations, n_states: int, seed: int) -> NDArray[np.int64] | None:
        """One state for every site, whether it exists or not; None where the method has nothing to say."""


class KMeans(Clusters):
    """k-means of what the networks see, all factors side by side; `by_factor` weighs factors and not columns."""

    def __init__(self, by_factor: bool = True, n_init: int = 10) -> None:
        self.by_factor, self.n_init = by_factor, n_init
        self.name = "k-means" if by_factor else "k-means of columns"

    def __call__(self, model: RPM, observations: Observations, n_states: int, seed: int) -> NDArray[np.int64] | None:
        """Of the sites that exist."""
        rows = compact_features(model, observations, seed, self.by_factor)
        return _everywhere(k_means(rows[observations.exists.ravel()], n_states, seed, self.n_init), observations)


class Mixture(Clusters):
    """A mixture of Gaussians with covariances of their own, on principal components."""

    name = "Gaussian mixture"

    def __call__(self, model: RPM, observations: Observations, n_states: int, seed: int) -> NDArray[np.int64] | None:
        """Of the sites that exist."""
        rows = compact_features(model, observations, seed, by_factor=True, components=COMPONENTS)
        mixture = GaussianMixture(n_states, covariance_type="full", reg_covar=1e-4, random_state=seed % 2**32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = mixture.fit_predict(rows[observations.exists.ravel()])
        return _everywhere(np.asarray(found, np.int64), observations)


def named(found: NDArray[np.int64], model: RPM, observations: Observations, n_states: int) -> NDArray[np.int64]:
    """Clusters in the order in which pinned labels are most probable, if there are some; a site with one follows it."""
    said = _pinned(model, observations, n_states)
    if said is None:
        return found
    votes = np.zeros((n_states, n_states))
    np.add.at(votes, found, said)
    states = linear_sum_assignment(votes, maximize=True)[1][found]
    # Of several states that have the label of a site, the one that its cluster has, where it is among them.
    fits = said[np.arange(len(states)), states] >= said.max(1) - NEARLY
    return np.asarray(np.where(fits, states, said.argmax(1)), np.int64)


@torch.no_grad()
def _pinned(model: RPM, observations: Observations, n_states: int) -> NDArray[np.float64] | None:
    """Σ log p(label | state)/p₀ of the pinned labels of every site (N·T, K), zero where there is none; None of none."""
    total: NDArray[np.float64] | None = None
    for name, each in model.recognisers():
        if isinstance(each, GenerativeFactor) and not each.network.learned and each.family.n_states == n_states:
            have = observations.present[name].reshape(-1)
            codes = torch.as_tensor(np.array(observations.values[name]).reshape(-1), device=model.device)
            potentials = each.network(codes).double().cpu().numpy() * have[:, None]
            total = potentials if total is None else total + potentials
    return total


class Spectra(Clusters):
    """k-means of power spectra, for textures: clusters of pixels are shades of grey (docs/results/lda.md).

    Many starts of k-means: its own poor optima shall not decide where a fit begins.
    """

    name = "spectra"
    n_init = 20

    def __call__(self, model: RPM, observations: Observations, n_states: int, seed: int) -> NDArray[np.int64] | None:
        """Of images; other observations have no spectra."""
        if not are_images(observations):
            return None
        rows = spectral_features(model, observations, seed)[observations.exists.ravel()]
        return _everywhere(k_means(rows, n_states, seed, self.n_init), observations)


def _everywhere(found: NDArray[np.int64], observations: Observations) -> NDArray[Any]:
    states = np.zeros(observations.exists.size, np.int64)
    states[observations.exists.ravel()] = found
    return states
