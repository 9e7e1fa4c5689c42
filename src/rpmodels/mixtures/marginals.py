"""What stands behind F_j(z) = ∫ p₀(x) f_j(z|x) dx: the empirical marginal, a kernel density, or a parametric one.

The paper takes p₀ to be the empirical distribution and allows others. A marginal other than the empirical is
represented by draws: the observations of a batch are replaced by as many from p₀, and their factors are the atoms.
With a continuous p₀ the observations themselves are no atoms, so scores have no ceiling.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from rpmodels import checks, errors, linalg
from rpmodels.carriers import Batch


class Marginal(ABC):
    """p₀ of every factor, as observations drawn from it."""

    @abstractmethod
    def draw(self, batch: Batch) -> Batch:
        """The batch with its observations replaced by draws from p₀; what is absent stays absent."""


def as_it_is(batch: Batch) -> Batch:
    """The batch itself."""
    return batch


class Empirical(Marginal):
    """p₀ puts equal weight on the observations: F_j is a mixture of their own factors. The default."""

    def draw(self, batch: Batch) -> Batch:
        """The batch itself."""
        return batch


class KernelDensity(Marginal):
    """Gaussian kernels around the observations, of `bandwidth` sds per channel (None: Scott's rule for one channel)."""

    def __init__(self, bandwidth: float | None = None) -> None:
        self.bandwidth = None if bandwidth is None else checks.number("bandwidth", bandwidth, above=0.0)

    def draw(self, batch: Batch) -> Batch:
        """Every observation, moved by its kernel."""
        return _replaced(batch, self._around)

    def _around(self, rows: Float[Tensor, "n D"], weights: Float[Tensor, "n"]) -> Float[Tensor, "n D"]:
        bandwidth = len(rows) ** -0.2 if self.bandwidth is None else self.bandwidth
        mean, centred = _centred(rows, weights)
        del mean
        sd = (weights @ centred.square()).sqrt()
        return rows + bandwidth * sd * torch.randn_like(rows)


class GaussianMarginal(Marginal):
    """A normal with the observations' mean and covariance (shrunk a little, for more channels than observations)."""

    def __init__(self, shrinkage: float = 1e-3) -> None:
        self.shrinkage = checks.number("shrinkage", shrinkage, least=0.0)

    def draw(self, batch: Batch) -> Batch:
        """As many draws as there are observations."""
        return _replaced(batch, self._normal)

    def _normal(self, rows: Float[Tensor, "n D"], weights: Float[Tensor, "n"]) -> Float[Tensor, "n D"]:
        mean, centred = _centred(rows, weights)
        covariance = (weights[:, None] * centred).mT @ centred
        scale = covariance.diagonal().mean() * self.shrinkage
        root = linalg.root(covariance + scale * torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device))
        return mean + torch.randn_like(rows) @ root.mT


def _centred(
    rows: Float[Tensor, "n D"], weights: Float[Tensor, "n"]
) -> tuple[Float[Tensor, "D"], Float[Tensor, "n D"]]:
    mean = weights @ rows
    return mean, rows - mean


def _replaced(batch: Batch, drawn: Callable[[Tensor, Tensor], Tensor]) -> Batch:
    """Every factor's present rows of numbers, replaced; one distribution for all sites."""
    inputs = {}
    for name, values in batch.inputs.items():
        if not values.is_floating_point():
            raise errors.needs_numbers(name)
        inputs[name] = _redrawn(values, batch.present[name], batch.weights, drawn)
    return replace(batch, inputs=inputs)


def _redrawn(
    values: Shaped[Tensor, "N T *event"],
    present: Bool[Tensor, "N T"],
    weights: Float[Tensor, "N"],
    drawn: Callable[[Tensor, Tensor], Tensor],
) -> Shaped[Tensor, "N T *event"]:
    rows = values[present]
    counted = weights[:, None].expand_as(present)[present].to(values.dtype)
    if not bool((counted > 0).any()):  # nothing to take a distribution from, and no weight on what would be drawn
        return values
    changed = values.clone()
    changed[present] = drawn(rows.flatten(1), counted / counted.sum()).reshape(rows.shape)
    return changed
