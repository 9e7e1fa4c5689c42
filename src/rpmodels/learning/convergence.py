"""Has a run that was ended by its number of steps arrived? Its free energy says so, as far as its noise lets it."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LAST = 0.2
"""Of the steps at full rate, looked at."""
FEWEST = 10
"""Steps that a trend can be read from."""
RISING = 0.03
"""Share of the free energy that it may still gain over them."""
CLEAR = 4.0
"""Standard errors that a trend is above noise."""


@dataclass(frozen=True)
class Trend:
    """How much the free energy rose over the last steps at full rate."""

    rise: float
    """Nats."""
    steps: int
    share: float
    """Of the free energy."""
    significance: float
    """In standard errors."""

    @property
    def rising(self) -> bool:
        """More than a little, and more than noise."""
        return self.share > RISING and self.significance > CLEAR


def trend(free_energies: NDArray[np.float64], rates: NDArray[np.float64]) -> Trend | None:
    """A straight line through the last fifth of the steps before the rate was lowered; None where they are too few."""
    full = np.flatnonzero((rates >= 0.5 * rates.max()) & np.isfinite(free_energies)) if len(rates) else np.array([])
    count = math.ceil(LAST * len(full))
    if count < FEWEST:
        return None
    step = np.arange(count) - 0.5 * (count - 1)
    values = free_energies[full[-count:]]
    slope = float(step @ values / (step @ step))
    left = values - values.mean() - slope * step
    error = math.sqrt(float(left @ left) / max(1, count - 2) / float(step @ step))
    rise = slope * count
    return Trend(rise, count, rise / max(abs(float(values.mean())), 1e-12), slope / max(error, 1e-300))
