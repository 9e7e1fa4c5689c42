"""Values of Z, and what each of them counts for in W = ∫ p(Z) ∏_jt f_j/F_j dZ (eq 4): on a grid, or drawn from q.

log W is the log of the sum of these weights, and an average with them is one under p(Z | X) itself, whatever q is.
"""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from rpmodels import checks, errors, memory
from rpmodels.carriers import AllLatents
from rpmodels.families import Family, HasGrid, Reparametrised
from rpmodels.fitted import FittedRPM, Inferred
from rpmodels.mixtures import AtomMixture, ExpectedLogMixture, PopulationMixture
from rpmodels.mixtures.quadrature import DOUBLINGS, GaussHermite, hermite
from rpmodels.observations import Observations
from rpmodels.priors import HasLogDensity, Posterior, Prior

MOST_DRAWS, MOST_NODES, MOST_ANGLES = 100_000, 1000, 2**16
"""Of one posterior, and along one latent: of Gauss–Hermite rules, and of a circle."""
PLACE = 2**14
"""Bytes that a place of a grid needs at least, with all observations of a batch."""


def check_grid(model: FittedRPM, sites: int, nodes: int) -> None:
    """Refuse what cannot be summed on a grid: it takes one site, a prior with a density, at most three latents."""
    prior, family = model.prior, model.prior.family
    checks.integer("nodes", nodes, 1, MOST_ANGLES if isinstance(family, HasGrid) else MOST_NODES)
    if not isinstance(family, HasGrid):
        GaussHermite(nodes).check(family)
    if not isinstance(prior, HasLogDensity):
        raise errors.needs_log_density(type(prior).__name__)
    if sites != 1:
        raise errors.one_site_only(sites)
    latents = family.noise_size() if isinstance(family, Reparametrised) else 1
    memory.afford("nodes", nodes, PLACE * (2.0 * nodes) ** latents)


def on_a_grid(prior: Prior, inferred: Inferred, nodes: int) -> tuple[Shaped[Tensor, "N T Q *z"], Float[Tensor, "N Q"]]:
    """Places over the whole space of the latent where its family has a grid, else Gauss–Hermite around q."""
    assert isinstance(prior, HasLogDensity)
    if isinstance(prior.family, HasGrid):
        z, log_weights = all_over(prior.family, inferred.posterior.eta, nodes)
    else:
        z, log_weights = _around(prior.family, inferred.posterior, nodes)
    log_p = prior.log_density(z.movedim(2, 0), inferred.batch.sites).mT
    return z, log_p + (_log_ratios(inferred, prior.family.statistic(z)) + log_weights)[:, 0]


def all_over(
    family: HasGrid, like: Float[Tensor, "N T D"], nodes: int
) -> tuple[Shaped[Tensor, "N T Q *z"], Float[Tensor, ""]]:
    """Values of z for every site, and the log of what each stands for in ∫ dz."""
    z, weight = family.grid(nodes)
    return z.to(like).expand(*like.shape[:2], *z.shape), like.new_tensor(weight).log()


def _around(
    family: Family, posterior: Posterior, nodes: int
) -> tuple[Shaped[Tensor, "N T Q *z"], Float[Tensor, "N T Q"]]:
    """The same by nodes around every normal that q consists of: ∫ h = Σ_c share_c ⟨h/q⟩ under the c-th of them."""
    assert isinstance(family, Reparametrised)
    members = [(share, each.eta[:, :, None]) for share, each in posterior.members(AllLatents())]
    points, weights = hermite(nodes, family.noise_size(), members[0][1][:, :, 0])
    shares = [share.log().expand(eta.shape[:2])[..., None] for share, eta in members]
    every = [family.reparametrise(eta, points.expand(*eta.shape[:2], -1, -1)) for _, eta in members]
    z = torch.cat(every, 2)
    t = family.statistic(z)
    log_q = [share + family.log_density(eta, t) for share, (_, eta) in zip(shares, members, strict=True)]
    own = torch.cat([share + weights.log() for share in shares], 2)
    return z, own - torch.logsumexp(torch.stack(log_q), 0)


def to_tolerance(
    model: FittedRPM, observations: Observations, quadrature: ExpectedLogMixture, tolerance: float
) -> ExpectedLogMixture:
    """⟨log F⟩ by as many nodes as make the error at most `tolerance` nats a site, if few doublings do."""
    checks.number("tolerance", tolerance, above=0.0)
    sites = int(observations.exists.sum()) / max(1, len(observations))
    for _ in range(DOUBLINGS):
        finer = quadrature.finer()
        if finer is None or model.quadrature_error(observations, quadrature) <= tolerance * sites:
            break
        quadrature = finer
    return quadrature


def drawn(
    family: Family, inferred: Inferred, generator: torch.Generator
) -> tuple[Shaped[Tensor, "N T *z"], Float[Tensor, "N"]]:
    """A joint draw of q for every observation, and log p/q + Σ_jt log f_j/F_j there."""
    z, log_ratio = inferred.posterior.draw(generator)
    statistic = family.statistic(z).to(log_ratio.dtype)
    return z, log_ratio + _log_ratios(inferred, statistic[:, :, None])[..., 0].sum(-1)


def _log_ratios(inferred: Inferred, statistic: Float[Tensor, "N T Q D"]) -> Float[Tensor, "N T Q"]:
    """Σ_j log f_j(z|x_j)/F_j(z) over what is present, given t(z)."""
    total = statistic.new_zeros(statistic.shape[:-1])
    for name, factor in inferred.factors.items():
        mixture = inferred.mixtures[name]
        if not bool(factor.present.any()):
            continue
        assert isinstance(mixture, AtomMixture | PopulationMixture)
        ratio = mixture.log_weight(factor, factor.targets.mean(statistic))
        total = total + torch.where(factor.present[..., None], ratio, torch.zeros_like(ratio))
    return total
