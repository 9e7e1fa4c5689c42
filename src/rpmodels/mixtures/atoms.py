"""AtomPolicy: whose atoms a mixture is made of. The own atom is always among them."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import checks, kernels
from rpmodels.carriers import Factor
from rpmodels.families import Family, InPlacePairs
from rpmodels.mixtures.mixture import AtomMixture, Normalisers


class AtomPolicy(ABC):
    """Makes the mixture F_j of a factor from the observations it is given, own atoms included."""

    @property
    @abstractmethod
    def shared(self) -> bool:
        """Whether one mixture, and so one reference, serves all sites."""

    @abstractmethod
    def collect(
        self,
        family: Family,
        reference: Float[Tensor, "#S D"],
        factor: Factor,
        weights: Float[Tensor, "N *T"],
    ) -> AtomMixture:
        """The mixture over these observations, weighted."""

    def for_a_step(
        self,
        family: Family,
        reference: Float[Tensor, "#S D"],
        factor: Factor,
        weights: Float[Tensor, "N *T"],
        own: Factor,
    ) -> AtomMixture:
        """The mixture that a training step sees: all of it, unless a policy draws some, and then `own` beside them."""
        return self.collect(family, reference, factor, weights)

    def for_last_steps(self) -> "AtomPolicy":
        """The policy of the last steps, in which the rate falls: what was saved before may be spent there."""
        return self


class PerSite(AtomPolicy):
    """One mixture for every site, its atoms the observations at that site (A20; the paper's choice)."""

    @property
    def shared(self) -> bool:
        """Every site has its own."""
        return False

    def collect(
        self,
        family: Family,
        reference: Float[Tensor, "#S D"],
        factor: Factor,
        weights: Float[Tensor, "N *T"],
    ) -> AtomMixture:
        """Atoms along the observations, sites kept apart."""
        log_count, g = _log_count(factor, weights).T, factor.g.transpose(0, 1)
        known = _normalisers(family, reference, factor.g, g, lambda values: values.T)
        return AtomMixture(family, reference, self.shared, g, log_count, normalisers=known)


class Pooled(AtomPolicy):
    """One mixture for all sites, its atoms every observation at every site: for few trials or unequal lengths.

    Sites times atoms grow with the square of the data. `sample` draws so many atoms anew in every training step, and
    every site has its own atom beside them; scores and posteriors are always those of the whole mixture. Among few the
    own atom weighs more than among all, which leaves a bias however long a fit is: where `pairs` is given, the last
    steps draw as many atoms as make so many pairs with the sites of a step.
    """

    def __init__(self, sample: int | None = None, pairs: int | None = None) -> None:
        self.sample = None if sample is None else checks.integer("sample", sample, 1)
        self.pairs = None if pairs is None else checks.integer("pairs", pairs, 1)
        self._last = False

    @property
    def shared(self) -> bool:
        """All sites have one."""
        return True

    def collect(
        self,
        family: Family,
        reference: Float[Tensor, "#S D"],
        factor: Factor,
        weights: Float[Tensor, "N *T"],
    ) -> AtomMixture:
        """Atoms along observations and sites."""
        log_count, g = _log_count(factor, weights).reshape(1, -1), factor.g.flatten(0, 1)[None]
        known = _normalisers(family, reference, factor.g, g, lambda values: values.reshape(1, -1))
        return AtomMixture(family, reference, self.shared, g, log_count, normalisers=known)

    def for_a_step(
        self,
        family: Family,
        reference: Float[Tensor, "#S D"],
        factor: Factor,
        weights: Float[Tensor, "N *T"],
        own: Factor,
    ) -> AtomMixture:
        """Some atoms, and each site's own."""
        whole = self.collect(family, reference, factor, weights)
        real = torch.isfinite(whole.log_count[0]).nonzero()[:, 0]
        sample = self._drawn(own)
        if sample is None or len(real) <= sample:
            return whole
        drawn = real[torch.randperm(len(real))[:sample].to(real.device)]
        return whole.some(drawn).with_own(own, reference)

    def _drawn(self, own: Factor) -> int | None:
        if self.sample is None or self.pairs is None or not self._last:
            return self.sample
        return max(self.sample, self.pairs // own.present.numel())

    def for_last_steps(self) -> "Pooled":
        """With as many atoms as `pairs` allows."""
        last = copy.copy(self)
        last._last = True
        return last


def _normalisers(
    family: Family, reference: Tensor, own: Tensor, atoms: Tensor, arranged: Callable[[Tensor], Tensor]
) -> Normalisers | None:
    """Φ(η₀ + g) of factors, and the same as atoms, beside compiled loops.

    In torch each is found by itself: their gradients are added up in another order, and fits keep their numbers.
    """
    if not isinstance(family, InPlacePairs) or not kernels.serve(own):
        return None
    values = family.log_normaliser(reference + own)
    return Normalisers(reference, ((own, values), (atoms, arranged(values))))


def _log_count(factor: Factor, weights: Float[Tensor, "N *T"]) -> Float[Tensor, "N T"]:
    """log c_m: the weight where the factor is present, −∞ where it is not; one for all sites, or one for each."""
    each = weights.reshape(len(weights), -1)
    return torch.where(factor.present, each, torch.zeros_like(each)).log()
