"""What filters and forecasts of switching dynamics tell the user: mixtures with a normal for every state."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from rpmodels.estimators.posteriors import variances
from rpmodels.priors.switching_filter import SwitchingState

HALVINGS = 60
"""Of the interval that an end of a band is looked for in."""
FAR = 12.0
"""Standard deviations from the normals' means where it begins."""

Array = NDArray[np.floating]


@dataclass(frozen=True)
class SwitchingMarginals:
    """Σ_s p(s) N(means_s, covariances_s) over the latents at every time, arrays or lists as the data were."""

    mean: Any
    """(…, K): of the mixture."""
    covariance: Any
    """(…, K, K): of the mixture."""
    probabilities: Any
    """(…, M): of the states."""
    means: Any
    """(…, M, K): of the latents in every state."""
    covariances: Any
    """(…, M, K, K): the same."""
    times: Any
    """When they are, in the same form."""

    @property
    def variance(self) -> Any:
        """(…, K): of the mixture."""
        return variances(self.covariance)

    def bands(self, level: float = 0.9) -> tuple[Any, Any]:
        """Quantiles of the mixtures, between which each latent has this much probability, each end like the mean."""
        ends = 0.5 - 0.5 * level, 0.5 + 0.5 * level
        if not isinstance(self.mean, list):
            lower, upper = (quantile(self.probabilities, self.means, self.covariances, each) for each in ends)
            return lower, upper
        parts = list(zip(self.probabilities, self.means, self.covariances, strict=True))
        lowers, uppers = ([quantile(*part, each) for part in parts] for each in ends)
        return lowers, uppers


def told(state: SwitchingState, form: Callable[[Array], Any], times: Any) -> SwitchingMarginals:
    """What is known at some times, in the form of the data."""
    whole = (state.mean, state.covariance, state.probabilities, state.means, state.covariances)
    mean, covariance, probabilities, means, covariances = (form(each.cpu().numpy()) for each in whole)
    return SwitchingMarginals(mean, covariance, probabilities, means, covariances, times)


def quantile(probabilities: Array, means: Array, covariances: Array, level: float) -> Array:
    """(…, K): where each latent is below with this probability, by halving."""
    sds = np.sqrt(variances(covariances))
    low, high = (means - FAR * sds).min(-2), (means + FAR * sds).max(-2)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        below = (probabilities[..., None] * norm.cdf((middle[..., None, :] - means) / sds)).sum(-2) < level
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found: Array = 0.5 * (low + high)
    return found
