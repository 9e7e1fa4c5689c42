"""p₀ as a member of a family, by what all the data say of its parameters: moments, or a statistic of one's own."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import Distribution, Independent, MultivariateNormal, Normal, Poisson

from rpmodels import checks, errors, linalg
from rpmodels.carriers import Batch
from rpmodels.mixtures.densities import quasi_random
from rpmodels.mixtures.densities.marginals import LARGEST, Density, Drawn, Marginal
from rpmodels.mixtures.densities.moment_matching import matched, parameters_of
from rpmodels.mixtures.densities.rows import arranged, moments
from rpmodels.observations import FactorSpec, Observations
from rpmodels.seeding import seeded

DRAWS = 1000
SEED = 0
"""Of draws that are always the same."""


class _OfAFamily(Marginal):
    """A distribution over rows, represented by `draws` of its draws."""

    def __init__(self, draws: int = DRAWS) -> None:
        self.draws = checks.integer("draws", draws, 2)

    def check(self, name: str, spec: FactorSpec, kind: str, population: bool) -> None:
        """Vectors of numbers; of whole ones only what a family of whole numbers is for, which `of` looks at."""
        super().check(name, spec, kind, population)
        if spec.is_label or kind not in "fiu":
            raise errors.needs_numbers(name)

    def of(self, name: str, observations: Observations, per_site: bool) -> "DensityOfAFamily":
        """By all rows."""
        distribution, weight = self.fitted(name, observations, per_site)
        whole = np.asarray(observations.values[name][:0]).dtype.kind in "iu"
        support = distribution.support
        if whole and not (support is not None and support.is_discrete):
            raise errors.needs_numbers(name)  # draws would be cut to whole numbers
        return DensityOfAFamily(name, observations, distribution, weight, self.draws)

    @abstractmethod
    def fitted(self, name: str, observations: Observations, per_site: bool) -> tuple[Distribution, Float[Tensor, "S"]]:
        """A distribution over rows of D numbers at S sites, and how much weight it is known from."""


class GaussianMarginal(_OfAFamily):
    """A normal with the observations' mean and covariance (shrunk a little, for more channels than observations)."""

    def __init__(self, shrinkage: float = 1e-3, draws: int = DRAWS) -> None:
        super().__init__(draws)
        self.shrinkage = checks.number("shrinkage", shrinkage, least=0.0)

    def check(self, name: str, spec: FactorSpec, kind: str, population: bool) -> None:
        """Vectors of floating-point numbers."""
        super().check(name, spec, kind, population)
        if kind != "f":
            raise errors.needs_numbers(name)

    def fitted(self, name: str, observations: Observations, per_site: bool) -> tuple[Distribution, Float[Tensor, "S"]]:
        """By mean and covariance."""
        found = moments(observations, name, per_site, LARGEST)
        added = (self.shrinkage * found.variance.mean(1)).clamp_min(torch.finfo(torch.float64).tiny)
        if found.covariance.ndim == 2:
            return Independent(Normal(found.mean, (found.variance + added[:, None]).sqrt()), 1), found.count
        eye = torch.eye(found.mean.shape[1], dtype=torch.float64)
        factor = linalg.cholesky(found.covariance + added[:, None, None] * eye, "the covariance of a Gaussian p₀")
        return MultivariateNormal(found.mean, scale_tril=factor), found.count


class MomentMatched(_OfAFamily):
    """Every number of a row by itself, of a family of torch.distributions with its mean (and variance).

    Args:
        family: the class, with one parameter or two, or its name in torch.distributions: "Gamma", "LogNormal", "Beta"
        draws: atoms that stand for it

    """

    def __init__(self, family: str | type[Distribution], draws: int = DRAWS) -> None:
        super().__init__(draws)
        known: Any = getattr(torch.distributions, family, None) if isinstance(family, str) else family
        if not (isinstance(known, type) and issubclass(known, Distribution)):
            raise errors.bad_value("family", "a class of torch.distributions, or its name", family)
        parameters_of(known)
        self._family: type[Distribution] = known
        # By its name where that is enough, so that files can hold it.
        called = self._family.__name__
        self.family = called if getattr(torch.distributions, called, None) is self._family else self._family

    def fitted(self, name: str, observations: Observations, per_site: bool) -> tuple[Distribution, Float[Tensor, "S"]]:
        """By mean and variance; numbers that the family never gives are refused."""
        found = moments(observations, name, per_site, 0)
        empty = found.count == 0
        mean, variance = (
            torch.where(empty[:, None], each[~empty].mean(0), each) for each in (found.mean, found.variance)
        )
        distribution = matched(self._family, mean, variance, name)
        _check_support(distribution, name, observations, per_site)
        return distribution, found.count


class Parametric(_OfAFamily):
    """A family specified by a sufficient statistic of the data: two methods, as `PoissonMarginal` has them.

    Args:
        draws: atoms that stand for it

    """

    @abstractmethod
    def statistic(self, rows: Float[Tensor, "S n D"]) -> Float[Tensor, "S n K"]:
        """What of a row the parameters depend on; it is averaged over all the data."""

    @abstractmethod
    def distribution(self, mean: Float[Tensor, "S K"]) -> Distribution:
        """The member with this mean statistic, over [S, D]."""

    def fitted(self, name: str, observations: Observations, per_site: bool) -> tuple[Distribution, Float[Tensor, "S"]]:
        """By the mean of the statistic."""
        mean, weight = mean_of(self.statistic, name, observations, per_site)
        distribution = self.distribution(mean)
        _check_support(distribution, name, observations, per_site)
        return distribution, weight


