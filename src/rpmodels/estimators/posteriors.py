"""Continuous latents as the user gets them: posteriors with joint draws, and marginals of filters and forecasts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.stats import norm
from torch import Tensor

from rpmodels.estimators.layout import Layout, joined
from rpmodels.families import Gaussian
from rpmodels.fitted import FittedRPM
from rpmodels.priors import Posterior
from rpmodels.sampling_error import SamplingError, sampling_error
from rpmodels.seeding import spawn


def variances(covariance: Any) -> Any:
    """Diagonals (…, K) of covariances (…, K, K): an array or a list of them."""
    if isinstance(covariance, list):
        return [variances(each) for each in covariance]
    return np.diagonal(covariance, axis1=-2, axis2=-1)


def central(mean: Any, variance: Any, level: float) -> tuple[Any, Any]:
    """Ends of the central intervals of normals that hold this much probability, each like the mean."""
    width = float(norm.ppf(0.5 + 0.5 * level))
    if isinstance(mean, list):
        spreads = [width * np.sqrt(each) for each in variance]
        pairs = list(zip(mean, spreads, strict=True))
        return [each - spread for each, spread in pairs], [each + spread for each, spread in pairs]
    spread = width * np.sqrt(variance)
    return mean - spread, mean + spread


@dataclass(frozen=True)
class LatentMarginals:
    """Means (…, K) and covariances (…, K, K) over the latents at every time, arrays or lists as the data were."""

    mean: Any
    covariance: Any
    times: Any
    """When they are, in the same form."""

    @property
    def variance(self) -> Any:
        """(…, K)."""
        return variances(self.covariance)

    def bands(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of the central intervals that hold this much probability, each like the mean."""
        return central(self.mean, self.variance, level)


@dataclass(frozen=True)
class LatentPosterior:
    """The latents as the model sees them, in the form of the input: arrays (…, K), or lists of them."""

    mean: Any
    covariance: Any
    """(…, K, K): over the latents, at every time."""
    times: Any
    """When they are, in the same form; None for data without time."""
    draws: Callable[[int, int], Any]
    sampling: Callable[[], SamplingError | None] = lambda: None
    """What the training data leave open about origin and scale of the latents, when it is asked for."""

    @property
    def variance(self) -> Any:
        """(…, K)."""
        return variances(self.covariance)

    @property
    def uncertainty(self) -> Any:
        """(…, K, K): the covariance, and what the training data leave open about origin and scale of the latents.

        The covariance is that of q, given the model as it was found. How far latents are from what they would be on the
        scale of their prior is more than that: training data are a sample of it, and their average q may not be the
        prior (`rpmodels.sampling_error`). Where a mean function or inputs drive latents it is the covariance alone.
        """
        error = self.sampling()
        if error is None:
            return self.covariance
        if isinstance(self.mean, list):
            pairs = zip(self.mean, self.covariance, strict=True)
            return [covariance + error.covariance(mean, covariance) for mean, covariance in pairs]
        return self.covariance + error.covariance(self.mean, self.covariance)

    def bands(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of the central intervals, by `uncertainty`, that hold this much, each like the mean."""
        return central(self.mean, variances(self.uncertainty), level)

    def sample(self, n_samples: int = 1, random_state: int = 0) -> Any:
        """Joint draws over all times and latents: a list of `n_samples`, each in the form of the mean."""
        return self.draws(n_samples, random_state)


def described(model: FittedRPM, posteriors: Sequence[Posterior], layout: Layout, n_sites: int) -> LatentPosterior:
    """Batches of posteriors, in the form of the data."""
    mean, covariance = moments_of(model, [posterior.eta for posterior in posteriors], n_sites)

    def draws(n_samples: int, random_state: int) -> list[Any]:
        generator = torch.Generator(model.device).manual_seed(spawn(random_state, 1)[0])
        with torch.no_grad():
            return [
                layout.form(joined([posterior.sample(generator) for posterior in posteriors], n_sites))
                for _ in range(n_samples)
            ]

    forms = (layout.form(mean), layout.form(covariance), layout.times)
    return LatentPosterior(
        *forms, draws, partial(sampling_error, model.prior, model.sites(1), model.n_sites, model.excess)
    )


def moments_of(model: FittedRPM, etas: Sequence[Tensor], n_sites: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Means and covariances of batches of sites, each as one array."""
    found = [moments(cast(Gaussian, model.prior.family), eta) for eta in etas]
    mean, covariance = (joined(each, n_sites) for each in zip(*found, strict=True))
    return mean, covariance


@torch.no_grad()
def means(family: Gaussian, posteriors: Iterable[Posterior]) -> list[Float[Tensor, "N T K"]]:
    """Of batches of posteriors, at every site."""
    return [family.moments(each.eta)[0] for each in posteriors]


@torch.no_grad()
def moments(family: Gaussian, eta: Float[Tensor, "N T D"]) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "N T K K"]]:
    """Mean and covariance at every site."""
    return family.moments(eta)[0], family.covariance(eta)
