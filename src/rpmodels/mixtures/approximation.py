"""The contract of an approximation of ⟨log F_j⟩ under q: one file each."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Generic

from jaxtyping import Float
from torch import Tensor
from typing_extensions import TypeVar

from rpmodels.carriers import NamedTensors
from rpmodels.families import Family
from rpmodels.families.family import F
from rpmodels.mixtures.mixture import AtomMixture, Mixture

M = TypeVar("M", bound=Mixture, default=Any)
"""The form of F_j that an approximation reads; whoever makes the mixtures by `summarise` need not know it."""


class Kind(enum.Enum):
    """What the number is, relative to the true ⟨log F_j⟩."""

    EXACT = "exact"
    UPPER_BOUND = "upper bound"
    ESTIMATE = "estimate"
    QUADRATURE = "quadrature"
    """Exact but for an error that is estimated and told beside it."""

    @property
    def label(self) -> str:
        """What that makes of the score."""
        return {
            "exact": "",
            "upper bound": "a lower bound of the",
            "estimate": "an estimate of the",
            "quadrature": "the free energy, a lower bound of the",
        }[self.value]


class ExpectedLogMixture(ABC, Generic[M]):
    """⟨log F_j/r⟩_q, r the member at the reference (the ratio, so that constants stay small)."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """Exact, an upper bound (so the free energy stays a lower bound), by quadrature, or none of these."""

    @property
    def numbers_per_pair(self) -> int:
        """How much work a pair of a site and an atom is, in evaluations of one number."""
        return 1

    @abstractmethod
    def check(self, family: Family) -> None:
        """Refuse a family that lacks what is needed, when the model is built."""

    @abstractmethod
    def summarise(self, atoms: AtomMixture[Any]) -> M:
        """The form of F_j that this approximation reads: the atoms themselves, or something smaller."""

    def initial_parameters(
        self, family: Family, eta_q: Callable[[], Float[Tensor, "N T D"]]
    ) -> Mapping[str, Float[Tensor, "N T R"]]:
        """Per-trial parameters of one factor that it wants to own, from where q starts; none by default."""
        return {}

    def for_new_data(self) -> "ExpectedLogMixture":
        """Its form outside of training: nothing local, no fresh noise, so that the same data give the same number."""
        return self

    def finer(self) -> "ExpectedLogMixture | None":
        """Of quadratures, one with twice the points: the difference between the two is this one's error."""
        return None

    @abstractmethod
    def __call__(self, eta_q: Float[Tensor, "N T D"], mixture: M, local: NamedTensors) -> Float[Tensor, "N T"]:
        """⟨log F_j/r⟩ under the site marginals with natural parameters eta_q."""


class OfAtoms(ExpectedLogMixture[AtomMixture[F]]):
    """An approximation that reads the atoms themselves, of families with the ability in brackets."""

    def summarise(self, atoms: AtomMixture[F]) -> AtomMixture[F]:
        """The atoms themselves."""
        return atoms
