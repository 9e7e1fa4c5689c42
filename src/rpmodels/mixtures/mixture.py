"""F_j as data: what it is a mixture of, and whose atom is whose own.

F_j(z) = Σ_m c_m f_j(z|x_m) / Σ_m c_m, with f_j(·|x_m) at natural parameter reference + g_m and counts
c_m (1, or the sample weight; 0 where an atom is missing). S is 1 when one mixture serves all sites
(pooled atoms) and T when every site has its own (A20): no approximation asks which.

A new observation is always among its own atoms: `with_own` adds it, F⁺ = (Σc·F + f_own)/(Σc + 1), but to draws.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Generic, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rpmodels.carriers import Factor, NamedTensors, SiteMarginal
from rpmodels.families import InPlacePairs
from rpmodels.families.family import F_co
from rpmodels.linalg import log_sum_exp
from rpmodels.mixtures import reduce
from rpmodels.mixtures.fused import log_sum_normalisers

Pairs = Callable[[Tensor, Tensor], Tensor]
"""(g, log-weights) → terms, atoms in the last axis."""
AveragedPairs = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(g, log-weights) → terms, and values with one more axis."""


@runtime_checkable
class Approximation(Protocol):
    """What `mixtures.ExpectedLogMixture` is to a mixture."""

    def __call__(self, eta_q: Tensor, mixture: Any, local: NamedTensors) -> Tensor:
        """⟨log F_j/r⟩ of every site."""

    def summarise(self, atoms: Any) -> Any:
        """The form of F_j that it reads."""


