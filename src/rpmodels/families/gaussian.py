"""Gaussians with diagonal and with full precision.

Diagonal: t = [z, z²], η = [Λm, −½ diag Λ]. Full: t = [z, vec zzᵀ], η = [Λm, −½ vec Λ] (A7).
Potentials have a second component ⪯ 0, so a factor never knows less than what it is added to.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from rpmodels import linalg
from rpmodels.families.family import Family, HasStatisticCovariance, Reparametrised

_SQRT2 = math.sqrt(2.0)


@dataclass(frozen=True)
class DiagonalGaussian(Family, Reparametrised, HasStatisticCovariance):
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

    def natural(self, mean: Float[Tensor, "*b K"], variance: Float[Tensor, "*b K"]) -> Float[Tensor, "*b D"]:
        """η of N(mean, diag variance)."""
        return torch.cat([mean / variance, -0.5 / variance], -1)

    def log_normaliser(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b"]:
        """Φ = Σ_k ½ (Λm)²/Λ − ½ log Λ + ½ log 2π."""
        first, second = eta.chunk(2, -1)
        precision = -2.0 * second
        return 0.5 * (first.square() / precision - precision.log() + linalg.LOG_2PI).sum(-1)

    def mean(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """[m, v + m²]."""
        m, v = self.moments(eta)
        return torch.cat([m, v + m.square()], -1)

    def statistic(self, z: Float[Tensor, "*b K"]) -> Float[Tensor, "*b D"]:
        """[z, z²]."""
        return torch.cat([z, z.square()], -1)

    def to_valid(self, raw: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """Second half through −½ softplus."""
        first, second = raw.chunk(2, -1)
        return torch.cat([first, -0.5 * softplus(second)], -1)

    def to_potential(self, raw: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """The cone of potentials is that of valid parameters."""
        return self.to_valid(raw)

    def noise_size(self) -> int:
        """K."""
        return self.latents

    def reparametrise(self, eta: Float[Tensor, "*b D"], noise: Float[Tensor, "*b K"]) -> Float[Tensor, "*b K"]:
        """m + √v ε."""
        m, v = self.moments(eta)
        return m + v.sqrt() * noise

    def covariance_root(self, eta_q: Float[Tensor, "*b D"], g: Float[Tensor, "*c D"]) -> Float[Tensor, "..."]:
        """u = [√v (g₁ + 2 g₂ m); √2 v g₂], the diagonal case of (A7–A8)."""
        m, v = self.moments(eta_q)
        first, second = g.chunk(2, -1)
        return torch.cat([v.sqrt() * (first + 2.0 * second * m), _SQRT2 * v * second], -1)


@dataclass(frozen=True)
class FullGaussian(Family, Reparametrised, HasStatisticCovariance):
    """A K-dimensional normal with any precision."""

    latents: int

    @property
    def natural_size(self) -> int:
        """K + K²."""
        return self.latents + self.latents**2

    @property
    def raw_size(self) -> int:
        """K and a lower triangle."""
        return self.latents + self.latents * (self.latents + 1) // 2

    def _split(self, eta: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "*b K K"]]:
        first, second = eta[..., : self.latents], eta[..., self.latents :]
        return first, second.reshape(*second.shape[:-1], self.latents, self.latents)

    def _factorised(self, eta: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "*b K K"]]:
        """Λm and the Cholesky factor of Λ (symmetrised, so that gradients are symmetric too)."""
        first, second = self._split(eta)
        return first, linalg.cholesky(-second - second.mT, "the precision of a Gaussian")

    def moments(self, eta: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "*b K K"]]:
        """Mean m and covariance S."""
        first, factor = self._factorised(eta)
        return linalg.solve(factor, first), linalg.inverse(factor)

    def natural(self, mean: Float[Tensor, "*b K"], covariance: Float[Tensor, "*b K K"]) -> Float[Tensor, "*b D"]:
        """η of N(mean, covariance)."""
        precision = linalg.inverse(linalg.cholesky(covariance, "a covariance"))
        first = (precision @ mean[..., None])[..., 0]
        return torch.cat([first, -0.5 * precision.flatten(-2)], -1)

    def log_normaliser(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b"]:
        """Φ = ½ (Λm)ᵀ Λ⁻¹ (Λm) − ½ log|Λ| + K/2 log 2π."""
        first, factor = self._factorised(eta)
        quadratic = (first * linalg.solve(factor, first)).sum(-1)
        return 0.5 * (quadratic - linalg.log_det(factor) + self.latents * linalg.LOG_2PI)

    def mean(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """[m, vec(S + mmᵀ)]."""
        m, covariance = self.moments(eta)
        return torch.cat([m, (covariance + m[..., :, None] * m[..., None, :]).flatten(-2)], -1)

    def statistic(self, z: Float[Tensor, "*b K"]) -> Float[Tensor, "*b D"]:
        """[z, vec zzᵀ]."""
        return torch.cat([z, (z[..., :, None] * z[..., None, :]).flatten(-2)], -1)

    def to_valid(self, raw: Float[Tensor, "*b R"]) -> Float[Tensor, "*b D"]:
        """Second part −½ LLᵀ with L from the raw triangle, its diagonal through √softplus.

        With zero off the diagonal this is `DiagonalGaussian.to_valid`.
        """
        first, triangle = raw[..., : self.latents], raw[..., self.latents :]
        rows, columns = torch.tril_indices(self.latents, self.latents, device=raw.device)
        diagonal = rows == columns
        # The root only where it belongs, and floored: its gradient at an underflown softplus would be NaN.
        smallest = torch.finfo(raw.dtype).tiny
        lower = raw.new_zeros(*raw.shape[:-1], self.latents, self.latents)
        lower[..., rows[diagonal], columns[diagonal]] = softplus(triangle[..., diagonal]).clamp_min(smallest).sqrt()
        lower[..., rows[~diagonal], columns[~diagonal]] = triangle[..., ~diagonal]
        return torch.cat([first, -0.5 * (lower @ lower.mT).flatten(-2)], -1)

    def to_potential(self, raw: Float[Tensor, "*b R"]) -> Float[Tensor, "*b D"]:
        """The cone of potentials is that of valid parameters."""
        return self.to_valid(raw)

    def noise_size(self) -> int:
        """K."""
        return self.latents

    def reparametrise(self, eta: Float[Tensor, "*b D"], noise: Float[Tensor, "*b K"]) -> Float[Tensor, "*b K"]:
        """m + L⁻ᵀ ε, with LLᵀ = Λ."""
        first, factor = self._factorised(eta)
        spread: Tensor = torch.linalg.solve_triangular(factor.mT, noise[..., None], upper=True)[..., 0]
        return linalg.solve(factor, first) + spread

    def covariance_root(self, eta_q: Float[Tensor, "*b D"], g: Float[Tensor, "*c D"]) -> Float[Tensor, "..."]:
        """u = [Cᵀ(g₁ + 2Gm); √2 vec(CᵀGC)] with S = CCᵀ (method of (A7–A8) without a K²×K² matrix)."""
        m, covariance = self.moments(eta_q)
        root = linalg.cholesky(covariance, "a posterior covariance")
        first, second = self._split(g)
        second = 0.5 * (second + second.mT)  # only the symmetric part meets zzᵀ
        linear = first + 2.0 * (second @ m[..., None])[..., 0]
        left = (root.mT @ linear[..., None])[..., 0]
        return torch.cat([left, _SQRT2 * (root.mT @ second @ root).flatten(-2)], -1)
