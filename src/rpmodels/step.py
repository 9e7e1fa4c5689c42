"""One step, before q is chosen and after: what E-steps and the free energy read of a batch, and what they found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic

from typing_extensions import TypeVar

from rpmodels.carriers import Batch, Factors, Sites
from rpmodels.local_parameters import LocalParameters
from rpmodels.mixtures import Mixture
from rpmodels.priors import Posterior, Prior

P_co = TypeVar("P_co", bound=Prior, covariant=True, default=Prior)


@dataclass(frozen=True)
class Step(Generic[P_co]):
    """A prior, the recognition factors of a batch, their mixtures F_j, and what belongs to its observations alone."""

    prior: P_co
    sites: Sites
    factors: Factors
    mixtures: Mapping[str, Mixture]
    local: LocalParameters = field(default_factory=LocalParameters)


@dataclass(frozen=True)
class Inferred:
    """Some observations, what the factors say of them, and their posterior."""

    batch: Batch
    step: Step
    posterior: Posterior

    @property
    def factors(self) -> Factors:
        """f_j of every factor at every site."""
        return self.step.factors

    @property
    def mixtures(self) -> Mapping[str, Mixture]:
        """F_j, the observations' own atoms among them."""
        return self.step.mixtures
