"""F_j of a factor of states, as a number for each of them: the atoms are summed once and forgotten."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels.carriers import Factor
from rpmodels.families import FiniteSupport
from rpmodels.linalg import log_sum_exp
from rpmodels.mixtures import reduce
from rpmodels.mixtures.mixture import AtomMixture, Mixture, own_log_count, resized
from rpmodels.tracing import recording


@dataclass(frozen=True)
class StateMixture(Mixture[FiniteSupport], ABC):
    """F_j of a factor of states, whose log f_j/F_j is a number for each of them."""

    @abstractmethod
    def log_weights(self, factor: Factor) -> Float[Tensor, "N T K"]:
        """log f_j/F_j of every state, whether the factor is present or not."""


@dataclass(frozen=True)
class TableMixture(StateMixture):
    """K numbers per site, for latents of finite support: the atoms are summed once and forgotten."""

    log_mass: Float[Tensor, "S K"]
    log_shared_total: Float[Tensor, "S"]
    own: Factor | None = None
    _ratio: dict[bool, Tensor] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def log_total(self) -> Float[Tensor, "..."]:
        """log Σ_m c_m at every site."""
        shared = self.log_shared_total
        return shared if self.own is None else reduce.log_add_exp(shared, own_log_count(self.own, shared))

    def at_sites(self, sites: int, reference: Float[Tensor, "#T D"]) -> "TableMixture":
        """Cut, or continued without atoms."""
        if self.shared:
            return self
        log_mass, total = (resized(each, sites, -torch.inf) for each in (self.log_mass, self.log_shared_total))
        return replace(self, reference=reference, log_mass=log_mass, log_shared_total=total)

    def with_own(self, own: Factor, reference: Float[Tensor, "#T D"]) -> "TableMixture":
        """The table plus each site's own atom."""
        return replace(self.at_sites(own.g.shape[1], reference), own=None if self.drawn else own)

    def log_weights(self, factor: Factor) -> Float[Tensor, "N T K"]:
        """log f_j/r − log F_j/r."""
        log_f = self.family.log_probabilities(self.reference + factor.g)
        return log_f - self.family.log_probabilities(self.reference) - self.log_ratio()

    def log_ratio(self) -> Float[Tensor, "n s K"]:
        """log F_j(k)/r(k), r the reference; zero where a site has no atoms at all. Axes n, s broadcast.

        The E-step reads it, and ⟨log F⟩; what was found without gradients is not given to whom wants some.
        """
        with_gradients = torch.is_grad_enabled()
        if with_gradients not in self._ratio:
            self._ratio[with_gradients] = self._log_ratio()
        return self._ratio[with_gradients]

    def _log_ratio(self) -> Float[Tensor, "n s K"]:
        mass = self.log_mass[None]
        reference = self.family.log_probabilities(self.reference)
        if self.own is not None:
            own = self.family.log_probabilities(self.reference + self.own.g)
            count = own_log_count(self.own, self.log_shared_total)
            mass = reduce.log_add_exp(mass, own + count[..., None])
        total = self.log_total if self.own is not None else self.log_total[None]
        empty = torch.isneginf(total)[..., None]
        if not recording() and not bool(empty.any()):
            return mass - total[..., None] - reference
        safe = torch.where(empty, torch.zeros_like(mass), mass - torch.nan_to_num(total)[..., None])
        return torch.where(empty, torch.zeros_like(safe), safe - reference)


def tabulate(mixture: AtomMixture[FiniteSupport]) -> TableMixture:
    """Σ_m c_m f_j(k|x_m) for every state k, by the one reduction over atoms."""
    sites, atoms, _ = mixture.g.shape

    def pairs(block: slice) -> Tensor:  # [S, K, a]
        eta = mixture.reference[:, None] + mixture.g[:, block]
        return (mixture.family.log_probabilities(eta) + mixture.log_count[:, block, None]).mT

    states = mixture.reference.shape[-1]
    return TableMixture(
        mixture.family,
        mixture.reference,
        mixture.shared,
        log_mass=reduce.over_atoms(pairs, atoms, sites * states),
        log_shared_total=log_sum_exp(mixture.log_count),
        drawn=mixture.drawn,
    )
