"""Posteriors through inducing variables: q(v) = N(μ, Σ) in whitened coordinates, and the latents it implies."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import linalg
from rpmodels.carriers import Sites
from rpmodels.families import Gaussian
from rpmodels.priors.conditioning import WHAT
from rpmodels.priors.prior import Predicts, Prior


@dataclass(frozen=True)
class InducingState:
    """q(v) of every trial and group: mean μ, covariance Σ, and log det Σ."""

    mean: Float[Tensor, "N G Q"]
    covariance: Float[Tensor, "N G Q Q"]
    log_det: Float[Tensor, "N G"]

    @property
    def kl(self) -> Float[Tensor, "N"]:
        """KL(q(v)‖N(0, I)) = KL(q(u)‖p(u)) (A30)."""
        trace = self.covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
        return 0.5 * (trace + self.mean.square().sum(-1) - self.mean.shape[-1] - self.log_det).sum(-1)


@dataclass(frozen=True)
class Projection:
    """How sites see the inducing variables: z_t | v ~ N(mean + A_tᵀ v, rest), in G groups of B coupled latents.

    n is 1 when all trials share one grid of times; then sums over sites are single matrix products.
    """

    a: Float[Tensor, "n G B M T"]
    rest: Float[Tensor, "n G B T"]
    mean: Float[Tensor, "n G B T"]

    @property
    def _common(self) -> bool:
        return self.a.shape[0] == 1

    def seen(self, v: Float[Tensor, "N G B M"]) -> Float[Tensor, "N G B T"]:
        """Aᵀ v at every site."""
        if self._common:
            return torch.einsum("ngbm,gbmt->ngbt", v, self.a[0])
        return torch.einsum("ngbm,ngbmt->ngbt", v, self.a)

    def shift(self, first: Float[Tensor, "N G B T"]) -> Float[Tensor, "N G Q"]:
        """Σ_t A_t g_t⁽¹⁾."""
        if self._common:
            return torch.einsum("ngbt,gbmt->ngbm", first, self.a[0]).flatten(-2)
        return torch.einsum("ngbt,ngbmt->ngbm", first, self.a).flatten(-2)

    def precision(self, weight: Float[Tensor, "N G B B T"]) -> Float[Tensor, "N G Q Q"]:
        """I + Σ_t A_t W_t A_tᵀ."""
        a, (groups, size, inducing, _) = self.a, self.a.shape[1:]
        if self.by_products(len(weight)):
            blocks = torch.einsum("ngbct,gbcxt->ngbcx", weight, self._products)
            blocks = torch.unflatten(blocks, -1, (inducing, inducing))
        else:
            blocks = (a[:, :, :, None] * weight[..., None, :]) @ a[:, :, None].mT
        flat = size * inducing
        matrix = blocks.transpose(3, 4).reshape(len(weight), groups, flat, flat)
        return matrix + torch.eye(flat, dtype=a.dtype, device=a.device)

    def spread(self, covariance: Float[Tensor, "N G Q Q"]) -> Float[Tensor, "N G B B T"]:
        """A_tᵀ Σ A_t at every site, within its group."""
        blocks = torch.unflatten(torch.unflatten(covariance, -1, self.a.shape[2:4]), 2, self.a.shape[2:4])
        if self.by_products(len(covariance)):
            return torch.einsum("ngbcx,gbcxt->ngbct", blocks.transpose(3, 4).flatten(4, 5), self._products)
        if self._common:
            return (torch.einsum("ngbxcy,gcyt->ngbcxt", blocks, self.a[0]) * self.a[:, :, :, None]).sum(-2)
        return (torch.einsum("ngbxcy,ngcyt->ngbcxt", blocks, self.a) * self.a[:, :, :, None]).sum(-2)

    def with_rest(self, seen: Float[Tensor, "N G B B T"]) -> Float[Tensor, "N G B B T"]:
        """The covariance of every site within its group: what is seen, and what inducing points leave over."""
        if self.a.shape[2] == 1:
            return seen + self.rest[:, :, :, None]
        return seen + torch.diag_embed(self.rest.mT).permute(0, 1, 3, 4, 2)

    def condition(self, first: Float[Tensor, "N G B T"], weight: Float[Tensor, "N G B B T"]) -> InducingState:
        """q(v) given what the sites say."""
        covariance, log_det = linalg.inverse_and_log_det(self.precision(weight), WHAT)
        return InducingState((covariance @ self.shift(first)[..., None])[..., 0], covariance, -log_det)

    def by_products(self, trials: int) -> bool:
        """Whether products of A's rows, made once for all trials, are hardly larger than what they replace."""
        return self._common and self.a.shape[3] <= 2 * trials

    @cached_property
    def _products(self) -> Float[Tensor, "G B B X T"]:
        """A_tm A_tm′ for every pair of inducing variables, X = M²."""
        a = self.a[0]
        return (a[:, :, None, :, None] * a[:, None, :, None]).flatten(3, 4)


