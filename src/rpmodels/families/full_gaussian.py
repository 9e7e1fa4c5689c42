"""Gaussians with full precision: t = [z, vec zzᵀ], η = [Λm, −½ vec Λ] (A7).

Potentials have a second component ⪯ 0, so a factor never knows less than what it is added to.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import softplus

from rpmodels import kernels, linalg
from rpmodels.carriers import Targets
from rpmodels.families import compiled_pairs
from rpmodels.families.elimination import Elimination, arrays
from rpmodels.families.family import Family, Gaussian, HasStatisticCovariance, InPlacePairs
from rpmodels.families.gaussian import BROADEST_PRECISION, SQRT2, inverse_softplus

MANY = 32
"""Members: from here on compiled loops are faster."""


@dataclass(frozen=True)
class FullGaussian(Gaussian, HasStatisticCovariance, InPlacePairs):
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

    def split(self, eta: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "*b K K"]]:
        """The linear part and the matrix of the quadratic part."""
        first, second = eta[..., : self.latents], eta[..., self.latents :]
        return first, second.reshape(*second.shape[:-1], self.latents, self.latents)

    def _factorised(self, eta: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "*b K K"]]:
        """Λm and the Cholesky factor of Λ (symmetrised, so that gradients are symmetric too)."""
        first, second = self.split(eta)
        return first, linalg.cholesky(-second - second.mT, "the precision of a Gaussian")

    def moments(self, eta: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "*b K K"]]:
        """Mean m and covariance S."""
        first, factor = self._factorised(eta)
        return linalg.solve(factor, first), linalg.inverse(factor)

    def natural(self, mean: Float[Tensor, "*b K"], spread: Float[Tensor, "*b K K"]) -> Float[Tensor, "*b D"]:
        """η of N(mean, spread)."""
        precision, _ = linalg.inverse_and_log_det(spread, "a covariance")
        first = (precision @ mean[..., None])[..., 0]
        return torch.cat([first, -0.5 * precision.flatten(-2)], -1)

    def covariance(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b K K"]:
        """S."""
        return self.moments(eta)[1]

    @property
    def groups(self) -> int:
        """Latents may all depend on each other."""
        return 1

    def mean_parameter(self, mean: Float[Tensor, "*b K"], spread: Float[Tensor, "*b K K"]) -> Float[Tensor, "*b D"]:
        """[m, vec(S + mmᵀ)]."""
        return torch.cat([mean, (spread + mean[..., :, None] * mean[..., None, :]).flatten(-2)], -1)

    def of_mean_parameter(self, mu: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "*b K K"]]:
        """m and S from μ: the inverse of `mean_parameter`."""
        mean, second = self.split(mu)
        return mean, second - mean[..., :, None] * mean[..., None, :]

    def spread(self, blocks: Float[Tensor, "*b 1 K K"]) -> Float[Tensor, "*b K K"]:
        """The covariance."""
        return blocks[..., 0, :, :]

    def thresholded(self, eta: Float[Tensor, "*b D"], least: float) -> Float[Tensor, "*b D"]:
        """By the spectrum of Λ."""
        first, second = self.split(eta)
        return torch.cat([first, -0.5 * linalg.eigenvalues_above(-2.0 * second, least).flatten(-2)], -1)

    def before_threshold(self, eta: Float[Tensor, "*b D"], least: float) -> Float[Tensor, "*b D"]:
        """By the spectrum of Λ."""
        first, second = self.split(eta)
        return torch.cat([first, -0.5 * linalg.before_eigenvalues_above(-2.0 * second, least).flatten(-2)], -1)

    def slope(
        self, mean: Float[Tensor, "*b K"], by_mean: Float[Tensor, "*b K"], by_spread: Float[Tensor, "*b K K"]
    ) -> Float[Tensor, "*b D"]:
        """[∂E/∂m − 2 ∂E/∂S m, vec ∂E/∂S]."""
        matrix = 0.5 * (by_spread + by_spread.mT)
        return torch.cat([by_mean - 2.0 * (matrix @ mean[..., None])[..., 0], matrix.flatten(-2)], -1)

    def log_normaliser(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b"]:
        """Φ = ½ (Λm)ᵀ Λ⁻¹ (Λm) − ½ log|Λ| + K/2 log 2π."""
        if eta.numel() >= MANY * self.natural_size and kernels.serve(eta):
            found = compiled_pairs.log_normalisers(self, eta)
            if bool(torch.isfinite(found).all()):
                return found
        first, factor = self._factorised(eta)
        quadratic = (first * linalg.solve(factor, first)).sum(-1)
        return 0.5 * (quadratic - linalg.log_det(factor) + self.latents * linalg.LOG_2PI)

    def precision_form(self) -> Float[Tensor, "D E"]:
        """Λm and the lower triangle of Λ."""
        form = torch.zeros(self.natural_size, self.raw_size)
        form[: self.latents, : self.latents] = torch.eye(self.latents)
        for place, (i, j) in enumerate(torch.tril_indices(self.latents, self.latents).T.tolist(), self.latents):
            form[self._place(i, j), place] -= 1.0
            form[self._place(j, i), place] -= 1.0
        return form

    @property
    def loops(self) -> str:
        """Of latents that depend on each other."""
        return "full_pairs"

    @property
    def spare_buffers(self) -> int:
        """As many as it has numbers, and some."""
        return arrays(self.latents)

    def add_pairs(
        self,
        terms: Float[Tensor, "n T A"],
        a: Float[Tensor, "n T D"],
        g: Float[Tensor, "S A D"],
        spare: Sequence[Float[Tensor, "n T A"]],
    ) -> None:
        """terms += ½ (Λm)ᵀ Λ⁻¹ (Λm) − ½ log|Λ| + K/2 log 2π."""
        self._eliminated(a, g, spare).add_log_normaliser(terms)

    def pull_pairs(
        self,
        share: Float[Tensor, "n T A"],
        a: Float[Tensor, "n T D"],
        g: Float[Tensor, "S A D"],
        spare: Sequence[Float[Tensor, "n T A"]],
        by_a: Float[Tensor, "n T D"],
        by_g: Float[Tensor, "S A D"],
    ) -> None:
        """By the mean parameters m and S + mmᵀ of every pair."""
        sites = (0, 1) if g.shape[0] == 1 else (0,)
        pairs = self._eliminated(a, g, spare)
        pairs.invert()
        m = pairs.first
        for i, row in enumerate(pairs.lower):
            for j, second in enumerate(row):
                weighted = second.addcmul_(m[i], m[j]).mul_(share)
                of_site, of_atom = weighted.sum(-1), weighted.sum(sites)
                for place in {self._place(i, j), self._place(j, i)}:
                    by_a[..., place] += of_site
                    by_g[..., place] += of_atom
        for k, each in enumerate(m):
            each.mul_(share)
            by_a[..., k] += each.sum(-1)
            by_g[..., k] += each.sum(sites)

    def _eliminated(
        self, a: Float[Tensor, "n T D"], g: Float[Tensor, "S A D"], spare: Sequence[Float[Tensor, "n T A"]]
    ) -> Elimination:
        """Of Λm and Λ of every pair."""
        pairs = Elimination(self.latents, spare)
        for k, each in enumerate(pairs.first):
            torch.add(a[..., k, None], g[..., k], out=each)
        for i, row in enumerate(pairs.lower):
            for j, each in enumerate(row):
                # Symmetrised on the small side: what is as large as the pairs is only added.
                of_a, of_g = (-x[..., self._place(i, j)] - x[..., self._place(j, i)] for x in (a, g))
                torch.add(of_a[..., None], of_g, out=each)
        pairs.eliminate()
        return pairs

    def _place(self, i: int, j: int) -> int:
        """Of element (i, j) in η."""
        return self.latents + i * self.latents + j

    def mean(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """[m, vec(S + mmᵀ)]."""
        return self.mean_parameter(*self.moments(eta))

    def statistic(self, z: Float[Tensor, "*b K"]) -> Float[Tensor, "*b D"]:
        """[z, vec zzᵀ]."""
        return torch.cat([z, (z[..., :, None] * z[..., None, :]).flatten(-2)], -1)

    def broadest(self) -> Float[Tensor, "D"]:
        """N(0, 1000 I)."""
        matrix = -0.5 * BROADEST_PRECISION * torch.eye(self.latents, dtype=torch.float64)
        return torch.cat([matrix.new_zeros(self.latents), matrix.flatten()])

    def to_valid(self, raw: Float[Tensor, "*b R"]) -> Float[Tensor, "*b D"]:
        """Second part −½ LLᵀ with L from the raw triangle, its diagonal through √softplus.

        With zero off the diagonal this is `DiagonalGaussian.to_valid`.
        """
        size = self.latents
        first, triangle = raw.tensor_split([size], -1)
        # The root is floored: its gradient at an underflown softplus would be NaN.
        roots = softplus(triangle).clamp_min(torch.finfo(raw.dtype).tiny).sqrt()
        numbers = torch.cat([roots, triangle, torch.zeros_like(triangle[..., :1])], -1)
        # Where every entry is taken from: roots on the diagonal, the triangle below it, nothing above.
        count = size * (size + 1) // 2
        source = [
            k * (k + 1) // 2 + j + count * (j < k) if j <= k else 2 * count for k in range(size) for j in range(size)
        ]
        lower = torch.unflatten(numbers[..., torch.tensor(source, device=raw.device)], -1, (size, size))
        return torch.cat([first, -0.5 * (lower @ lower.mT).flatten(-2)], -1)

    def to_raw(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b R"]:
        """The triangle whose square is the precision."""
        first, lower = self._factorised(eta)
        rows, columns = torch.tril_indices(self.latents, self.latents, device=eta.device)
        triangle = lower[..., rows, columns]
        return torch.cat([first, torch.where(rows == columns, inverse_softplus(triangle.square()), triangle)], -1)

    def to_potential(self, raw: Float[Tensor, "*b R"]) -> Float[Tensor, "*b D"]:
        """The cone of potentials is that of valid parameters."""
        return self.to_valid(raw)

    def valid(self, eta: Float[Tensor, "*b D"]) -> Bool[Tensor, "*b"]:
        """Finite, and the precision positive definite."""
        second = self.split(eta)[1]
        return torch.isfinite(eta).all(-1) & linalg.is_positive_definite(-second - second.mT)

    def targets(self, indices: Sequence[int]) -> tuple[Family, Targets]:
        """Some of the dimensions."""
        return FullGaussian(len(indices)), _SomeDimensions(self, tuple(indices))

    def noise_size(self) -> int:
        """K."""
        return self.latents

    def reparametrise(self, eta: Float[Tensor, "*b D"], noise: Float[Tensor, "*c K"]) -> Float[Tensor, "..."]:
        """m + L⁻ᵀ ε, with LLᵀ = Λ."""
        first, factor = self._factorised(eta)
        spread: Tensor = torch.linalg.solve_triangular(factor.mT, noise[..., None], upper=True)[..., 0]
        return linalg.solve(factor, first) + spread

    def covariance_root(self, eta_q: Float[Tensor, "*b D"], g: Float[Tensor, "*c D"]) -> Float[Tensor, "..."]:
        """u = [Cᵀ(g₁ + 2Gm); √2 vec(CᵀGC)] with S = CCᵀ (method of (A7–A8) without a K²×K² matrix)."""
        m, covariance = self.moments(eta_q)
        root = linalg.cholesky(covariance, "a posterior covariance")
        first, second = self.split(g)
        second = 0.5 * (second + second.mT)  # only the symmetric part meets zzᵀ
        linear = first + 2.0 * (second @ m[..., None])[..., 0]
        left = (root.mT @ linear[..., None])[..., 0]
        return torch.cat([left, SQRT2 * (root.mT @ second @ root).flatten(-2)], -1)

    def basis(self) -> Float[Tensor, "P D"]:
        """Linear terms, and the symmetric matrices: t is not minimal for K > 1."""
        size = self.latents
        rows, columns = torch.tril_indices(size, size)
        matrices = torch.zeros(len(rows), size, size)
        each = torch.arange(len(rows))
        matrices[each, rows, columns] += 0.5
        matrices[each, columns, rows] += 0.5
        linear = torch.cat([torch.eye(size), torch.zeros(size, size * size)], 1)
        return torch.cat([linear, torch.cat([torch.zeros(len(rows), size), matrices.flatten(1)], 1)])


@dataclass(frozen=True)
class _SomeDimensions(Targets):
    """Some of K dependent dimensions: moments are picked, natural parameters go through them."""

    family: FullGaussian
    indices: tuple[int, ...]

    def _square(self, matrix: Float[Tensor, "*b K K"]) -> Float[Tensor, "*b k k"]:
        picked = list(self.indices)
        return matrix[..., picked, :][..., :, picked]

    def natural(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b d"]:
        """Through the moments: a marginal's precision is no part of the joint's."""
        m, covariance = self.family.moments(eta)
        return FullGaussian(len(self.indices)).natural(m[..., list(self.indices)], self._square(covariance))

    def mean(self, mu: Float[Tensor, "*b D"]) -> Float[Tensor, "*b d"]:
        """Picked."""
        first, second = self.family.split(mu)
        return torch.cat([first[..., list(self.indices)], self._square(second).flatten(-2)], -1)

    def embed(self, g: Float[Tensor, "*b d"]) -> Float[Tensor, "*b D"]:
        """Put back, zero elsewhere."""
        size = self.family.latents
        first, second = FullGaussian(len(self.indices)).split(g)
        picked = torch.tensor(self.indices, device=g.device)
        linear = g.new_zeros(*g.shape[:-1], size)
        linear[..., picked] = first
        matrix = g.new_zeros(*g.shape[:-1], size, size)
        matrix[..., picked[:, None], picked] = second
        return torch.cat([linear, matrix.flatten(-2)], -1)
