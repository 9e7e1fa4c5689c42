"""Heads: from a network's raw output to the potential g that the rest of the library reads."""

from abc import ABC, abstractmethod

from jaxtyping import Float
from torch import Tensor

from rpmodels.families import Family


class Head(ABC):
    """Raw output → g = η_j(x) − η₀."""

    @abstractmethod
    def __call__(
        self, family: Family, raw: Float[Tensor, "N T R"], reference: Float[Tensor, "S D"]
    ) -> Float[Tensor, "N T D"]:
        """The potential of every site."""


class RelativeHead(Head):
    """η_j(x) = η₀ + g(x): the network gives what it knows beyond the prior. The default."""

    def __call__(
        self, family: Family, raw: Float[Tensor, "N T R"], reference: Float[Tensor, "S D"]
    ) -> Float[Tensor, "N T D"]:
        """g is the network's output, in the family's cone of potentials."""
        return family.to_potential(raw)


class AbsoluteHead(Head):
    """η_j(x) itself from the network, as the paper states it; g may then leave the cone."""

    def __call__(
        self, family: Family, raw: Float[Tensor, "N T R"], reference: Float[Tensor, "S D"]
    ) -> Float[Tensor, "N T D"]:
        """g = η_j(x) − η₀."""
        return family.to_valid(raw) - reference
