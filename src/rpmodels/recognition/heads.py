"""Heads: from a network's raw output to the potential g of a factor, and what g is relative to."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor

from rpmodels.families import Family


class Head(ABC):
    """η_j(x) = reference + g(x), with g in the family's cone of potentials."""

    @property
    @abstractmethod
    def relative(self) -> bool:
        """Whether the reference is the prior's own marginal."""

    @abstractmethod
    def reference(self, family: Family, prior: Float[Tensor, "S D"]) -> Float[Tensor, "S D"]:
        """What factors are relative to, given the prior's marginal."""

    def __call__(self, family: Family, raw: Float[Tensor, "*b R"]) -> Float[Tensor, "*b D"]:
        """g from the network's output."""
        return family.to_potential(raw)


class RelativeHead(Head):
    """Relative to the prior: the network gives what it knows beyond it. The default."""

    @property
    def relative(self) -> bool:
        """Yes."""
        return True

    def reference(self, family: Family, prior: Float[Tensor, "S D"]) -> Float[Tensor, "S D"]:
        """The prior's marginal."""
        return prior


class AbsoluteHead(Head):
    """η_j(x) itself from the network, as the paper states it: relative to the broadest member, whatever the prior.

    The broadest member is the common floor of precision that keeps the interior bound a bound: every factor
    knows at least as much, so η_j − η̃ is valid for all of them whenever it is valid for the floor.
    """

    @property
    def relative(self) -> bool:
        """No."""
        return False

    def reference(self, family: Family, prior: Float[Tensor, "S D"]) -> Float[Tensor, "S D"]:
        """The same for every prior."""
        return family.broadest().to(prior).expand_as(prior)
