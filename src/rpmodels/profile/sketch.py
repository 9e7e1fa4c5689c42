"""What is kept of a statistic of the fit, and how far new trials are from it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.stats import t as student

Array = NDArray[np.float64]
LEVELS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
MEDIAN = 3
NORMAL = (1.2815515655446004, 0.6744897501960817)
"""Distances from the median of a normal, of the levels that stand for its sds (the ends do not)."""
TAILS = 5.0
"""Degrees of freedom of the tails that single trials may have: sixteen sds are as rare as five of a normal."""
ONE_SIDED = 0.25
"""Of the sd on the other side of the median, at least."""
UNKNOWN = 0.01
"""Variance of a trial, at least, where new trials are few."""
OWN_VARIANCE = 8
"""New trials from which on their own variance counts beside that of the fit."""


@dataclass(frozen=True)
class Sketch:
    """Of one statistic: its average over trials with their variance, place by place, and quantiles over trials."""

    count: Float[np.ndarray, "P"]
    mean: Float[np.ndarray, "P"]
    variance: Float[np.ndarray, "P"]
    quantiles: Float[np.ndarray, "Q P"]

    @staticmethod
    def of(values: Float[np.ndarray, "N P"]) -> "Sketch":
        """Trials with NaN do not count."""
        count, mean, variance = _averages(values)
        return Sketch(count.astype(np.float64), mean, variance, _quantiles(values))

    def first(self) -> "Sketch":
        """Of the first place alone."""
        return Sketch(self.count[:1], self.mean[:1], self.variance[:1], self.quantiles[:, :1])

    def averages(
        self, values: Float[np.ndarray, "N P"], in_order: bool = False
    ) -> tuple[Float[np.ndarray, "P"], Float[np.ndarray, "P"], Float[np.ndarray, "P"]]:
        """The mean of new trials, in how many standard errors it is off, and how probable that is by chance.

        The difference of two means, each with the variance of its trials (Welch); of few new trials that of the fit.
        Where trials are in order, parts of one series, those that go together count as fewer.
        """
        count, mean, variance = _averages(values)
        count = count * self._apart(values) if in_order else count
        # What never changed in the fit has no variance there, and few new trials have none of their own.
        own = np.where(count >= OWN_VARIANCE, variance, np.maximum(self.variance, UNKNOWN))
        before, now = self.variance / np.maximum(self.count, 1.0), own / np.maximum(count, 1.0)
        error = np.sqrt(before + now)
        known = (count > 0) & (self.count > 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(known & (mean != self.mean), (mean - self.mean) / error, 0.0)
            freedom = np.square(before + now) / (
                np.square(before) / np.maximum(self.count - 1, 1) + np.square(now) / np.maximum(count - 1, 1)
            )
        freedom = np.where(count >= OWN_VARIANCE, freedom, np.minimum(self.count - 1, 3.0 + count))
        return mean, z, 2.0 * student.sf(np.abs(z), np.maximum(np.nan_to_num(freedom, nan=1.0), 1.0))

    def farther(self, away: Float[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
        """How probable it is that a trial is so far off the median, by the farthest of the fit, of the first place.

        Where tails fall like those of `single`, x^−ν, one of n + 1 is r times as far as all others, on either side, by
        a chance of about 2 r^−ν / (n + 1), however far these are: no sd is asked for, which heavy tails and slow
        latents make large.
        """
        low, high = np.abs(self.quantiles[[0, -1], 0] - self.quantiles[MEDIAN, 0]).tolist()
        below, above = max(low, ONE_SIDED * high), max(high, ONE_SIDED * low)
        if not below > 0.0:
            return np.ones(len(away))
        times = np.nan_to_num(np.where(away < 0, -away / below, away / above), nan=0.0)
        found: Float[np.ndarray, N] = 2.0 * np.maximum(times, 1.0) ** -TAILS / (self.count[0] + 1.0)
        return found

    def _apart(self, values: Float[np.ndarray, "N P"]) -> Float[np.ndarray, "P"]:
        """(1 − ρ) / (1 + ρ), what one of a series counts for whose neighbours are correlated by ρ.

        Squared differences of neighbours are 2 (1 − ρ) times the variance, and that is the one of the fit's trials.
        """
        steps = np.square(np.diff(values, axis=0))
        known = ~np.isnan(steps)
        mean = np.where(known, steps, 0.0).sum(0) / np.maximum(known.sum(0), 1)
        alone = np.minimum(0.5 * mean / np.maximum(self.variance, 1e-12), 1.0)
        return np.where(known.any(0) & (self.variance > 0.0), alone / (2.0 - alone), 1.0)

    def single(
        self, values: Float[np.ndarray, "N P"]
    ) -> tuple[Float[np.ndarray, "N P"], Float[np.ndarray, "N P"], Float[np.ndarray, "P"]]:
        """In how many robust sds every trial is off the median, how probable that is under heavy tails, and the median.

        Sds are those of its side, of the fit or of the new trials, whichever are larger; the median is that of the new
        trials where there are enough of them, as all of them together being off is a matter of `averages`.
        """
        enough = np.sum(~np.isnan(values), 0) > OWN_VARIANCE
        here = _quantiles(values)
        sides = [np.maximum(_side(self.quantiles, s), np.where(enough, _side(here, s), 0.0)) for s in (0, 1)]
        # A side on which half of the trials are the same has no sd of its own.
        below, above = (np.maximum(one, ONE_SIDED * other) for one, other in (sides, sides[::-1]))
        middle = np.where(enough, here[MEDIAN], self.quantiles[MEDIAN])
        away = values - middle
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(away == 0.0, 0.0, away / np.where(away < 0, below, above))
        z = np.where(np.isnan(values) | (below == 0.0), 0.0, z)
        return z, 2.0 * student.sf(np.abs(z), TAILS), middle


def _averages(values: Array) -> tuple[NDArray[np.int64], Array, Array]:
    known = ~np.isnan(values)
    count = known.sum(0)
    mean = np.where(known, values, 0.0).sum(0) / np.maximum(count, 1)
    squares = np.square(np.where(known, values - mean, 0.0)).sum(0)
    return count, mean, squares / np.maximum(count - 1, 1)


def _quantiles(values: Array) -> Array:
    """(Q, P) over the trials that are known, zero where none is."""
    ordered = np.sort(values, axis=0)  # NaN comes last
    last = np.maximum(np.sum(~np.isnan(values), 0) - 1, 0)
    if not len(values):
        return np.zeros((len(LEVELS), values.shape[1]))
    place = np.array(LEVELS)[:, None] * last
    low = np.floor(place).astype(np.int64)
    high = np.minimum(low + 1, last)
    below, above = (np.take_along_axis(ordered, each, 0) for each in (low, high))
    return np.asarray(np.nan_to_num(below + (place - low) * (above - below)))


def _side(quantiles: Array, side: int) -> Array:
    """The larger sd by two levels on one side of the median."""
    far, near = (quantiles[-1 - place] if side else quantiles[place] for place in (1, 2))
    sds = np.abs(far - quantiles[MEDIAN]) / NORMAL[0], np.abs(near - quantiles[MEDIAN]) / NORMAL[1]
    return np.asarray(np.maximum(*sds))
