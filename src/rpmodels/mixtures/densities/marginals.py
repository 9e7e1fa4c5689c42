"""What stands behind F_j(z) = ∫ p₀(x) f_j(z|x) dx: the empirical marginal, a kernel density, or a parametric one.

The paper takes p₀ to be the empirical distribution and allows others, which approach the true one as data grow. A
`Marginal` is chosen before there are data; its `Density` is p₀ once there are, by all of them. A density is represented
by draws, which are the atoms of F_j in the place of the observations: what is seen is no atom of its own, neither in
training nor of new data, so that scores have no ceiling.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import Batch
from rpmodels.observations import FactorSpec, Observations

LARGEST = 2**24
"""Numbers in the covariances of p₀; beyond, the numbers of a row are spread each by itself."""


@dataclass(frozen=True)
class Drawn:
    """Rows that stand for p₀ of one factor, and what each of them weighs."""

    values: Shaped[Tensor, "A T *event"]
    present: Bool[Tensor, "A T"]
    weights: Float[Tensor, "A T"]


class Density(ABC):
    """p₀ of one factor, by all the data."""

    @abstractmethod
    def draws(self, batches: Iterable[Batch], sites: int, fresh: bool, device: torch.device) -> Iterator[Drawn]:
        """What stands for it beside these observations, for so many sites.

        `fresh`: other draws each time, for training, which would learn the same ones by heart; else always the same.
        """


class Marginal(ABC):
    """p₀ of the factors, before there are data."""

    names: Sequence[str] = ()
    """Factors that it names."""

    @abstractmethod
    def of(self, name: str, observations: Observations, per_site: bool) -> Density | None:
        """p₀ of a factor by all these data, of all sites together or of every site; None: their own atoms."""

    def draws_for(self, name: str) -> bool:
        """Whether F_j of a factor has draws for atoms."""
        return True

    def check(self, name: str, spec: FactorSpec, kind: str, population: bool) -> None:
        """Refuse a factor that it is not for; `kind` is that of numpy's dtype ("f": floating point)."""
        if population:
            raise errors.population_has_p0(name, type(self).__name__)


class Empirical(Marginal):
    """p₀ puts equal weight on the observations: F_j is a mixture of their own factors. The default."""

    def draws_for(self, name: str) -> bool:
        """For none."""
        return False

    def of(self, name: str, observations: Observations, per_site: bool) -> None:
        """The observations themselves."""

    def check(self, name: str, spec: FactorSpec, kind: str, population: bool) -> None:
        """For every factor."""


class MarginalByFactor(Marginal):
    """Another p₀ for every factor named; that of others is empirical."""

    def __init__(self, names: Sequence[str], marginals: Sequence[Marginal]) -> None:
        self.names, self.marginals = [str(name) for name in names], list(marginals)
        self._chosen = dict(zip(self.names, self.marginals, strict=True))

    @staticmethod
    def chosen(marginals: Mapping[str, Marginal]) -> "MarginalByFactor":
        """From {factor: its p₀}."""
        return MarginalByFactor([*marginals], [*marginals.values()])

    def draws_for(self, name: str) -> bool:
        """What the factor's own says."""
        return self._chosen.get(name, Empirical()).draws_for(name)

    def of(self, name: str, observations: Observations, per_site: bool) -> Density | None:
        """That of the factor."""
        return self._chosen.get(name, Empirical()).of(name, observations, per_site)

    def check(self, name: str, spec: FactorSpec, kind: str, population: bool) -> None:
        """The factor's own."""
        self._chosen.get(name, Empirical()).check(name, spec, kind, population)
