"""What is asked of trials over time, beyond what is asked of any data."""

import warnings
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.observations.population import FEWEST, are_counts

SMOOTHED = 0.5
"""Squared second differences relative to squared first ones: 3 for white noise, below ½ after strong smoothing."""
SAMPLE = 100


def first_irregular(times: NDArray[np.float64], exists: NDArray[np.bool_]) -> int | None:
    """The first trial that has other times than the longest (or the first of them); None when there is none."""
    grid = times[int(exists.sum(1).argmax())]
    differing = ((times != grid) & exists).any(1)
    return int(np.flatnonzero(differing)[0]) if differing.any() else None


def check_common_times(times: NDArray[np.float64], exists: NDArray[np.bool_]) -> None:
    """Every trial must have the times of the longest, or the first of them."""
    trial = first_irregular(times, exists)
    if trial is not None:
        raise errors.irregular_per_time(trial, times[trial][exists[trial]][0])


def check_known_times(times: NDArray[np.float64], exists: NDArray[np.bool_], grid: NDArray[np.float64]) -> None:
    """New trials for mixtures per time: they must begin with the grid's times, and have no others."""
    unseen = np.setdiff1d(times[exists], grid)
    if len(unseen):
        raise errors.unseen_times(len(unseen), float(unseen[0]))
    length = min(times.shape[1], len(grid))
    differing = ((times[:, :length] != grid[:length]) & exists[:, :length]).any(1)
    if differing.any():
        trial = int(np.flatnonzero(differing)[0])
        raise errors.irregular_per_time(trial, times[trial][exists[trial]][0])


def warn_of_lonely_sites(present: Mapping[str, NDArray[np.bool_]], times: NDArray[np.float64]) -> None:
    """A time at which some factor has one trial alone teaches nothing when every time has its own mixture."""
    lonely = np.any([have.sum(0) == 1 for have in present.values()], axis=0)
    if lonely.any():
        site = int(np.flatnonzero(lonely)[0])
        warnings.warn(errors.lonely_sites(int(lonely.sum()), float(times[:, site].max())), stacklevel=4)


def warn_if_smoothed(
    values: Mapping[str, NDArray[Any]],
    present: Mapping[str, NDArray[np.bool_]],
    exists: NDArray[np.bool_],
    private: Collection[str] = (),
) -> None:
    """Neighbouring bins that share noise are not conditionally independent.

    Behaviour is smooth by nature, and is told something else; where it has latents of its own (`private`), these are
    there to explain it.
    """
    for name, array in values.items():
        if array.dtype.kind != "f" or array.shape[1] < 5 or array.ndim != 3:
            continue
        whole = np.flatnonzero((present[name] & exists).all(1))[:SAMPLE]
        if not len(whole):
            continue
        x = np.asarray(array[whole], np.float64)
        x = x / max(float(np.abs(x).max(initial=0.0)), np.finfo(float).tiny)  # whose squares are numbers, too
        first = np.square(np.diff(x, axis=1)).mean((0, 1))
        second = np.square(np.diff(x, n=2, axis=1)).mean((0, 1))
        moving = first > 0
        if moving.any():
            ratio = float(np.median(second[moving] / first[moving]))
            behaves = _is_behaviour(name, values, present)
            if ratio < SMOOTHED and not (behaves and name in private):
                said = errors.smooth_behaviour if behaves else errors.looks_smoothed
                warnings.warn(said(name, ratio), stacklevel=4)


def _is_behaviour(name: str, values: Mapping[str, NDArray[Any]], present: Mapping[str, NDArray[np.bool_]]) -> bool:
    """Whether a factor is what counts are beside: a few numbers (position, velocity), where another one is counts."""
    others = (other for other, each in values.items() if other != name and each.ndim == 3)
    return values[name].shape[-1] < FEWEST and any(_counted(values[other], present[other]) for other in others)


def _counted(array: NDArray[Any], present: NDArray[np.bool_]) -> bool:
    return are_counts(np.asarray(array[:SAMPLE])[present[:SAMPLE]])
