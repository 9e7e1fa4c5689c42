"""What is known of the values of channels before anything is learnt: where p₀ stands, and how large a value is.

Every channel has a grid of values with their probabilities and a score each: of few whole numbers (counts, binary
channels) all of them, rare high ones pooled; of other numbers places at equal distances of their normal scores, between
which everything is interpolated.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Array = NDArray[np.float64]
MOST_COUNTS = 24
"""Values up to which whole numbers are a table."""
RARE = 5.0
"""Observations of a value or more, below which values are pooled."""
PSEUDO = 0.5
"""Added to how often every value was seen."""
PLACES, REACH = 33, 3.2
"""Of numbers that are not counts: places, and the normal score of the outermost."""
BENDS = 7
"""Of their curves: knots."""
CLIP = 4.0
"""Scores are no larger than this."""


@dataclass(frozen=True)
class Grid:
    """Values of one channel in ascending order, their scores, how often they are seen, and a basis of its curves."""

    values: Array  # (A,)
    means: Array
    """What each stands for: a pooled one for the mean of what was pooled."""
    scores: Array
    counts: Array
    basis: Array  # (A, P)


def grid_of(x: Array, weights: Array) -> Grid:
    """From what a channel showed, without gaps, and the weight of every number: how often it was seen."""
    counted = weights > 0
    x, weights = x[counted], weights[counted]
    whole = bool(len(x)) and bool((x >= 0).all()) and bool((x == np.round(x)).all())
    if not len(x) or (whole and _pooled_from(x, weights) < MOST_COUNTS):
        return _of_counts(x, weights)
    return _of_numbers(x, weights)


def _pooled_from(x: Array, weights: Array) -> int:
    """The largest count that is no rarity."""
    descending = np.argsort(-x, kind="stable")
    often = np.cumsum(weights[descending]) < RARE * (1.0 - 1e-9)
    return int(max(1.0, x[descending[min(int(often.sum()), len(x) - 1)]]))


def _of_counts(x: Array, weights: Array) -> Grid:
    highest = _pooled_from(x, weights) if len(x) else 1
    values = np.arange(highest + 1.0)
    codes = np.minimum(x, highest).astype(np.int64)
    counts = np.bincount(codes, weights, highest + 1).astype(np.float64)
    # What is pooled counts as its mean.
    pooled = codes == highest
    means = values.copy()
    if pooled.any():
        means[-1] = np.average(x[pooled], weights=weights[pooled])
    return Grid(values, means, _standardised(np.sqrt(means), counts), counts + PSEUDO, np.eye(len(values)))


def _of_numbers(x: Array, weights: Array) -> Grid:
    wanted = np.linspace(-REACH, REACH, PLACES)
    values = np.unique(np.interp(ndtr(wanted), *_cumulated(x, weights)))
    if len(values) < 2:
        values = np.array([values[0], np.nextafter(values[0], np.inf)])
    counts = binned(x, weights, values)
    middle = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
    scores = _standardised(ndtri(np.clip(middle, 1e-6, 1 - 1e-6)), counts)
    knots = np.linspace(scores[0], scores[-1], min(BENDS, len(values)))
    basis = np.stack([np.interp(scores, knots, each) for each in np.eye(len(knots))], 1)
    return Grid(values, values, scores, counts + PSEUDO, basis)


def _cumulated(x: Array, weights: Array) -> tuple[Array, Array]:
    """Shares up to the first and to the last of all that are equal, and the numbers: a weight of two is two of them."""
    numbers, which = np.unique(x, return_inverse=True)
    mass = np.bincount(which, weights)
    edge, upto = np.minimum(0.5, 0.5 * mass), np.cumsum(mass)
    ends = np.stack([upto - mass + edge, upto - edge], 1)
    return ends.ravel() / upto[-1], np.repeat(numbers, 2)


def binned(x: Array, weights: Array, values: Array) -> Array:
    """How often values are seen, a number between two of them counting for both."""
    place, share = between(x, values)
    size = len(values)
    below = np.bincount(place, weights * (1.0 - share), size).astype(np.float64)
    return below + np.bincount(place + 1, weights * share, size)


def between(x: Array, values: Array) -> tuple[NDArray[np.int64], Array]:
    """The place below every number, and how far it is on the way to the next; beyond the ends, these."""
    place = np.clip(np.searchsorted(values, x, side="right") - 1, 0, len(values) - 2)
    width = values[place + 1] - values[place]
    return place, np.clip((x - values[place]) / width, 0.0, 1.0)


def _standardised(scores: Array, counts: Array) -> Array:
    total = max(counts.sum(), np.finfo(float).tiny)
    centred = scores - counts @ scores / total
    spread = np.sqrt(counts @ centred**2 / total)
    return np.asarray(np.clip(centred / (spread if spread > 0 else 1.0), -CLIP, CLIP))
