"""F_j as data: what it is a mixture of, and whose atom is whose own.

F_j(z) = Σ_m c_m f_j(z|x_m) / Σ_m c_m, with f_j(·|x_m) at natural parameter reference + g_m and counts
c_m (1, or the sample weight; 0 where an atom is missing). S is 1 when one mixture serves all sites
(pooled atoms) and T when every site has its own (A20): no approximation asks which.

A new observation is always among its own atoms: `with_own` adds it, F⁺ = (Σc·F + f_own)/(Σc + 1).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels.carriers import Factor
from rpmodels.families import Family, FiniteSupport
from rpmodels.mixtures import reduce


@dataclass(frozen=True)
class Mixture(ABC):
    """Either of the two final kinds below."""

    family: Family
    reference: Float[Tensor, "#S D"]
    shared: bool
    """Whether the one mixture there is (S = 1) serves every site, however many new data have."""

    @abstractmethod
    def at_sites(self, sites: int, reference: Float[Tensor, "#T D"]) -> "Mixture":
        """The same mixture for data of this many sites, with their reference: unseen sites have no atoms."""

    @property
    @abstractmethod
    def log_total(self) -> Float[Tensor, "..."]:
        """log Σ_m c_m at every site, own atoms included: [S], or [N, T] once own atoms are added."""

    @abstractmethod
    def with_own(self, own: Factor, reference: Float[Tensor, "#T D"]) -> "Mixture":
        """The mixture of new observations: these atoms plus, at every site, the site's own."""


@dataclass(frozen=True)
class AtomMixture(Mixture):
    """Atoms kept one by one, for latents that are not finite."""

    g: Float[Tensor, "S A D"]
    log_count: Float[Tensor, "S A"]
    own: Factor | None = None

    @property
    def log_total(self) -> Float[Tensor, "..."]:
        """log Σ_m c_m at every site."""
        shared = reduce.log_sum_exp(self.log_count)
        return shared if self.own is None else reduce.log_add_exp(shared, _own_log_count(self.own, shared))

    def at_sites(self, sites: int, reference: Float[Tensor, "#T D"]) -> "AtomMixture":
        """Cut, or continued without atoms."""
        if self.shared:
            return self
        return replace(
            self,
            reference=reference,
            g=_resized(self.g, sites, 0.0),
            log_count=_resized(self.log_count, sites, -torch.inf),
        )

    def with_own(self, own: Factor, reference: Float[Tensor, "#T D"]) -> "AtomMixture":
        """These atoms plus each site's own."""
        return replace(self.at_sites(own.g.shape[1], reference), own=own)


@dataclass(frozen=True)
class TableMixture(Mixture):
    """K numbers per site, for latents of finite support: the atoms are summed once and forgotten."""

    log_mass: Float[Tensor, "S K"]
    log_shared_total: Float[Tensor, "S"]
    own: Factor | None = None

    @property
    def log_total(self) -> Float[Tensor, "..."]:
        """log Σ_m c_m at every site."""
        shared = self.log_shared_total
        return shared if self.own is None else reduce.log_add_exp(shared, _own_log_count(self.own, shared))

    def at_sites(self, sites: int, reference: Float[Tensor, "#T D"]) -> "TableMixture":
        """Cut, or continued without atoms."""
        if self.shared:
            return self
        return replace(
            self,
            reference=reference,
            log_mass=_resized(self.log_mass, sites, -torch.inf),
            log_shared_total=_resized(self.log_shared_total, sites, -torch.inf),
        )

    def with_own(self, own: Factor, reference: Float[Tensor, "#T D"]) -> "TableMixture":
        """The table plus each site's own atom."""
        return replace(self.at_sites(own.g.shape[1], reference), own=own)

    def log_ratio(self) -> Float[Tensor, "n s K"]:
        """log F_j(k)/r(k), r the reference; zero where a site has no atoms at all. Axes n, s broadcast."""
        mass = self.log_mass[None]
        reference = log_probabilities(self.family, self.reference)
        if self.own is not None:
            own = log_probabilities(self.family, self.reference + self.own.g)
            count = _own_log_count(self.own, self.log_shared_total)
            mass = reduce.log_add_exp(mass, own + count[..., None])
        total = self.log_total if self.own is not None else self.log_total[None]
        empty = torch.isneginf(total)[..., None]
        safe = torch.where(empty, torch.zeros_like(mass), mass - torch.nan_to_num(total)[..., None])
        return torch.where(empty, torch.zeros_like(safe), safe - reference)


def tabulate(mixture: AtomMixture) -> TableMixture:
    """Σ_m c_m f_j(k|x_m) for every state k, by the one reduction over atoms."""
    sites, atoms, _ = mixture.g.shape

    def pairs(block: slice) -> Tensor:  # [S, K, a]
        eta = mixture.reference[:, None] + mixture.g[:, block]
        return (log_probabilities(mixture.family, eta) + mixture.log_count[:, block, None]).mT

    states = mixture.reference.shape[-1]
    return TableMixture(
        mixture.family,
        mixture.reference,
        mixture.shared,
        log_mass=reduce.over_atoms(pairs, atoms, sites * states),
        log_shared_total=reduce.log_sum_exp(mixture.log_count),
    )


def log_probabilities(family: Family, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b K"]:
    """log p(k) under a family that the builder has checked to be of finite support."""
    assert isinstance(family, FiniteSupport)
    return family.log_probabilities(eta)


def _own_log_count(own: Factor, like: Tensor) -> Float[Tensor, "N T"]:
    counts = own.present.to(like.dtype)
    return counts.log()


def _resized(values: Float[Tensor, "S *rest"], sites: int, fill: float) -> Float[Tensor, "S2 *rest"]:
    have = values.shape[0]
    if have >= sites:
        return values[:sites]
    return torch.cat([values, values.new_full((sites - have, *values.shape[1:]), fill)])
