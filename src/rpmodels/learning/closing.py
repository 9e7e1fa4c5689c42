"""The score of a fit on its own training data: all of it, or where that has too many pairs, a sample with its error."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import Score
from rpmodels.local_parameters import LocalTable
from rpmodels.observations import Observations
from rpmodels.told import work

PAIRS = 2**25
"""Pairs of sites and atoms that are looked at: about half a second."""
FEWEST = 30
"""Observations of a sample, at least."""
FEWEST_PIECES, PAIRS_OF_PIECES = 4, 2**28
"""The same of pieces of observations that are too long to be scored."""
SEED = 0
"""The same data and model give the same score."""


@dataclass(frozen=True)
class Closing:
    """The score, and what it is made of, observation by observation."""

    score: Score
    values: NDArray[np.float64]
    """log W, or its bound; NaN where an observation was not among the sample."""
    distances: NDArray[np.float64]
    """KL(q‖p), in the same way."""


def closing_of(
    fitted: FittedRPM,
    observations: Observations,
    local: LocalTable | None = None,
    pairs: int | None = PAIRS,
    pieces: Observations | None = None,
) -> Closing:
    """Every observation is among the atoms already, so the mean has its tight ceiling.

    Args:
        fitted: the model
        observations: those of its training
        local: parameters that training gave to each of them
        pairs: of sites and atoms, at most: with more of them a random sample of the observations is scored, and the
            score has a standard error; None for all pairs
        pieces: the observations cut shorter: where these are too long to be scored, some of their pieces are, and the
            score is what as many as there are in an observation come to

    """
    if pieces is not None and work(fitted, observations) > (pairs or torch.inf):
        return Closing(_by_pieces(fitted, observations, pieces), *np.full((2, len(observations)), np.nan))
    index = _sampled(fitted, observations, pairs)
    some = observations if index is None else observations.subset(index)
    own = local if local is None or index is None else local.subset(torch.as_tensor(index))
    energies = fitted.free_energies(some, in_training=True, local=own)
    values = energies.values
    weights = some.weights / some.weights.sum()
    mean, error = float(weights @ values), 0.0
    if index is not None:
        left = 1.0 - len(index) / len(observations)
        error = float(np.sqrt(left * (weights**2 @ (values - mean) ** 2)))
    # Observations of no weight are no atoms: what they would score says nothing about the fit.
    median = float(np.median(values[some.weights > 0]))
    off = fitted.quadrature_error(some, in_training=True)
    score = Score(mean, fitted.ceiling(observations), median, fitted.label(), error, off)
    places = np.arange(len(observations)) if index is None else index
    everywhere = np.full((2, len(observations)), np.nan)
    everywhere[:, places] = values, -energies.prior.double().cpu().numpy()
    return Closing(score, *everywhere)


def _by_pieces(fitted: FittedRPM, observations: Observations, pieces: Observations) -> Score:
    count = max(FEWEST_PIECES, len(pieces) * PAIRS_OF_PIECES // work(fitted, pieces))
    usable = pieces.usable()
    chosen = np.sort(np.random.default_rng(SEED).permutation(usable)[:count])
    some = pieces.subset(chosen)
    times = observations.exists.sum() / len(observations) / some.exists.sum(1)
    values = fitted.free_energies(some, in_training=True).values * times
    left = 1.0 - len(chosen) / len(usable)
    error = float(np.sqrt(left * values.var() / max(1, len(values) - 1)))
    off = float(times.mean()) * fitted.quadrature_error(some, in_training=True)
    ceiling = fitted.ceiling(observations)
    return Score(float(values.mean()), ceiling, float(np.median(values)), fitted.label(), error, off)


def _sampled(fitted: FittedRPM, observations: Observations, pairs: int | None) -> NDArray[np.int64] | None:
    """Which observations are scored where all have too many pairs; None for all."""
    all_pairs = work(fitted, observations)
    if pairs is None or all_pairs <= pairs:
        return None
    counted = np.flatnonzero(observations.weights > 0)
    count = max(FEWEST, int(len(counted) * pairs / all_pairs))
    if count >= len(counted):
        return None
    return np.sort(np.random.default_rng(SEED).choice(counted, count, replace=False))
