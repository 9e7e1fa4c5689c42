"""⟨log F_j⟩ by numerical integration: exact for all purposes when K ≤ 3, and the oracle of the others.

K = 1: one grid of z shared by all trials and sites, log F/r computed once per atom and grid point (trapezoid,
spacing below the smallest sd of the posteriors, and half of that of the atoms). K = 2, 3: Gauss–Hermite nodes
around each posterior.
"""

import math
import warnings
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import checks, errors
from rpmodels.carriers import Rows
from rpmodels.families import Continuous, Family
from rpmodels.mixtures.approximation import ExpectedLogMixture, Kind
from rpmodels.mixtures.mixture import AtomMixture, Mixture

REACH = 6.5
"""How many posterior sds the grid goes beyond the outermost mean."""
LARGEST_GRID = 4096


class GaussHermite(ExpectedLogMixture):
    """Nodes around each posterior: nodesᴷ of them. The error grows with precision × variance."""

    largest = 3

    def __init__(self, nodes: int = 16) -> None:
        self.nodes = checks.integer("nodes", nodes, 1)

    @property
    def kind(self) -> Kind:
        """As good as exact with enough nodes."""
        return Kind.EXACT

    def check(self, family: Family) -> None:
        """At most three latents."""
        if not isinstance(family, Continuous):
            raise errors.needs_continuous("quadrature", type(family).__name__)
        if family.latents > self.largest:
            raise errors.too_many_latents("Quadrature", self.largest, family.latents)

    def summarise(self, atoms: AtomMixture) -> Mixture:
        """The atoms themselves."""
        return atoms

    def __call__(self, eta_q: Float[Tensor, "N T D"], mixture: Mixture, rows: Rows) -> Float[Tensor, "N T"]:
        """Σ_q weight_q log F/r(z_q)."""
        assert isinstance(mixture, AtomMixture)
        family = cast(Continuous, mixture.family)
        nodes, weights = hermite(self.nodes, family.latents, eta_q)
        z = family.reparametrise(eta_q[:, :, None], nodes.expand(*eta_q.shape[:2], -1, -1))
        return mixture.log_ratio(mixture.family.statistic(z)) @ weights


class SharedGrid(ExpectedLogMixture):
    """One z-grid for all trials (K = 1): cost linear in trials and in atoms instead of their product."""

    def __init__(self, spacing: float = 0.7) -> None:
        self.spacing = checks.number("spacing", spacing, above=0.0)

    @property
    def kind(self) -> Kind:
        """As good as exact while the grid is fine enough."""
        return Kind.EXACT

    def check(self, family: Family) -> None:
        """One latent."""
        if not isinstance(family, Continuous):
            raise errors.needs_continuous("quadrature", type(family).__name__)
        if family.latents > 1:
            raise errors.too_many_latents("The shared grid", 1, family.latents)

    def summarise(self, atoms: AtomMixture) -> Mixture:
        """The atoms themselves."""
        return atoms

    def __call__(self, eta_q: Float[Tensor, "N T D"], mixture: Mixture, rows: Rows) -> Float[Tensor, "N T"]:
        """Σ_g q(z_g) log F/r(z_g) / Σ_g q(z_g)."""
        assert isinstance(mixture, AtomMixture)
        family = cast(Continuous, mixture.family)
        m = family.moments(eta_q)[0]
        v = family.covariance(eta_q)[..., 0, :]
        z = self._grid(m.detach(), v.detach(), _sharpest(mixture.detached()))
        ratio = mixture.log_ratio(mixture.family.statistic(z[None, None, :, None]))
        weights = torch.softmax(-0.5 * (z - m).square() / v, -1)
        return (weights * ratio).sum(-1)

    def _grid(self, m: Float[Tensor, "N T 1"], v: Float[Tensor, "N T 1"], sharpest: float) -> Float[Tensor, "G"]:
        sd = v.sqrt()
        low, high = float((m - REACH * sd).min()), float((m + REACH * sd).max())
        step = self.spacing * min(float(sd.min()), 0.5 * sharpest)
        if not math.isfinite(low + high + step):
            return m.new_full((1,), torch.nan)  # the loop's rescue is for this
        points = math.ceil((high - low) / step) + 1
        if points > LARGEST_GRID:
            warnings.warn(errors.grid_too_fine(points, LARGEST_GRID), stacklevel=2)
            points = LARGEST_GRID
        return torch.linspace(low, high, points, dtype=m.dtype, device=m.device)


def _sharpest(mixture: AtomMixture) -> float:
    """The smallest sd of any atom that counts: log F has features of this size, and kinks where two atoms meet."""
    family = cast(Continuous, mixture.family)
    variance = family.covariance(mixture.reference[:, None] + mixture.g)[..., 0, 0]
    smallest = float(torch.where(torch.isfinite(mixture.log_count), variance, torch.inf).min())
    if mixture.own is not None:
        own = family.covariance(mixture.reference + mixture.own.g)[..., 0, 0]
        smallest = min(smallest, float(torch.where(mixture.own.present, own, torch.inf).min()))
    return math.sqrt(smallest)


def quadrature(latents: int) -> ExpectedLogMixture:
    """The better of the two for this many latents."""
    return SharedGrid() if latents == 1 else GaussHermite({2: 16}.get(latents, 8))


def hermite(
    nodes: int, latents: int, like: Float[Tensor, "N T D"]
) -> tuple[Float[Tensor, "1 1 Q K"], Float[Tensor, "Q"]]:
    """Nodes and weights of the expectation under N(0, I)."""
    points, weights = np.polynomial.hermite_e.hermegauss(nodes)
    grid = np.stack(np.meshgrid(*[points] * latents, indexing="ij"), -1).reshape(-1, latents)
    product = np.stack(np.meshgrid(*[weights / weights.sum()] * latents, indexing="ij"), -1)
    every = product.reshape(-1, latents).prod(-1)
    return torch.as_tensor(grid).to(like)[None, None], torch.as_tensor(every).to(like)
