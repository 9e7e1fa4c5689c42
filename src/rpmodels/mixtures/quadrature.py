"""⟨log F_j⟩ by numerical integration, K ≤ 3: exact but for an error that scores come with.

K = 1: grids of z shared by trials and sites, log F/r computed once per atom and grid point (trapezoid, spacing below
the sd of the posterior, and half of that of the sharpest atom). They are lattices around zero whose steps are powers of
two, and a posterior sees only the points near it: its number does not depend on what else is in the batch.
K = 2, 3: Gauss–Hermite nodes around each posterior.
"""

import math
import warnings
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.special import roots_hermitenorm
from torch import Tensor

from rpmodels import checks, errors
from rpmodels.carriers import NamedTensors
from rpmodels.families import Family, Gaussian, Reparametrised
from rpmodels.mixtures.approximation import ExpectedLogMixture, Kind, OfAtoms
from rpmodels.mixtures.mixture import AtomMixture

DOUBLINGS = 2
"""Of the nodes along every latent, at most; at K = 3 that is 64 times the work."""
REACH = 6.5
"""How many of its sds around its mean a posterior sees of the grid."""
LARGEST_GRID = 4096
"""Points for one posterior."""
LOST = (math.inf, math.inf)
"""The place of a posterior that is not a number."""


class GaussHermite(OfAtoms[Reparametrised]):
    """Nodes around each posterior: nodesᴷ of them. Scores tell their error, which grows with precision × variance."""

    largest = 3

    def __init__(self, nodes: int = 16) -> None:
        self.nodes = checks.integer("nodes", nodes, 1)

    @property
    def kind(self) -> Kind:
        """With enough nodes as good as exact; `finer` tells."""
        return Kind.QUADRATURE

    def finer(self) -> "GaussHermite":
        """Twice the nodes along every latent."""
        return GaussHermite(2 * self.nodes)

    @property
    def numbers_per_pair(self) -> int:
        """One for every node of two latents; what three have beyond is not worth a second property."""
        return self.nodes**2

    def check(self, family: Family) -> None:
        """It integrates over the noise behind a draw: at most three numbers, one for every latent of a Gaussian."""
        if not isinstance(family, Reparametrised):
            raise errors.needs_reparametrisation("Gauss–Hermite quadrature", type(family).__name__)
        if family.noise_size() > self.largest:
            of = "latent dimension(s) per factor (random numbers behind a draw, over which it integrates)"
            raise errors.too_many_dimensions("Gauss–Hermite quadrature", self.largest, of, family.noise_size())

    def __call__(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[Reparametrised], local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """Σ_q weight_q log F/r(z_q)."""
        family = mixture.family
        nodes, weights = hermite(self.nodes, family.noise_size(), eta_q)
        z = family.reparametrise(eta_q[:, :, None], nodes.expand(*eta_q.shape[:2], -1, -1))
        return mixture.log_ratio(family.statistic(z)) @ weights


class SharedGrid(OfAtoms[Gaussian]):
    """z-grids that trials share (K = 1): cost linear in trials and in atoms instead of their product."""

    def __init__(self, spacing: float = 0.7) -> None:
        self.spacing = checks.number("spacing", spacing, above=0.0)

    @property
    def kind(self) -> Kind:
        """As good as exact while the grid is fine enough."""
        return Kind.QUADRATURE

    def finer(self) -> "SharedGrid":
        """Half the spacing."""
        return SharedGrid(0.5 * self.spacing)

    def check(self, family: Family) -> None:
        """One Gaussian latent: grids are laid around its mean, as wide as its spread."""
        if not isinstance(family, Gaussian):
            raise errors.needs_gaussian("the shared grid", type(family).__name__)
        if family.latents > 1:
            raise errors.too_many_dimensions("The shared grid", 1, "latent dimension(s) per factor", family.latents)

    def __call__(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[Gaussian], local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """Σ_g q(z_g) log F/r(z_g) / Σ_g q(z_g)."""
        family = mixture.family
        m = family.moments(eta_q)[0][..., 0]
        v = family.covariance(eta_q)[..., 0, 0]
        level, cell = self._places(m.detach(), v.detach().sqrt(), _sharpest(mixture.detached()))
        result = torch.full_like(m, torch.nan)  # where a posterior is not a number: the loop's rescue is for this
        # Pairs by way of the set: torch.unique is slow over rows.
        for place in sorted({*zip(level.flatten().tolist(), cell.flatten().tolist(), strict=True)} - {LOST}):
            here = (level == place[0]) & (cell == place[1])
            z = self._lattice(m[here].detach(), v[here].detach().sqrt(), int(place[0]))
            # Those who are elsewhere take part as anyone who is here: all sites in one product, no gathering.
            mean = torch.where(here, m, m[here][0].detach())[..., None]
            variance = torch.where(here, v, v[here][0].detach())[..., None]
            squared = (z - mean).square() / variance
            weights = torch.softmax(torch.where(squared <= REACH**2, -0.5 * squared, -torch.inf), -1)
            ratio = mixture.log_ratio(family.statistic(z[None, None, :, None]))
            result = torch.where(here, (weights * ratio).sum(-1), result)
        return result

    def _places(
        self, m: Float[Tensor, "N T"], sd: Float[Tensor, "N T"], sharpest: Float[Tensor, "#N #T"]
    ) -> tuple[Float[Tensor, "N T"], Float[Tensor, "N T"]]:
        """The lattice of every posterior, as log₂(step/spacing), and the part of it: grids stay small in either."""
        wanted = torch.minimum(sd, 0.5 * sharpest)
        points = 2.0 * REACH * sd / (self.spacing * wanted)
        most = float(torch.nan_to_num(points, nan=0.0, posinf=0.0).max())
        if most > LARGEST_GRID:
            warnings.warn(errors.grid_too_fine(math.ceil(most), LARGEST_GRID), stacklevel=3)
        step = wanted * (points / LARGEST_GRID).clamp_min(1.0)
        # A little above: the sds of priors are powers of two, and rounding shall not choose between two lattices.
        level = torch.floor(torch.log2(step) + 0.01)
        cell = torch.round(m / (self.spacing * torch.exp2(level) * LARGEST_GRID))
        lost = ~torch.isfinite(level + cell)
        return level.masked_fill(lost, LOST[0]), cell.masked_fill(lost, LOST[1])

    def _lattice(self, m: Float[Tensor, "n"], sd: Float[Tensor, "n"], level: int) -> Float[Tensor, "G"]:
        step = self.spacing * 2.0**level
        low, high = float((m - REACH * sd).min()) / step, float((m + REACH * sd).max()) / step
        return (torch.arange(math.floor(low), math.ceil(high) + 1, dtype=torch.float64) * step).to(m)


def _sharpest(mixture: AtomMixture[Gaussian]) -> Float[Tensor, "n s"]:
    """The smallest sd of any atom that counts: log F has features of this size, and kinks where two atoms meet."""
    family = mixture.family
    variance = family.covariance(mixture.reference[:, None] + mixture.g)[..., 0, 0]
    smallest = torch.where(torch.isfinite(mixture.log_count), variance, torch.inf).amin(-1)[None]
    if mixture.own is not None:
        own = family.covariance(mixture.reference + mixture.own.g)[..., 0, 0]
        smallest = torch.minimum(smallest, torch.where(mixture.own.present, own, torch.inf))
    return smallest.sqrt()


def quadrature(latents: int) -> ExpectedLogMixture:
    """The better of the two for this many latents."""
    return SharedGrid() if latents == 1 else GaussHermite({2: 16}.get(latents, 8))


def hermite(
    nodes: int, latents: int, like: Float[Tensor, "N T D"]
) -> tuple[Float[Tensor, "1 1 Q K"], Float[Tensor, "Q"]]:
    """Nodes and weights of the expectation under N(0, I)."""
    grid, weights = _hermite(nodes, latents)
    return torch.as_tensor(grid.copy()).to(like)[None, None], torch.as_tensor(weights.copy()).to(like)


@lru_cache(16)
def _hermite(nodes: int, latents: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same in double precision: found once, as it takes longer than a short batch."""
    points, weights = roots_hermitenorm(nodes)  # which does not overflow when nodes are many
    grid = np.stack(np.meshgrid(*[points] * latents, indexing="ij"), -1).reshape(-1, latents)
    product = np.stack(np.meshgrid(*[weights / weights.sum()] * latents, indexing="ij"), -1)
    return grid, product.reshape(-1, latents).prod(-1)