class Seen(NamedTuple):
    """What sites see of q(v): Aᵀμ and AᵀΣA, mean and variance that the inducing points leave over not included."""

    mean: Float[Tensor, "N G B T"]
    spread: Float[Tensor, "N G B B T"]


class HasInducing(Prior[Gaussian]):
    """A prior whose posteriors go through inducing variables: the paper's literal q(U) can be its E-step."""

    @abstractmethod
    def inducing_shape(self) -> tuple[int, int]:
        """(G, Q): independent groups, inducing numbers of each."""

    @abstractmethod
    def project(self, sites: Sites) -> Projection:
        """How these sites see the inducing variables."""

    @abstractmethod
    def residual_root(self, sites: Sites) -> Float[Tensor, "n K T T"]:
        """A root of the covariance that the sites keep once v is known."""

    @abstractmethod
    def state_of(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> InducingState:
        """q(v) given potentials."""

    @abstractmethod
    def from_state(self, state: InducingState, sites: Sites) -> "InducingPosterior":
        """The latents under a given q(v)."""


@dataclass(frozen=True)
class InducingPosterior(Predicts):
    """q(Z) = ∫ p(Z|v) q(v) dv: marginals (A26–A28), KL, joint draws, predictions at any other times."""

    prior: HasInducing
    sites: Sites
    state: InducingState
    projection: Projection
    known_seen: Seen | None = None
    known_kl: Float[Tensor, "N"] | None = None
    """Both where conditioning has computed them already."""

    @cached_property
    def _seen(self) -> Seen:
        if self.known_seen is not None:
            return self.known_seen
        mean = self.projection.seen(self._by_latent(self.state.mean))
        return Seen(mean, self.projection.spread(self.state.covariance))

    @cached_property
    def latent_mean(self) -> Float[Tensor, "N T K"]:
        """m (A27)."""
        return (self._seen.mean + self.projection.mean).flatten(1, 2).mT

    def _by_latent(self, v: Float[Tensor, "N G Q"]) -> Float[Tensor, "N G B M"]:
        return torch.unflatten(v, -1, self.projection.a.shape[2:4])

    @cached_property
    def _spread(self) -> Float[Tensor, "..."]:
        """Covariance of every site within its group (A28), in the family's form."""
        return self.prior.family.spread(self.projection.with_rest(self._seen.spread).movedim(-1, 1))

    @cached_property
    def eta(self) -> Float[Tensor, "N T D"]:
        """η_q of every site."""
        return self.prior.family.natural(self.latent_mean, self._spread)

    @cached_property
    def mu(self) -> Float[Tensor, "N T D"]:
        """μ_q of every site."""
        return self.prior.family.mean_parameter(self.latent_mean, self._spread)

    @cached_property
    def kl(self) -> Float[Tensor, "N"]:
        """KL(q(U)‖p(U))."""
        return self.state.kl if self.known_kl is None else self.known_kl

    def at(self, sites: Sites) -> "InducingPosterior":
        """The same q(v), seen from other sites: predictions at new times."""
        return self.prior.from_state(self.state, sites)

    def draw(self, generator: torch.Generator) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "N"]]:
        """Jointly over the sites of every trial: v from q, then Z given v, so that p/q is that of v."""
        a = self.projection.a
        options: dict[str, Any] = {"generator": generator, "dtype": a.dtype, "device": a.device}
        noise = torch.randn(*self.state.mean.shape, **options)
        root = linalg.cholesky(self.state.covariance, "the covariance of the inducing points")
        v = self.state.mean + (root @ noise[..., None])[..., 0]
        z = self.projection.seen(self._by_latent(v)) + self.projection.mean
        flat = z.flatten(1, 2)
        rest = self.prior.residual_root(self.sites) @ torch.randn(*flat.shape, **options)[..., None]
        log_ratio = 0.5 * (noise.square() - v.square()).sum(-1) + 0.5 * self.state.log_det
        return (flat + rest[..., 0]).mT, log_ratio.sum(-1)


def by_groups(
    family: Gaussian, potentials: Float[Tensor, "N T D"]
) -> tuple[Float[Tensor, "N G B T"], Float[Tensor, "N G B B T"]]:
    """g⁽¹⁾ and −2g⁽²⁾ by groups of coupled latents, time last."""
    groups, size = family.groups, family.latents // family.groups
    first, second = torch.split(potentials, [family.latents, potentials.shape[-1] - family.latents], -1)
    weight = torch.unflatten(-2.0 * second.mT, 1, (groups, size, size))
    return torch.unflatten(first.mT, 1, (groups, size)), weight