@dataclass(frozen=True)
class Mixture(ABC, Generic[F_co]):
    """F_j: atoms one by one (below), numbers of states (table.py), that of a population or of a generative factor."""

    family: F_co
    reference: Float[Tensor, "#S D"]
    shared: bool
    """Whether the one mixture there is (S = 1) serves every site, however many new data have."""
    drawn: bool = field(default=False, kw_only=True)
    """Whether its atoms are draws from a density: then nobody has an atom of his own, and f_j/F_j no bound."""

    @abstractmethod
    def at_sites(self, sites: int, reference: Float[Tensor, "#T D"]) -> "Mixture[F_co]":
        """The same mixture for data of this many sites, with their reference: unseen sites have no atoms."""

    @property
    @abstractmethod
    def log_total(self) -> Float[Tensor, "..."]:
        """log Σ_m c_m at every site, own atoms included: [S], or [N, T] once own atoms are added."""

    def log_shift(self, g: Float[Tensor, "N T D"]) -> Float[Tensor, "N T"]:
        """Φ(η₀+g) − Φ(η₀): what normalises a factor with potential g."""
        return self._normaliser_of(g) - self._log_normaliser

    def _normaliser_of(self, g: Float[Tensor, "N T D"]) -> Float[Tensor, "N T"]:
        """Φ(η₀+g)."""
        return self.family.log_normaliser(self.reference + g)

    def log_normaliser_of(self, factor: Factor) -> Float[Tensor, "N T"]:
        """What normalises f_j at every site, relative to the reference."""
        return self.log_shift(factor.g)

    def expected_log(
        self, factor: Factor, q: SiteMarginal, approximation: Approximation, local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """⟨log F_j/r⟩ under q, as the approximation computes it."""
        return approximation(q.eta, self, local)

    def refined(self, factor: Factor, q: SiteMarginal) -> Factor:
        """What f_j/F_j says near q, where that has a closed form; else what f_j says."""
        return factor

    def finer(self) -> "Mixture[F_co]":
        """The same; where it has a quadrature of its own, with twice the nodes."""
        return self

    def surprise(self, factor: Factor, own_count: Float[Tensor, "N"]) -> Float[Tensor, "N T"]:
        """−log p₀ of what every site has seen, whose own weight among the atoms is `own_count`; ∞ for a density."""
        total = torch.full_like(self.log_total, torch.inf) if self.drawn else self.log_total.detach()
        return total.expand(factor.present.shape) - own_count.log()[:, None]

    def summarised(self, approximation: Approximation) -> "Mixture":
        """In the form that the approximation reads."""
        summary: Mixture = approximation.summarise(self)
        return summary

    @cached_property
    def _log_normaliser(self) -> Float[Tensor, "#S"]:
        """Φ(η₀)."""
        return self.family.log_normaliser(self.reference)

    @abstractmethod
    def with_own(self, own: Factor, reference: Float[Tensor, "#T D"]) -> "Mixture[F_co]":
        """The mixture of new observations: these atoms plus, at every site, the site's own (unless they are drawn)."""


@dataclass(frozen=True)
class Normalisers:
    """Φ(η₀ + g) of the factors that a mixture was collected from, which is asked for by atoms, own atoms and f_j."""

    reference: Float[Tensor, "#S D"]
    of: tuple[tuple[Float[Tensor, "..."], Float[Tensor, "..."]], ...]
    """These g, and Φ of each."""

    def known(self, reference: Tensor, g: Tensor) -> Tensor | None:
        """Φ of these very numbers, if it is among them."""
        found = (value for each, value in self.of if each is g)
        return next(found, None) if reference is self.reference else None


@dataclass(frozen=True)
class AtomMixture(Mixture[F_co]):
    """Atoms kept one by one, for latents that are not finite."""

    g: Float[Tensor, "S A D"]
    log_count: Float[Tensor, "S A"]
    own: Factor | None = None
    normalisers: Normalisers | None = None

    @cached_property
    def log_total(self) -> Float[Tensor, "..."]:
        """log Σ_m c_m at every site."""
        shared = log_sum_exp(self.log_count)
        return shared if self.own is None else reduce.log_add_exp(shared, own_log_count(self.own, shared))

    def detached(self) -> "AtomMixture[F_co]":
        """The same atoms, constant for the gradient."""
        own = None if self.own is None else replace(self.own, g=self.own.g.detach())
        return replace(self, reference=self.reference.detach(), g=self.g.detach(), own=own)

    def some(self, drawn: Int[Tensor, "a"]) -> "AtomMixture[F_co]":
        """These atoms alone."""
        g, normaliser = self.g[:, drawn], self._known(self.g)
        kept = self.normalisers
        if kept is not None and normaliser is not None:
            kept = Normalisers(kept.reference, (*kept.of, (g, normaliser[:, drawn])))
        return replace(self, g=g, log_count=self.log_count[:, drawn], normalisers=kept)

    def where_atoms(self, values: Float[Tensor, "N T"]) -> Float[Tensor, "N T"]:
        """`values` at sites that have atoms, zero at those that have none."""
        return torch.where(torch.isneginf(self.log_total), 0.0, values) if self._some_empty else values

    @cached_property
    def _some_empty(self) -> bool:
        """Whether there are sites without atoms."""
        return bool(torch.isneginf(self.log_total).any())

    def filled(self) -> "AtomMixture[F_co]":
        """The same mixture; atoms without weight, and own ones that are absent, become the heaviest of their site."""
        heaviest = self.g.gather(1, self.log_count.argmax(-1)[:, None, None].expand(-1, 1, self.g.shape[-1]))
        own = self.own and replace(self.own, g=torch.where(self.own.present[..., None], self.own.g, heaviest[:, 0]))
        return replace(self, g=torch.where(torch.isfinite(self.log_count)[..., None], self.g, heaviest), own=own)

    def for_all(self, holds: Callable[[Tensor], Tensor], numbers_per_atom: int) -> Bool[Tensor, "N T"]:
        """Whether something holds of the potentials of all atoms, own ones included, block by block."""
        size = reduce.block_size(numbers_per_atom)
        parts = [holds(self.g[None, :, start : start + size]).all(-1) for start in range(0, self.g.shape[1], size)]
        if self.own is not None:
            parts.append(holds(self.own.g[:, :, None]).all(-1))
        return torch.stack(torch.broadcast_tensors(*parts)).all(0)  # type: ignore[no-untyped-call]

    def log_mean(self, pairs: Pairs, numbers_per_atom: int) -> Float[Tensor, "..."]:
        """log Σ_m w_m exp(l_m) r(z)/Z_m, w the normalised counts: the one form that every approximation reduces.

        `pairs` gets g and log-weights log c_m − Φ(η₀+g_m) + Φ(η₀), with axes that broadcast to (N, T, atoms), and
        returns its terms with the atoms last. Zero at a site without any atoms.
        """
        weight = self._log_weight()
        total = reduce.over_atoms(
            lambda b: pairs(self.g[None, :, b], weight[None, :, b]), self.g.shape[1], numbers_per_atom
        )
        return self._completed(total, pairs)

    def log_mean_normaliser(self, a: Float[Tensor, "N T D"]) -> Float[Tensor, "N T"]:
        """log Σ_m w_m exp(Φ(a+g_m)) r(z)/Z_m: the same for Φ, by the fastest way that the family knows."""

        def pairs(g: Tensor, log_weight: Tensor) -> Tensor:
            return self.family.log_normaliser(a[:, :, None] + g) + log_weight

        if isinstance(self.family, InPlacePairs):
            return self._completed(log_sum_normalisers(self.family, a, self.g, self._log_weight()), pairs)
        # Twice the pairs, for what is kept beside them.
        return self.log_mean(pairs, 2 * a[..., 0].numel())

    def _completed(self, total: Float[Tensor, "n s *Q"], pairs: Pairs) -> Float[Tensor, "..."]:
        """With each site's own atom, where there is one, and normalised."""
        if self.own is not None:
            total = reduce.log_add_exp(total, pairs(*self._own_pairs(self.own))[..., 0])
        return self._normalised(total)

    def log_mean_and_averages(
        self, pairs: AveragedPairs, numbers_per_atom: int
    ) -> tuple[Float[Tensor, "N T"], Float[Tensor, "N T V"]]:
        """The same, with averages of values under the softmax of the terms: `pairs` returns terms and values."""
        weight = self._log_weight()
        total, averages = reduce.averaged_over_atoms(
            lambda b: pairs(self.g[None, :, b], weight[None, :, b]), self.g.shape[1], numbers_per_atom
        )
        if self.own is not None:
            own, values = pairs(*self._own_pairs(self.own))
            both = reduce.log_add_exp(total, own[..., 0])
            share = (own[..., 0] - torch.nan_to_num(both, neginf=0.0)).exp()[..., None]
            total, averages = both, (1.0 - share) * averages + share * values[..., 0, :]
        return self._normalised(total), averages

    def log_weight(self, factor: Factor, t: Float[Tensor, "N T Q D"]) -> Float[Tensor, "N T Q"]:
        """log f_j/F_j at given statistics t(z)."""
        log_f = (factor.g[:, :, None] * t).sum(-1) - self.log_shift(factor.g)[:, :, None]
        return log_f - self.log_ratio(t)

    def log_ratio(self, t: Float[Tensor, "n s Q D"]) -> Float[Tensor, "N T Q"]:
        """log F_j(z)/r(z) at given statistics t(z): Q of them for every site, or the same for all (n = s = 1)."""

        def pairs(g: Tensor, log_weight: Tensor) -> Tensor:
            return t @ g.mT + log_weight[..., None, :]

        return self.log_mean(pairs, t.shape[0] * max(t.shape[1], self.g.shape[0]) * t.shape[2])

    def _log_weight(self) -> Float[Tensor, "S A"]:
        """log c_m − Φ(η₀+g_m) + Φ(η₀)."""
        normaliser = self._known(self.g)
        if normaliser is None:
            normaliser = self.family.log_normaliser(self.reference[:, None] + self.g)
        return self.log_count - normaliser + self._log_normaliser[:, None]

    def _known(self, g: Tensor) -> Tensor | None:
        return None if self.normalisers is None else self.normalisers.known(self.reference, g)

    def _normaliser_of(self, g: Float[Tensor, "N T D"]) -> Float[Tensor, "N T"]:
        """Φ(η₀+g), once for the factors that it was collected from."""
        known = self._known(g)
        return super()._normaliser_of(g) if known is None else known

    def _own_pairs(self, own: Factor) -> tuple[Float[Tensor, "N T 1 D"], Float[Tensor, "N T 1"]]:
        shift = self.log_shift(own.g)
        return own.g[:, :, None], (own_log_count(own, shift) - shift)[:, :, None]

    def _normalised(self, total: Float[Tensor, "n s *more"]) -> Float[Tensor, "n s *more"]:
        log_total = self.log_total if self.own is not None else self.log_total[None]
        log_total = log_total.reshape(*log_total.shape, *[1] * (total.ndim - 2))
        if not self._some_empty:
            return total - log_total
        empty = torch.isneginf(log_total)
        return torch.where(empty, torch.zeros_like(total), total - torch.nan_to_num(log_total, neginf=0.0))

    def at_sites(self, sites: int, reference: Float[Tensor, "#T D"]) -> "AtomMixture[F_co]":
        """Cut, or continued without atoms."""
        if self.shared:
            return self
        g, log_count = resized(self.g, sites, 0.0), resized(self.log_count, sites, -torch.inf)
        return replace(self, reference=reference, g=g, log_count=log_count)

    def with_own(self, own: Factor, reference: Float[Tensor, "#T D"]) -> "AtomMixture[F_co]":
        """These atoms plus each site's own."""
        return replace(self.at_sites(own.g.shape[1], reference), own=None if self.drawn else own)


def own_log_count(own: Factor, like: Tensor) -> Float[Tensor, "N T"]:
    """log of whether a site's own atom is there."""
    return own.present.to(like.dtype).log()


def resized(values: Float[Tensor, "S *rest"], sites: int, fill: float) -> Float[Tensor, "S2 *rest"]:
    """Of so many sites: cut, or continued with one value."""
    have = values.shape[0]
    if have >= sites:
        return values[:sites]
    return torch.cat([values, values.new_full((sites - have, *values.shape[1:]), fill)])
