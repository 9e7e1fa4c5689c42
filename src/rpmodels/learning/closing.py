"""The score of a fit on its own training data: all of it, or where that has too many pairs, a sample with its error."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import Score
from rpmodels.local_parameters import LocalTable
from rpmodels.mixtures import AtomMixture
from rpmodels.observations import Observations

PAIRS = 2**25
"""Pairs of sites and atoms that are looked at: about half a second."""
FEWEST = 30
"""Observations of a sample, at least."""
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
    fitted: FittedRPM, observations: Observations, local: LocalTable | None = None, pairs: int | None = PAIRS
) -> Closing:
    """Every observation is among the atoms already, so the mean has its tight ceiling.

    Args:
        fitted: the model
        observations: those of its training
        local: parameters that training gave to each of them
        pairs: of sites and atoms, at most: with more of them a random sample of the observations is scored, and the
            score has a standard error; None for all pairs

    """
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


def _sampled(fitted: FittedRPM, observations: Observations, pairs: int | None) -> NDArray[np.int64] | None:
    """Which observations are scored where all have too many pairs; None for all."""
    summaries = [fitted.summary(name) for name in fitted.names]
    atoms = sum(each.g.shape[1] for each in summaries if isinstance(each, AtomMixture))
    work = fitted.pattern.expected_log_mixture.numbers_per_pair * atoms * int(observations.exists.sum())
    if pairs is None or work <= pairs:
        return None
    counted = np.flatnonzero(observations.weights > 0)
    count = max(FEWEST, int(len(counted) * pairs / work))
    if count >= len(counted):
        return None
    return np.sort(np.random.default_rng(SEED).choice(counted, count, replace=False))