class PoissonMarginal(Parametric):
    """Counts, every channel by itself, with its mean rate."""

    def statistic(self, rows: Float[Tensor, "S n D"]) -> Float[Tensor, "S n D"]:
        """The counts."""
        return rows

    def distribution(self, mean: Float[Tensor, "S D"]) -> Distribution:
        """By their rates."""
        return Poisson(mean, validate_args=False)  # what the data may be is looked at afterwards


class CategoricalMarginal(Marginal):
    """Labels with their relative frequencies: F_j is a sum over the labels there are, and nothing is drawn.

    Args:
        smoothing: observations that every label is given beside those it has

    """

    def __init__(self, smoothing: float = 0.0) -> None:
        self.smoothing = checks.number("smoothing", smoothing, least=0.0)

    def check(self, name: str, spec: FactorSpec, kind: str, population: bool) -> None:
        """Labels."""
        super().check(name, spec, kind, population)
        if not spec.is_label:
            raise errors.needs_labels_for_p0(name)

    def of(self, name: str, observations: Observations, per_site: bool) -> "Frequencies":
        """By how often they are."""
        labels = len(observations.specs[name].vocabulary or ())

        def statistic(rows: Tensor) -> Tensor:
            return nn.functional.one_hot(rows[..., 0].long(), labels).double()

        mean, weight = mean_of(statistic, name, observations, per_site)
        counts = mean * weight[:, None] + self.smoothing
        return Frequencies(torch.where(weight[:, None] > 0, counts, 0.0))


class Frequencies(Density):
    """Every label once, weighted."""

    def __init__(self, counts: Float[Tensor, "S L"]) -> None:
        self.counts = counts

    def draws(self, batches: Iterable[Batch], sites: int, fresh: bool, device: torch.device) -> Iterator[Drawn]:
        """All labels."""
        counts = self.counts[:sites].mT.to(device)
        codes = torch.arange(len(counts), device=device)[:, None].expand(counts.shape)
        yield Drawn(codes, counts > 0, counts)


class DensityOfAFamily(Density):
    """Draws of a distribution: by quasi-random numbers where it has quantiles, else by random ones."""

    def __init__(
        self,
        name: str,
        observations: Observations,
        distribution: Distribution,
        weight: Float[Tensor, "S"],
        count: int,
    ) -> None:
        self.distribution = distribution
        self._event = observations.specs[name].event_shape
        dtype = torch.as_tensor(observations.values[name][:0]).dtype
        # Of whole numbers with few bits, draws may be larger than any that was seen.
        self._dtype = dtype if dtype.is_floating_point else torch.int64
        self._known = weight > 0
        self._count = count

    def draws(self, batches: Iterable[Batch], sites: int, fresh: bool, device: torch.device) -> Iterator[Drawn]:
        """As many as were asked for."""
        rows = self._rows(fresh)[:, :sites]
        values = rows.reshape(*rows.shape[:2], *self._event).to(self._dtype).to(device)
        present = self._known[:sites].to(device).expand(values.shape[:2])
        yield Drawn(values, present, torch.ones(values.shape[:2], dtype=torch.float64, device=device))

    def _rows(self, fresh: bool) -> Float[Tensor, "A S D"]:
        """In double precision."""
        found = self._by_quantiles(fresh)
        if found is not None:
            return found
        if fresh:
            return self.distribution.sample((self._count,)).double()
        with seeded(SEED):
            return self.distribution.sample((self._count,)).double()

    def _by_quantiles(self, fresh: bool) -> Tensor | None:
        """None where a distribution has none, or rows are longer than Sobol points."""
        given = self.distribution
        sites, *event = (*given.batch_shape, *given.event_shape)
        size = int(torch.Size(event).numel())
        if size > quasi_random.LARGEST:
            return None
        places = quasi_random.points(torch.arange(self._count), size, fresh).reshape(self._count, 1, *event)
        if isinstance(given, MultivariateNormal):
            found: Tensor = given.loc + (given.scale_tril @ torch.special.ndtri(places)[..., None])[..., 0]
            return found
        inner = given.base_dist if isinstance(given, Independent) else given
        if inner.event_shape:
            return None
        try:
            quantiles: Tensor = inner.icdf(places.expand(-1, sites, *event))
            return quantiles.double()
        except NotImplementedError:
            return None


def mean_of(
    statistic: Callable[[Tensor], Tensor], name: str, observations: Observations, per_site: bool
) -> tuple[Float[Tensor, "S K"], Float[Tensor, "S"]]:
    """Of all rows, weighted, and the sum of the weights; at a site that has none, the mean of all others."""
    total, sums = torch.zeros(()), torch.zeros(())
    for rows, weights in arranged(observations, name, per_site):
        counted = weights[..., None] * torch.where(weights[..., None] > 0, statistic(rows), 0.0)
        total, sums = total + weights.sum(1), sums + counted.sum(1)
    mean = sums / total[:, None].clamp_min(torch.finfo(torch.float64).tiny)
    return torch.where(total[:, None] > 0, mean, sums.sum(0) / total.sum()), total


def _check_support(distribution: Distribution, name: str, observations: Observations, per_site: bool) -> None:
    """Refuse numbers that the distribution never gives."""
    support = distribution.support
    if support is None:
        return
    for rows, weights in arranged(observations, name, per_site):
        fits = support.check(rows.transpose(0, 1)).transpose(0, 1)  # type: ignore[no-untyped-call]
        fits = fits if fits.ndim == 3 else fits[..., None]
        bad = ~fits & (weights[..., None] > 0)
        if bool(bad.any()):
            s, n, d = (int(each) for each in bad.nonzero()[0])
            raise errors.outside_support(name, type(distribution).__name__, float(rows[s, n, d]))
