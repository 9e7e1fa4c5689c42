"""F_j of a factor that says p(x_j|z) itself: nothing but the reference."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels.carriers import Factor, NamedTensors, SiteMarginal
from rpmodels.families import FiniteSupport
from rpmodels.mixtures.mixture import Approximation, AtomMixture
from rpmodels.mixtures.table import StateMixture


@dataclass(frozen=True)
class GenerativeMixture(StateMixture):
    """The potential of such a factor is log p(x_j|z)/p₀(x_j): there is nothing to divide by, and nobody's atoms."""

    @property
    def log_total(self) -> Float[Tensor, "S"]:
        """There are no atoms to count."""
        return torch.zeros_like(self.reference[:, 0])

    def at_sites(self, sites: int, reference: Float[Tensor, "#T D"]) -> "GenerativeMixture":
        """The same."""
        return self

    def with_own(self, own: Factor, reference: Float[Tensor, "#T D"]) -> "GenerativeMixture":
        """The same."""
        return self

    def summarised(self, approximation: Approximation) -> "GenerativeMixture":
        """As it is."""
        return self

    def log_normaliser_of(self, factor: Factor) -> Float[Tensor, "N T"]:
        """None: a potential is the whole ratio."""
        return torch.zeros_like(factor.g[..., 0])

    def expected_log(
        self, factor: Factor, q: SiteMarginal, approximation: Approximation, local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """Zero."""
        return torch.zeros_like(factor.g[..., 0])

    def surprise(self, factor: Factor, own_count: Float[Tensor, "N"]) -> Float[Tensor, "N T"]:
        """−log p₀ of what was seen."""
        assert factor.log_p0 is not None
        return -factor.log_p0

    def log_weights(self, factor: Factor) -> Float[Tensor, "N T K"]:
        """The potential."""
        return factor.g

    def as_atoms(self, g: Float[Tensor, "L K"], log_p0: Float[Tensor, "L"]) -> AtomMixture[FiniteSupport]:
        """An atom for every value, with the weight by which p₀ f/F is p(x|z): p₀(x) ∫ r exp(g), so that F_j = r."""
        log_count = log_p0 + self.log_shift(g[None])[0]
        one = self.reference[:1]
        return AtomMixture(self.family, one, True, g[None].to(one), log_count[None].to(one))
