"""Continuous latents at every time by itself: what filters and forecasts give."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm


def variances(covariance: Any) -> Any:
    """Diagonals (…, K) of covariances (…, K, K): an array or a list of them."""
    if isinstance(covariance, list):
        return [variances(each) for each in covariance]
    return np.diagonal(covariance, axis1=-2, axis2=-1)


@dataclass(frozen=True)
class LatentMarginals:
    """Means (…, K) and covariances (…, K, K) over the latents at every time, arrays or lists as the data were."""

    mean: Any
    covariance: Any
    times: Any
    """When they are, in the same form."""

    @property
    def variance(self) -> Any:
        """(…, K)."""
        return variances(self.covariance)

    def bands(self, level: float = 0.9) -> tuple[Any, Any]:
        """Lower and upper ends of the central intervals that hold this much probability, each like the mean."""
        width = float(norm.ppf(0.5 + 0.5 * level))
        if isinstance(self.mean, list):
            spreads = [width * np.sqrt(each) for each in self.variance]
            pairs = list(zip(self.mean, spreads, strict=True))
            return [mean - spread for mean, spread in pairs], [mean + spread for mean, spread in pairs]
        spread = width * np.sqrt(self.variance)
        return self.mean - spread, self.mean + spread
