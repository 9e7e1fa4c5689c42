"""What the channels of a population are expected to show: p(x_c | u) = p₀ f_c/F_c, averaged over the latents.

Recognition alone implies it (eq 1–2): no decoder, no Poisson assumption, and a channel that was not recorded is
predicted from the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import errors
from rpmodels.fitted import FittedRPM, Inferred
from rpmodels.inference import EStep, summed_potentials
from rpmodels.mixtures import PopulationMixture
from rpmodels.mixtures.quadrature import hermite
from rpmodels.observations import Observations
from rpmodels.recognition import ChannelCurves

NODES = 9
"""Of Gauss–Hermite along every projection."""


@dataclass(frozen=True)
class Predicted:
    """Of the channels of one population at some sites."""

    rates: Float[Tensor, "N T C"]
    """⟨E[x_c | u_c]⟩."""
    probabilities: Float[Tensor, "N T C A"]
    """⟨p(x_c = value | u_c)⟩ of every value of the channel's grid."""


def curves_of(model: FittedRPM, name: str) -> ChannelCurves:
    """The curves of a population; refused where a factor is none."""
    network = model.recogniser(name).network
    if not isinstance(network, ChannelCurves):
        raise errors.no_population(name, [n for n in model.names if is_population(model, n)])
    return network


def is_population(model: FittedRPM, name: str) -> bool:
    """Whether the channels of a factor are recognised one by one."""
    return model.recogniser(name).curves() is not None


@torch.no_grad()
def distances(model: FittedRPM, name: str) -> Float[Tensor, "C"]:
    """How far F_c of every channel is from the prior in nats, by its moments: in the model itself they are equal."""
    return cast(PopulationMixture, model.summary(name)).distances()


@torch.no_grad()
def predicted(
    model: FittedRPM, observations: Observations, name: str, e_step: EStep | None = None
) -> Iterator[Predicted]:
    """Under the posterior of these observations, batch by batch: of channels that were not seen, too."""
    means = curves_of(model, name).means.to(model.dtype)
    for inferred in model.posterior(observations, e_step):
        u, weights = _along(inferred, name)
        mixture = cast(PopulationMixture, inferred.mixtures[name])
        probabilities = torch.einsum("ntqca,q->ntca", mixture.log_probabilities(u).exp(), weights)
        yield Predicted((probabilities * means).sum(-1), probabilities)


def _along(inferred: Inferred, name: str) -> tuple[Float[Tensor, "N T Q C"], Float[Tensor, "Q"]]:
    """Nodes of every projection under q."""
    mixture = cast(PopulationMixture, inferred.mixtures[name])
    mean, sd = mixture.seen_along(inferred.posterior.marginal(inferred.factors[name].targets))
    points, weights = hermite(NODES, 1, mean)
    return mean[:, :, None] + sd[:, :, None] * points, weights


@torch.no_grad()
def tuning(model: FittedRPM, name: str, u: Float[Tensor, "U"]) -> Float[Tensor, "C U"]:
    """E[x_c | u] of every channel, at these values of its projection."""
    means = curves_of(model, name).means.to(model.dtype)
    mixture = cast(PopulationMixture, model.summary(name))
    points = u.to(model.dtype)[None, None, :, None].expand(-1, -1, -1, len(means))
    return (mixture.log_probabilities(points)[0, 0].exp() * means).sum(-1).mT


@torch.no_grad()
def contributions(model: FittedRPM, observations: Observations) -> dict[str, Float[Tensor, "N C"]]:
    """Nats that every factor, and every channel of a population, brings to each observation: KL(q‖q without it).

    q ∝ p exp(λ·t) has log Z(λ) = λ·μ − KL(q‖p), which gives the divergence of any two of them.
    """
    parts: dict[str, list[Tensor]] = {name: [] for name in model.names}
    for inferred in model.posterior(observations):
        prior, sites = model.prior, inferred.batch.sites
        whole = summed_potentials(inferred.factors)
        q = prior.condition(whole, sites)
        log_z = (whole * q.mu).sum((1, 2)) - q.kl
        for name, factor in inferred.factors.items():
            each = []
            for g in _parts(name, inferred):
                without = whole - factor.targets.embed(g)
                other = prior.condition(without, sites)
                log_other = (without * other.mu).sum((1, 2)) - other.kl
                each.append(((whole - without) * q.mu).sum((1, 2)) - log_z + log_other)
            parts[name].append(torch.stack(each, -1))
    return {name: torch.cat(each) for name, each in parts.items()}


def _parts(name: str, inferred: Inferred) -> Iterator[Float[Tensor, "N T D"]]:
    """The potential of a factor, or of each of its channels."""
    factor = inferred.factors[name]
    if factor.channels is None:
        yield factor.known()
        return
    seen = factor.channels
    for c, w in enumerate(seen.curves.directions):
        pair = (w[:, None] * w).flatten()
        yield torch.cat([seen.a[..., c, None] * w, -0.5 * seen.b[..., c, None] * pair], -1)
