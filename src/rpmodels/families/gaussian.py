"""Gaussians with diagonal precision: t = [z, z²], η = [Λm, −½ diag Λ].

Potentials have a second component ≤ 0, so a factor never knows less than what it is added to.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import softplus

from rpmodels import kernels, linalg
from rpmodels.carriers import Targets
from rpmodels.families import compiled_pairs
from rpmodels.families.family import Family, Gaussian, HasStatisticCovariance, InPlacePairs

SQRT2 = math.sqrt(2.0)
BROADEST_PRECISION = 1e-3
"""Of the member that absolute factors are relative to: no factor knows less."""


@dataclass(frozen=True)
class DiagonalGaussian(Gaussian, HasStatisticCovariance, InPlacePairs):
    """K independent normals."""

    latents: int

    @property
    def natural_size(self) -> int:
        """2K."""
        return 2 * self.latents

    @property
    def raw_size(self) -> int:
        """2K."""
        return 2 * self.latents

    def moments(self, eta: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "*b K"]]:
        """Mean m and variance v per dimension."""
        first, second = eta.chunk(2, -1)
        variance = -0.5 / second
        return first * variance, variance

    def covariance(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b K K"]:
        """diag v."""
        return torch.diag_embed(self.moments(eta)[1])

    def natural(self, mean: Float[Tensor, "*b K"], spread: Float[Tensor, "*b K"]) -> Float[Tensor, "*b D"]:
        """η of N(mean, diag spread)."""
        return torch.cat([mean / spread, -0.5 / spread], -1)

    @property
    def groups(self) -> int:
        """All latents are independent."""
        return self.latents

    def mean_parameter(self, mean: Float[Tensor, "*b K"], spread: Float[Tensor, "*b K"]) -> Float[Tensor, "*b D"]:
        """[m, v + m²]."""
        return torch.cat([mean, spread + mean.square()], -1)

    def spread(self, blocks: Float[Tensor, "*b K 1 1"]) -> Float[Tensor, "*b K"]:
        """Variances."""
        return blocks.flatten(-3)

    def thresholded(self, eta: Float[Tensor, "*b D"], least: float) -> Float[Tensor, "*b D"]:
        """Every precision by itself."""
        first, second = eta.chunk(2, -1)
        return torch.cat([first, -0.5 * linalg.soft_threshold(-2.0 * second, least)], -1)

    def before_threshold(self, eta: Float[Tensor, "*b D"], least: float) -> Float[Tensor, "*b D"]:
        """Every precision by itself."""
        first, second = eta.chunk(2, -1)
        return torch.cat([first, -0.5 * linalg.before_threshold(-2.0 * second, least)], -1)

    def slope(
        self, mean: Float[Tensor, "*b K"], by_mean: Float[Tensor, "*b K"], by_spread: Float[Tensor, "*b K"]
    ) -> Float[Tensor, "*b D"]:
        """[∂E/∂m − 2m ∂E/∂v, ∂E/∂v]."""
        return torch.cat([by_mean - 2.0 * mean * by_spread, by_spread], -1)

    def log_normaliser(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b"]:
        """Φ = Σ_k ½ (Λm)²/Λ − ½ log Λ + ½ log 2π."""
        if kernels.serve(eta):
            return compiled_pairs.log_normalisers(self, eta)
        value: Tensor = _LogNormaliser.apply(eta)  # type: ignore[no-untyped-call]
        return value

    def precision_form(self) -> Float[Tensor, "D E"]:
        """Λm and Λ."""
        return torch.diag(torch.tensor([1.0] * self.latents + [-2.0] * self.latents))

    @property
    def loops(self) -> str:
        """Of independent latents."""
        return "diagonal_pairs"

    @property
    def spare_buffers(self) -> int:
        """Λm, Λ and one more."""
        return 3

    def add_pairs(
        self,
        terms: Float[Tensor, "n T A"],
        a: Float[Tensor, "n T D"],
        g: Float[Tensor, "S A D"],
        spare: Sequence[Float[Tensor, "n T A"]],
    ) -> None:
        """terms += Σ_k ½ (Λm)²/Λ − ½ log Λ + ½ log 2π."""
        for k in range(self.latents):
            first, precision = self._pairs(k, a, g, spare)
            terms.add_(first.square_().div_(precision), alpha=0.5).sub_(precision.log_(), alpha=0.5)
        terms.add_(0.5 * self.latents * linalg.LOG_2PI)

    def pull_pairs(
        self,
        share: Float[Tensor, "n T A"],
        a: Float[Tensor, "n T D"],
        g: Float[Tensor, "S A D"],
        spare: Sequence[Float[Tensor, "n T A"]],
        by_a: Float[Tensor, "n T D"],
        by_g: Float[Tensor, "S A D"],
    ) -> None:
        """By the mean parameters m and m² + v of every pair."""
        sites = (0, 1) if g.shape[0] == 1 else (0,)
        for k in range(self.latents):
            mean, precision = self._pairs(k, a, g, spare)
            mean.div_(precision)
            weighted = torch.mul(share, mean, out=spare[2])
            by_a[..., k] += weighted.sum(-1)
            by_g[..., k] += weighted.sum(sites)
            weighted.mul_(mean).addcdiv_(share, precision)
            by_a[..., self.latents + k] += weighted.sum(-1)
            by_g[..., self.latents + k] += weighted.sum(sites)

    def _pairs(
        self, k: int, a: Float[Tensor, "n T D"], g: Float[Tensor, "S A D"], spare: Sequence[Float[Tensor, "n T A"]]
    ) -> tuple[Float[Tensor, "n T A"], Float[Tensor, "n T A"]]:
        """Λm and Λ of one latent, in the first two buffers."""
        first = torch.add(a[..., k, None], g[..., k], out=spare[0])
        # −2 on the small side: what is as large as the pairs is only added.
        half = self.latents + k
        return first, torch.add(-2.0 * a[..., half, None], -2.0 * g[..., half], out=spare[1])

    def mean(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """[m, v + m²]."""
        return self.mean_parameter(*self.moments(eta))

    def statistic(self, z: Float[Tensor, "*b K"]) -> Float[Tensor, "*b D"]:
        """[z, z²]."""
        return torch.cat([z, z.square()], -1)

    def broadest(self) -> Float[Tensor, "D"]:
        """N(0, 1000) per dimension."""
        precision = torch.tensor([0.0, BROADEST_PRECISION], dtype=torch.float64)
        return -0.5 * precision.repeat_interleave(self.latents)

    def to_valid(self, raw: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """Second half through −½ softplus."""
        first, second = raw.chunk(2, -1)
        return torch.cat([first, -0.5 * softplus(second)], -1)

    def to_raw(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """softplus⁻¹ of the precision."""
        first, second = eta.chunk(2, -1)
        return torch.cat([first, inverse_softplus(-2.0 * second)], -1)

    def to_potential(self, raw: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """The cone of potentials is that of valid parameters."""
        return self.to_valid(raw)

    def valid(self, eta: Float[Tensor, "*b D"]) -> Bool[Tensor, "*b"]:
        """Finite, and every precision positive."""
        return torch.isfinite(eta).all(-1) & (eta[..., self.latents :] < 0).all(-1)

    def targets(self, indices: Sequence[int]) -> tuple[Family, Targets]:
        """Some of the dimensions."""
        return DiagonalGaussian(len(indices)), _SomeDimensions(self.latents, tuple(indices))

    def noise_size(self) -> int:
        """K."""
        return self.latents

    def reparametrise(self, eta: Float[Tensor, "*b D"], noise: Float[Tensor, "*c K"]) -> Float[Tensor, "..."]:
        """m + √v ε."""
        m, v = self.moments(eta)
        return m + v.sqrt() * noise

    def covariance_root(self, eta_q: Float[Tensor, "*b D"], g: Float[Tensor, "*c D"]) -> Float[Tensor, "..."]:
        """u = [√v (g₁ + 2 g₂ m); √2 v g₂], the diagonal case of (A7–A8)."""
        m, v = self.moments(eta_q)
        first, second = g.chunk(2, -1)
        return torch.cat([v.sqrt() * (first + 2.0 * second * m), SQRT2 * v * second], -1)

    def basis(self) -> Float[Tensor, "P D"]:
        """The statistic is minimal."""
        return torch.eye(self.natural_size)


@dataclass(frozen=True)
class _SomeDimensions(Targets):
    """Some of K independent dimensions: both kinds of parameter are picked."""

    latents: int
    indices: tuple[int, ...]

    def _places(self) -> list[int]:
        return [*self.indices, *(self.latents + k for k in self.indices)]

    def natural(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b d"]:
        """Picked."""
        return eta[..., self._places()]

    def mean(self, mu: Float[Tensor, "*b D"]) -> Float[Tensor, "*b d"]:
        """Picked."""
        return mu[..., self._places()]

    def embed(self, g: Float[Tensor, "*b d"]) -> Float[Tensor, "*b D"]:
        """Put back, zero elsewhere."""
        whole = g.new_zeros(*g.shape[:-1], 2 * self.latents)
        whole[..., self._places()] = g
        return whole


class _LogNormaliser(torch.autograd.Function):
    """Φ, whose derivative is the mean parameter: half the operations of going back through its formula."""

    @staticmethod
    def forward(ctx: Any, eta: Tensor) -> Tensor:
        first, second = eta.chunk(2, -1)
        precision = -2.0 * second
        ctx.save_for_backward(eta)
        terms = first.square().div_(precision).sub_(precision.log()).add_(linalg.LOG_2PI)
        return terms.sum(-1).mul_(0.5)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        first, second = ctx.saved_tensors[0].chunk(2, -1)
        variance = -0.5 / second
        mean = first * variance
        return torch.cat([mean, torch.addcmul(variance, mean, mean)], -1) * grads[0][..., None]


def inverse_softplus(values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """x with log(1 + eˣ) = values > 0, without overflow."""
    return values + torch.log(-torch.expm1(-values))
