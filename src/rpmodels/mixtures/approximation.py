"""The contract of an approximation of ⟨log F_j⟩ under q: one file each."""

import enum
from abc import ABC, abstractmethod
from collections.abc import Mapping

from jaxtyping import Float
from torch import Tensor

from rpmodels.carriers import Rows
from rpmodels.families import Family
from rpmodels.mixtures.mixture import AtomMixture, Mixture


class Kind(enum.Enum):
    """What the number is, relative to the true ⟨log F_j⟩."""

    EXACT = "exact"
    UPPER_BOUND = "upper bound"
    ESTIMATE = "estimate"


class ExpectedLogMixture(ABC):
    """⟨log F_j/r⟩_q, r the member at the reference (the ratio, so that constants stay small)."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """Exact, an upper bound (so the free energy stays a lower bound), or neither."""

    @abstractmethod
    def check(self, family: Family) -> None:
        """Refuse a family that lacks what is needed, when the model is built."""

    @abstractmethod
    def summarise(self, atoms: AtomMixture) -> Mixture:
        """The form of F_j that this approximation reads: the atoms themselves, or something smaller."""

    @abstractmethod
    def initial_rows(self, n_trials: int, n_sites: int, family: Family) -> Mapping[str, Tensor]:
        """Per-trial parameters it wants to own; empty for the stateless."""

    @abstractmethod
    def __call__(self, eta_q: Float[Tensor, "N T D"], mixture: Mixture, rows: Rows) -> Float[Tensor, "N T"]:
        """⟨log F_j/r⟩ under the site marginals with natural parameters eta_q."""
