"""Neighbouring bins as one: counts summed, other numbers averaged, of labels the most frequent."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks, errors
from rpmodels.observations.events import Binned
from rpmodels.observations.population import are_counts


def merged(trials: Any, n: int, *, counts: bool = True) -> Any:
    """Trials in bins n times as wide, in the form they had; what a trial has beyond its last whole bin is dropped.

    Counts are summed, and are missing (NaN) where one of them is; the mean of other numbers is that of those which are
    there; of labels, one for every bin, the most frequent is taken. What is one number or label of a whole trial stays.

    Args:
        trials: (N, T, …), a list of (T_n, …) with None where a trial has none, what `binned` made, or a dict
            {factor: any of these}
        n: bins that become one
        counts: whether whole numbers from nought up are counts; if not, they are averaged as all numbers are

    """
    checks.integer("n", n, 1)
    if isinstance(trials, Mapping):
        return {name: merged(each, n, counts=counts) for name, each in trials.items()}
    if isinstance(trials, Binned):
        wide, times = merged(trials.trials, n), merged(trials.times, n, counts=False)
        return replace(trials, trials=wide, times=times, bin_width=n * trials.bin_width)
    listed = [None if each is None else np.asarray(each) for each in trials]
    there = [each for each in listed if each is not None]
    summed = counts and all(each.ndim > 1 and are_counts(each) for each in there)
    made = [None if each is None else _merged(each, n, number, summed) for number, each in enumerate(listed)]
    return made if isinstance(trials, Sequence) else np.stack([each for each in made if each is not None])


def _merged(trial: NDArray[Any], n: int, number: int, summed: bool) -> NDArray[Any]:
    """One trial (T, …)."""
    if trial.ndim == 0 or n == 1:
        return trial
    whole = len(trial) // n
    if not whole:
        raise errors.bad_value(f"trial {number}", f"{n} bins or more, to make one of", len(trial))
    apart = trial[: whole * n].reshape(whole, n, *trial.shape[1:])
    if trial.ndim == 1 and trial.dtype.kind != "f":
        return np.array([_most_frequent(each) for each in apart])
    if summed:
        return np.asarray(apart.sum(1))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Mean of empty slice", RuntimeWarning)  # missing in all is missing
        return np.asarray(np.nanmean(apart, 1))


def _most_frequent(labels: NDArray[Any]) -> Any:
    values, times = np.unique(labels, return_counts=True)
    return values[times.argmax()]
