"""The contract of an E-step: a choice of potentials, which the prior turns into a posterior."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor
from typing_extensions import TypeVar

from rpmodels.carriers import Factors, SiteMarginal, Sites, Targets
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior, Prior
from rpmodels.step import Step

P = TypeVar("P", bound=Prior, default=Any)


@runtime_checkable
class HasMarginals(Protocol):
    """q as a further pass reads it: a posterior, or what is known from past and present."""

    def marginal(self, targets: Targets) -> SiteMarginal:
        """q of every site, over what a factor targets."""


Q = TypeVar("Q", bound=HasMarginals, default=HasMarginals)


class EStep(ABC, Generic[P]):
    """Chooses q for a batch, under priors of the kind in brackets, which `check` has seen to."""

    temperature = 1.0
    """How far it believes populations of its own, in training as well."""
    hears_mixtures = False
    """Whether `potentials` depend on F_j."""
    refinements = 0
    """How many further passes they take, each near the q of the one before."""

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

    def potentials(self, step: Step[P], before: HasMarginals | None = None) -> Float[Tensor, "N T D"]:
        """What a prior is conditioned on in the first pass, or in the one after `before`.

        Of E-steps that search for them (free potentials, natural gradients): where they begin.
        """
        return summed_potentials(step.factors)

    def in_passes(self, step: Step[P], conditioned: Callable[[int, Tensor], Q]) -> Q:
        """q after the last pass; `conditioned` gives that of every pass from its number and potentials."""
        q = conditioned(0, self.potentials(step))
        for number in range(self.refinements):
            q = conditioned(number + 1, self.potentials(step, q))
        return q

    @abstractmethod
    def __call__(self, step: Step[P], approximation: ExpectedLogMixture) -> Posterior:
        """q(Z) of every observation of the batch; `approximation` is how ⟨log F_j⟩ is computed, for those that ask."""


def summed_potentials(factors: Factors) -> Float[Tensor, "N T D"]:
    """Σ_j g_j over what is present, each on the latents it targets."""
    return added([(factor.targets, factor.known()) for factor in factors.values()])


def added(parts: Sequence[tuple[Targets, Tensor]]) -> Float[Tensor, "N T D"]:
    """Potentials, each on its targets, as one on all latents."""
    return parts[0][0].added(parts)
