"""What is known of angles: von Mises distributions, one for every observation."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import vonmises

from rpmodels import checks

Array = NDArray[np.float64]
STRAIGHT = 1e4
"""Concentrations from which on the circle is straight as far as intervals go: there normal quantiles are right."""
HALVINGS = 50


@dataclass(frozen=True)
class AnglePosterior:
    """Von Mises distributions of angles (N,), each in (−π, π]."""

    angle: Array
    """Mean directions."""
    resultant_length: Array
    """Lengths of the means of (cos, sin): 1 when an angle is certain, 0 when nothing is known."""
    concentration: Array
    """κ: for large ones 1/κ is the variance."""
    draws: Callable[[int, int], Array]

    def interval(self, level: float = 0.9) -> tuple[Array, Array]:
        """The ends of the central intervals that hold this much, (N,) each: lower ≤ angle ≤ upper, so not wrapped."""
        half = half_width(self.concentration, checks.number("level", level, above=0.0, below=1.0))
        return self.angle - half, self.angle + half

    def sample(self, n_samples: int = 1, random_state: int = 0) -> Array:
        """Draws (n_samples, N)."""
        return self.draws(n_samples, random_state)


def half_width(concentration: Array, level: float) -> Array:
    """How far to either side of the mean direction a von Mises distribution holds this much, by bisection."""
    kappa = np.asarray(concentration, np.float64)
    low, high = np.zeros_like(kappa), np.full_like(kappa, np.pi)
    # Far out on sharp distributions the quantile is a small number: begin near it.
    high = np.where(kappa > STRAIGHT, np.minimum(np.pi, 20.0 / np.sqrt(np.maximum(kappa, 1.0))), high)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        enough = 2.0 * vonmises.cdf(middle, kappa) - 1.0 >= level
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.asarray(high)
