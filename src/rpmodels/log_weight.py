"""log W(X), the exact log-likelihood ratio behind the free energy (eq 4): by quadrature, or by importance sampling.

log W = log ∫ p(Z) ∏_jt f_j/F_j dZ. The free energy is a bound of it; these are the number itself, with its error.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import checks, errors
from rpmodels.families import Family, HasGrid, Reparametrised
from rpmodels.fitted import FittedRPM, Inferred
from rpmodels.mixtures import AtomMixture, PopulationMixture
from rpmodels.mixtures.quadrature import GaussHermite, hermite
from rpmodels.observations import Observations
from rpmodels.priors import HasLogDensity


@dataclass(frozen=True)
class LogWeight:
    """log W of every observation in nats, with the standard error of each.

    By quadrature that is the difference from twice as many nodes (along every latent).
    """

    values: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    effective_samples: NDArray[np.float64]


def by_method(
    method: str, model: FittedRPM, observations: Observations, draws: int, nodes: int, seed: int
) -> LogWeight:
    """By the name of the method: "importance" or "quadrature"."""
    if method == "quadrature":
        return by_quadrature(model, observations, nodes)
    if method != "importance":
        raise errors.bad_choice("method", ("importance", "quadrature"), method)
    return importance(model, observations, draws, torch.Generator(model.device).manual_seed(seed))


@torch.no_grad()
def importance(model: FittedRPM, observations: Observations, draws: int, generator: torch.Generator) -> LogWeight:
    """From `draws` joint samples of q: unbiased for W; the standard error is that of log W by the delta method."""
    checks.integer("draws", draws, 2)
    logs, spreads, sizes = [], [], []
    for each in model.posterior(observations):
        weights = torch.stack([_log_weight(each, model.prior.family, generator) for _ in range(draws)])
        top = torch.logsumexp(weights, 0)
        logs.append(top - math.log(draws))
        shares = (weights - top).exp()
        sizes.append(1.0 / shares.square().sum(0))
        spreads.append((shares * draws).std(0) / math.sqrt(draws))
    return LogWeight(*(torch.cat(each).double().cpu().numpy() for each in (logs, spreads, sizes)))


@torch.no_grad()
def by_quadrature(model: FittedRPM, observations: Observations, nodes: int) -> LogWeight:
    """For one site per observation and priors with a density.

    On a grid over the whole space of the latent where its family has one, else Gauss–Hermite around q, for at most
    three latents.
    """
    prior, family = model.prior, model.prior.family
    checks.integer("nodes", nodes, 1)
    if not isinstance(family, HasGrid):
        GaussHermite(nodes).check(family)
    if not isinstance(prior, HasLogDensity):
        raise errors.needs_log_density(type(prior).__name__)
    if observations.n_sites != 1:
        raise errors.one_site_only(observations.n_sites)
    logs = []
    for each in model.posterior(observations):
        rules = [_places(family, each.posterior.eta, count) for count in (nodes, 2 * nodes)]
        logs.append(torch.stack([_integral(model, each, *rule) for rule in rules]))
    values, finer = torch.cat(logs, 1).double().cpu().numpy()
    return LogWeight(values, np.abs(values - finer), np.full_like(values, np.inf))


def _integral(
    model: FittedRPM, inferred: Inferred, z: Shaped[Tensor, "N T Q *z"], log_weights: Float[Tensor, "..."]
) -> Float[Tensor, "N"]:
    """log Σ weight p(z) ∏_j f_j/F_j."""
    prior = model.prior
    assert isinstance(prior, HasLogDensity)
    log_p = prior.log_density(z.movedim(2, 0), inferred.batch.sites).mT
    ratios = _log_ratios(inferred, prior.family.statistic(z))
    return torch.logsumexp(log_p + (ratios + log_weights)[:, 0], -1)


def _places(
    family: Family, eta: Float[Tensor, "N T D"], nodes: int
) -> tuple[Shaped[Tensor, "N T Q *z"], Float[Tensor, "..."]]:
    """Values of z for every site, and the log of what each stands for in ∫ dz."""
    if isinstance(family, HasGrid):
        z, weight = family.grid(nodes)
        return z.to(eta).expand(*eta.shape[:2], *z.shape), eta.new_tensor(weight).log()
    assert isinstance(family, Reparametrised)
    points, weights = hermite(nodes, family.noise_size(), eta)
    around = family.reparametrise(eta[:, :, None], points.expand(*eta.shape[:2], -1, -1))
    return around, weights.log() - family.log_density(eta[:, :, None], family.statistic(around))


def _log_weight(inferred: Inferred, family: Family, generator: torch.Generator) -> Float[Tensor, "N"]:
    """log p/q + Σ_jt log f_j/F_j at one joint draw."""
    z, log_ratio = inferred.posterior.draw(generator)
    statistic = family.statistic(z).to(log_ratio.dtype)
    return log_ratio + _log_ratios(inferred, statistic[:, :, None])[..., 0].sum(-1)


def _log_ratios(inferred: Inferred, statistic: Float[Tensor, "N T Q D"]) -> Float[Tensor, "N T Q"]:
    """Σ_j log f_j(z|x_j)/F_j(z) over what is present, given t(z)."""
    total = statistic.new_zeros(statistic.shape[:-1])
    for name, factor in inferred.factors.items():
        mixture = inferred.mixtures[name]
        assert isinstance(mixture, AtomMixture | PopulationMixture)
        ratio = mixture.log_weight(factor, factor.targets.mean(statistic))
        total = total + torch.where(factor.present[..., None], ratio, torch.zeros_like(ratio))
    return total
