"""⟨log F_j⟩ as a sum over points that cover the whole space of the latent: a circle.

log F/r is computed once per atom and point, for all trials and sites: cost linear in trials and in atoms instead of
their product, and no bound. Sums over equal steps of a circle are exact until posteriors are narrower than a step.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import checks, errors
from rpmodels.carriers import NamedTensors
from rpmodels.families import Family, HasGrid
from rpmodels.mixtures.approximation import Kind, OfAtoms
from rpmodels.mixtures.mixture import AtomMixture


class FixedGrid(OfAtoms[HasGrid]):
    """So many points: 256 of a circle resolve angles to about one degree and a half (κ ≤ 1600)."""

    def __init__(self, points: int = 256) -> None:
        self.points = checks.integer("points", points, 2)

    @property
    def kind(self) -> Kind:
        """As good as exact while the grid is fine enough."""
        return Kind.QUADRATURE

    def finer(self) -> "FixedGrid":
        """Twice the points."""
        return FixedGrid(2 * self.points)

    def check(self, family: Family) -> None:
        """A bounded space of the latent."""
        if not isinstance(family, HasGrid):
            raise errors.needs_grid("the fixed grid", type(family).__name__)

    def __call__(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[HasGrid], local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """Σ_i q(z_i) log F/r(z_i) / Σ_i q(z_i)."""
        family = mixture.family
        statistic = family.statistic(family.grid(self.points)[0].to(eta_q))
        weights = torch.softmax(eta_q @ statistic.mT, -1)
        return (weights * mixture.log_ratio(statistic[None, None])).sum(-1)
