"""One step, before q is chosen: what every E-step and the free energy read of a batch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic

from typing_extensions import TypeVar

from rpmodels.carriers import Factors, Sites
from rpmodels.local_parameters import LocalParameters
from rpmodels.mixtures import Mixture
from rpmodels.priors import Prior

P_co = TypeVar("P_co", bound=Prior, covariant=True, default=Prior)


@dataclass(frozen=True)
class Step(Generic[P_co]):
    """A prior, the recognition factors of a batch, their mixtures F_j, and what belongs to its observations alone."""

    prior: P_co
    sites: Sites
    factors: Factors
    mixtures: Mapping[str, Mixture]
    local: LocalParameters = field(default_factory=LocalParameters)
