"""The contract of an E-step: a choice of potentials, which the prior turns into a posterior."""

from abc import ABC, abstractmethod
from collections.abc import Mapping

from torch import Tensor

from rpmodels.carriers import Factors, Rows, Sites
from rpmodels.families import Family
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior, Prior


class EStep(ABC):
    """Chooses q for a batch."""

    @abstractmethod
    def check(self, family: Family, mixture: Mixture) -> None:
        """Refuse a family, or the form in which mixtures will come, when the model is built."""

    @abstractmethod
    def initial_rows(self, n_trials: int, n_sites: int, family: Family) -> Mapping[str, Tensor]:
        """Per-trial parameters it wants to own; empty for the stateless."""

    @abstractmethod
    def __call__(
        self,
        prior: Prior,
        sites: Sites,
        factors: Factors,
        mixtures: Mapping[str, Mixture],
        approximation: ExpectedLogMixture,
        rows: Rows,
    ) -> Posterior:
        """q(Z) of every observation of the batch."""
