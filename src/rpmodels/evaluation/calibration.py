"""Calibration without the truth: what one factor says of the latents, against what all of them say.

If posteriors are right, the mean given all factors scatters around the mean given one of them with variance
v_one − v_all (the law of total variance). So the data of the other factors judge the error bars of the first.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.estimators import Latents

SMALLEST = 1e-6
"""Variance below which the other factors told nothing new."""


@runtime_checkable
class HasLatents(Protocol):
    """A fitted estimator."""

    @property
    def latents(self) -> Callable[..., Latents]:
        """What it says of data."""


@dataclass(frozen=True)
class BetweenFactors:
    """Means given all factors, and the normals that one factor predicts for them: a row for every latent and site."""

    factor: str
    mean: NDArray[np.float64]
    variance: NDArray[np.float64]
    all_factors: NDArray[np.float64]


def between_factors(model: HasLatents, X: Any, factor: str, **options: Any) -> BetweenFactors:
    """For `rp.plots.calibration(found.mean, found.variance, found.all_factors)`: above the diagonal one is too modest.

    Args:
        model: fitted, of two factors or more and latents that are coordinates
        X: a dict of factors, best of trials that the model has not seen
        factor: the one whose error bars are judged
        options: as in `latents` (times)

    """
    if not isinstance(X, dict) or len(X) < 2:
        raise errors.bad_value("X", "a dict of two factors or more", type(X).__name__)
    if factor not in X:
        raise errors.unknown_factor(factor, list(X))
    one = model.latents({factor: X[factor]}, **options)
    if one.spread is None:
        raise errors.needs_variances("between_factors", type(model).__name__)
    every = model.latents(X, **options)
    gained = _flat(one.spread) - _flat(every.spread)
    told = gained > SMALLEST
    return BetweenFactors(factor, _flat(one.values)[told], gained[told], _flat(every.values)[told])


def _flat(values: Any) -> NDArray[np.float64]:
    """Arrays, or lists of them, in one row."""
    parts = values if isinstance(values, list) else [values]
    return np.concatenate([np.asarray(part, np.float64).ravel() for part in parts])
