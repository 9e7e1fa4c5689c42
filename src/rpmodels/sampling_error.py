"""What a finite number of training observations leaves open about where latents have their zero and their unit.

Latents are N(0, C) a priori, and a fit can do no better than make those of its own observations look so. The true ones
of these observations have a mean m̂ and second moments S that differ from 0 and I by chance, so that, however much the
factors say,

    z − ẑ ≈ m̂ + ½ (S − I) ẑ,    Cov m̂ = (1/n) C̄,    Var S_ij = (1/n) mean over pairs of sites of C_ii C_jj + C_ij C_ji,

with n observations and C̄ the mean of Cov[z_t, z_s] over their pairs of sites (Isserlis for the second). Rotations are
left out: they are free in the model. No posterior given the parameters has this part, generative models' neither.

Where factors are not of the form that the data want, a fit may not even make latents look so: then the average q of its
own observations has other moments than the prior, and origin and scale are off by that much as well.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rpmodels.carriers import Excess, Sites
from rpmodels.families import Gaussian
from rpmodels.fitted import FittedRPM
from rpmodels.observations import Observations
from rpmodels.priors import HasCovariance, Prior

SITES = 256
"""Of an observation; more are thinned out evenly, as means over their pairs are all that is wanted."""

MANY = 2**16
"""Sites that are enough for the average q."""

Array = NDArray[np.floating]


@dataclass(frozen=True)
class SamplingError:
    """Of origin and scale."""

    origin: Float[Tensor, "K K"]
    """Covariance of the mean of the training latents."""
    scale: Float[Tensor, "K K"]
    """Variance of every entry of their second moments, which are taken as uncorrelated."""

    def covariance(self, mean: Array) -> Array:
        """(…, K, K): what it adds to the covariance of latents with these posterior means (…, K)."""
        origin, scale = (each.double().cpu().numpy() for each in (self.origin, self.scale))
        both = 0.25 * scale * mean[..., :, None] * mean[..., None, :]
        index = np.arange(mean.shape[-1])
        both[..., index, index] = 0.25 * np.square(mean) @ scale
        added: Array = origin + both
        return added

    def beside(self, excess: Excess | None) -> "SamplingError":
        """With what the fit itself is off by."""
        if excess is None:
            return self
        mean, second = (torch.as_tensor(each).to(self.origin) for each in (excess.mean, excess.second))
        return SamplingError(self.origin + mean[:, None] * mean, self.scale + second.square())


@torch.no_grad()
def excess_of(model: FittedRPM, observations: Observations) -> Excess | None:
    """Of these observations, or of some of them where they are many; None of priors that are not normal."""
    family = model.prior.family
    if not isinstance(family, Gaussian) or not isinstance(model.prior, HasCovariance):
        return None
    sites = observations.exists.sum(1)
    count = min(len(observations), int(np.searchsorted(np.cumsum(sites), MANY)) + 1)
    some = observations.subset(np.unique(np.linspace(0, len(observations) - 1, count).round().astype(np.int64)))
    means, spreads = [], []
    for each in model.posterior(some):
        there = each.batch.sites.exists
        means.append(family.moments(each.posterior.eta)[0][there].double())
        spreads.append(family.covariance(each.posterior.eta)[there].double())
    z, within = torch.cat(means), torch.cat(spreads).mean(0)
    mean, spread = _usual(model.prior, family, some.sites(model.device))
    second = within + (z - z.mean(0)).mT @ (z - z.mean(0)) / len(z)
    return Excess((z.mean(0) - mean).cpu().numpy(), (second - spread).cpu().numpy())


def _usual(prior: Prior, family: Gaussian, sites: Sites) -> tuple[Float[Tensor, "K"], Float[Tensor, "K K"]]:
    """Mean and covariance of a latent a priori, whichever site it is at."""
    eta = prior.reference(sites, shared=True).double()
    return family.moments(eta)[0][0], family.covariance(eta)[0]


@torch.no_grad()
def sampling_error(prior: Prior, times: Float[Tensor, "T"], n_sites: float) -> SamplingError | None:
    """After a fit to so many sites, `times` being those of the longest observation; None without covariances.

    All observations are taken to be as long as the longest, and as many as have these sites in all.
    """
    if not isinstance(prior, HasCovariance):
        return None
    kept = torch.linspace(0, len(times) - 1, min(len(times), SITES), device=times.device).round().long()
    covariances = prior.covariances(times, kept).double()
    n = n_sites / len(times)
    pairs = covariances.shape[0] * covariances.shape[1]
    own = covariances.diagonal(dim1=2, dim2=3)
    squares = torch.einsum("tsi,tsj->ij", own, own) + torch.einsum("tsij,tsji->ij", covariances, covariances)
    return SamplingError(covariances.mean((0, 1)) / n, squares / (pairs * n))
