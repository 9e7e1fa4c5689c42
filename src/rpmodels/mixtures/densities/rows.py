"""All the rows of a factor as what p₀ is made of: those of all sites together, or of every site by itself.

Sums are over all the data, read block by block and in double precision, whatever a step sees of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels.observations import Observations

BLOCK = 2**22
"""Numbers that are read at once."""
FEWEST = 256
"""Observations that a sample of rows is from, at least."""


@dataclass(frozen=True)
class Moments:
    """Weighted mean and covariance of the rows that are present, at S sites or all together (S = 1)."""

    mean: Float[Tensor, "S D"]
    covariance: Float[Tensor, "S *DD"]
    """A matrix, or where that would be very large, variances alone."""
    count: Float[Tensor, "S"]
    """How many rows the weights amount to, (Σw)²/Σw²: their number where all weigh the same."""

    @property
    def variance(self) -> Float[Tensor, "S D"]:
        """Of every number of a row."""
        return self.covariance.diagonal(dim1=-2, dim2=-1) if self.covariance.ndim == 3 else self.covariance


def arranged(
    observations: Observations, name: str, per_site: bool
) -> Iterator[tuple[Float[Tensor, "S n D"], Float[Tensor, "S n"]]]:
    """Rows and their weights (zero where a row is absent), block by block."""
    values, present = observations.values[name], observations.present[name]
    size = max(1, BLOCK // max(1, int(np.prod(values.shape[1:]))))
    for start in range(0, len(observations), size):
        here = slice(start, start + size)
        rows = torch.as_tensor(np.asarray(values[here], np.float64)).reshape(*present[here].shape, -1)
        weights = torch.as_tensor(present[here] * observations.weights[here, None])
        if per_site:
            yield rows.transpose(0, 1), weights.T
        else:
            yield rows.flatten(0, 1)[None], weights.flatten()[None]


def moments(observations: Observations, name: str, per_site: bool, largest: int) -> Moments:
    """Of all rows; more than `largest` numbers in all covariances are not held, but variances instead."""
    total = squares = torch.zeros(())
    first = torch.zeros(())
    for rows, weights in arranged(observations, name, per_site):
        total, squares = total + weights.sum(1), squares + weights.square().sum(1)
        first = first + (weights[..., None] * rows).sum(1)
    share = total.clamp_min(torch.finfo(torch.float64).tiny)
    mean = first / share[:, None]
    whole = mean.numel() * mean.shape[1] <= largest
    second = torch.zeros(())
    for rows, weights in arranged(observations, name, per_site):
        off = rows - mean[:, None]
        weighted = weights[..., None] * off
        second = second + (weighted.mT @ off if whole else (weighted * off).sum(1))
    covariance = second / share.reshape(-1, *[1] * (second.ndim - 1))
    return Moments(mean, covariance, torch.where(total > 0, total.square() / squares, 0.0))


def spread_out(
    observations: Observations, name: str, per_site: bool, limit: int
) -> tuple[Float[Tensor, "S n D"], Float[Tensor, "S n"]]:
    """About so many rows at equal distances, in one piece: of FEWEST observations at least, where there are as many."""
    some = observations.some(max(FEWEST, limit // observations.n_sites))
    parts = list(arranged(some, name, per_site))
    rows, weights = (torch.cat(each, 1) for each in zip(*parts, strict=True))
    if per_site:
        return rows, weights
    counted = weights[0].nonzero()[:, 0]
    if len(counted) > limit:
        counted = counted[torch.linspace(0, len(counted) - 1, limit, dtype=torch.float64).long()]
    return rows[:, counted], weights[:, counted]
