"""What training observations leave open about where latents have their zero and their unit.

Latents are N(μ, C) a priori, and a fit can do no better than make those of its own observations look so. The true ones
of these observations have a mean m̂ and a covariance S that differ from μ and C by chance, so that, where factors say
nearly all,

    z − ẑ ≈ m̂ − μ + ½ (S − C) C⁻¹ (ẑ − μ),
    n Cov m̂ = mean of Cov[z_t, z_s],    n Var S_ij = mean of C_ii C_jj + C_ij C_ji

with n observations and means over their pairs of sites (Isserlis for the second). Where factors say less, ẑ is nearer
to μ and the first part counts by 1 − V/C. Rotations are left out: they are free in the model. No posterior given the
parameters has this part, generative models' neither.

A fit need not make latents look so where factors are not of the form that the data want: the average q of its own
observations has another mean and covariance Q than the prior. Then latents are off by (I − C^½ Q^−½) (ẑ − μ) as well.
"""

from dataclasses import dataclass
from typing import cast

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

SITES = 128
"""Of an observation; more are thinned out evenly, as means over their pairs are all that is wanted."""
MANY = 2**16
"""Sites that are enough for the average q; of populations channels of sites, times sixteen."""
PAIRS = 2**24
"""Of sites and atoms, where an E-step looks at the mixtures."""

Array = NDArray[np.floating]


@dataclass(frozen=True)
class SamplingError:
    """Of origin and scale, beside the prior's own mean and variances."""

    origin: Float[Tensor, "K K"]
    """Covariance of the mean of the training latents."""
    scale: Float[Tensor, "K K"]
    """Variance of every entry of their covariance, which are taken as uncorrelated."""
    centre: Float[Tensor, "K"]
    variances: Float[Tensor, "K"]
    excess: Excess | None = None

    def covariance(self, mean: Array, spread: Array) -> Array:
        """(…, K, K): what it adds to posteriors with these means (…, K) and covariances (…, K, K)."""
        origin, scale, centre, variances = (
            each.double().cpu().numpy() for each in (self.origin, self.scale, self.centre, self.variances)
        )
        index = np.arange(len(centre))
        told = np.eye(len(centre)) - spread / variances
        away = (mean - centre) / variances
        added = 0.25 * scale * away[..., :, None] * away[..., None, :]
        added[..., index, index] = 0.25 * np.square(away) @ scale
        added = added + told @ origin @ np.swapaxes(told, -1, -2)
        if self.excess is not None:
            off = self.excess.mean + (mean - centre - self.excess.mean) @ self.excess.stretch.T
            added = added + off[..., :, None] * off[..., None, :]
        summed: Array = added
        return summed


@torch.no_grad()
def excess_of(model: FittedRPM, observations: Observations) -> Excess | None:
    """Of these observations, or of some of them where they are many; None where `sampling_error` has none."""
    family, prior = model.prior.family, model.prior
    if not isinstance(family, Gaussian) or not isinstance(prior, HasCovariance) or prior.driven:
        return None
    usable = observations.subset(observations.usable())
    some = usable.some(max(1, int(_affordable(model, usable) / usable.exists.sum(1).mean())))
    means, spreads, weights = [], [], []
    for each in model.posterior(some):
        there = each.batch.sites.exists
        means.append(family.moments(each.posterior.eta)[0][there].cpu().double())
        spreads.append(family.covariance(each.posterior.eta)[there].cpu().double())
        weights.append(each.batch.weights[:, None].expand_as(there)[there].cpu().double())
    z, share = torch.cat(means), torch.cat(weights)
    share = share / share.sum()
    mean, variances = _usual(prior, model.sites(1))
    average = share @ z
    second = torch.einsum("n,nij->ij", share, torch.cat(spreads)) + ((z - average).mT * share) @ (z - average)
    root = variances.sqrt()
    values, vectors = torch.linalg.eigh(second / root / root[:, None])
    shrunk = vectors @ (values.clamp_min(torch.finfo(values.dtype).eps).rsqrt()[:, None] * vectors.mT)
    stretch = (torch.eye(len(root)).to(shrunk) - shrunk) * root[:, None] / root
    return Excess((average - mean).numpy(), stretch.numpy())


def _affordable(model: FittedRPM, observations: Observations) -> float:
    """Sites."""
    populations = [each.curves() is not None for _, each in model.pattern.recognisers()]
    if any(populations):
        return 16 * MANY / sum(observations.specs[name].event_shape[0] for name in model.names)
    if model.pattern.e_step.for_new_data().passes == 1:
        return MANY
    atoms = sum(model.atoms(name).g.shape[1] for name in model.names)
    return min(MANY, PAIRS / max(1, atoms * model.pattern.e_step.for_new_data().passes))


def _usual(prior: HasCovariance, sites: Sites) -> tuple[Float[Tensor, "K"], Float[Tensor, "K"]]:
    """Mean and variances of the latents a priori, which are the same at every site."""
    family = cast(Gaussian, prior.family)
    eta = prior.reference(sites, shared=True).cpu().double()
    return family.moments(eta)[0][0], family.covariance(eta)[0].diagonal()


@torch.no_grad()
def sampling_error(prior: Prior, sites: Sites, n_sites: float, excess: Excess | None = None) -> SamplingError | None:
    """After a fit to so many sites; None of priors that are driven, or have no covariances.

    All observations are taken to be as long as the longest, whose sites these are, and as many as have n_sites in all.
    """
    if not isinstance(prior, HasCovariance) or prior.driven:
        return None
    times = sites.times[0]
    kept = torch.linspace(0, len(times) - 1, min(len(times), SITES), device=times.device).round().long()
    covariances = prior.covariances(times, kept).cpu().double()
    n = n_sites / len(times)
    own = covariances.diagonal(dim1=2, dim2=3)
    squares = torch.einsum("tsi,tsj->ij", own, own) + torch.einsum("tsij,tsji->ij", covariances, covariances)
    scale = squares / (len(kept) ** 2 * n)
    return SamplingError(covariances.mean((0, 1)) / n, scale, *_usual(prior, sites), excess)
