"""The contract of an E-step: a choice of potentials, which the prior turns into a posterior."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

from jaxtyping import Float
from torch import Tensor

from rpmodels.carriers import Factors, Rows, Sites
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior, Prior


class EStep(ABC):
    """Chooses q for a batch."""

    @abstractmethod
    def check(self, prior: Prior, mixture: Mixture, relative: bool) -> None:
        """Refuse a prior, the form in which mixtures will come, or absolute factors, when the model is built."""

    def initial_rows(
        self, prior: Prior, sites: Sites, potentials: Callable[[], Float[Tensor, "N T D"]]
    ) -> Mapping[str, Tensor]:
        """Per-trial parameters it wants to own, from what the untrained factors sum to; none by default."""
        return {}

    def settled(self) -> "EStep":
        """Its form for new data, which have no rows of their own."""
        return self

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


def summed_potentials(factors: Factors) -> Float[Tensor, "N T D"]:
    """Σ_j g_j over what is present, each on the latents it targets."""
    parts = [factor.targets.embed(factor.known()) for factor in factors.values()]
    return sum(parts[1:], start=parts[0])
