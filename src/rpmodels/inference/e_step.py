"""The contract of an E-step: a choice of potentials, which the prior turns into a posterior."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic

from jaxtyping import Float
from torch import Tensor
from typing_extensions import TypeVar

from rpmodels.carriers import Factors, Sites, Targets
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior, Prior
from rpmodels.step import Step

P = TypeVar("P", bound=Prior, default=Any)


class EStep(ABC, Generic[P]):
    """Chooses q for a batch, under priors of the kind in brackets, which `check` has seen to."""

    temperature = 1.0
    """How far it believes populations of its own, in training as well."""

    @property
    def passes(self) -> int:
        """How often F is computed with its E-step: once, unless it looks at the mixtures itself."""
        return 1

    @abstractmethod
    def check(self, prior: Prior, mixture: Mixture, relative: bool) -> None:
        """Refuse a prior, the form in which mixtures will come, or absolute factors, when the model is built."""

    def initial_parameters(
        self, prior: P, sites: Sites, potentials: Callable[[], Float[Tensor, "N T D"]]
    ) -> Mapping[str, Tensor]:
        """Per-trial parameters it wants to own, from what the untrained factors sum to; none by default."""
        return {}

    def on_the_way(self) -> "EStep":
        """Its form for all but the last steps of a fit, where something cheaper leads to the same place."""
        return self

    def for_new_data(self) -> "EStep":
        """Its form for new data, which have no parameters of their own."""
        return self

    def tempered(self, temperature: float) -> "EStep":
        """With populations believed less (`rpmodels.temperature`), where it can be."""
        return self

    @abstractmethod
    def __call__(self, step: Step[P], approximation: ExpectedLogMixture) -> Posterior:
        """q(Z) of every observation of the batch; `approximation` is how ⟨log F_j⟩ is computed, for those that ask."""


def summed_potentials(factors: Factors) -> Float[Tensor, "N T D"]:
    """Σ_j g_j over what is present, each on the latents it targets."""
    return added([(factor.targets, factor.known()) for factor in factors.values()])


def added(parts: Sequence[tuple[Targets, Tensor]]) -> Float[Tensor, "N T D"]:
    """Potentials, each on its targets, as one on all latents."""
    return parts[0][0].added(parts)
