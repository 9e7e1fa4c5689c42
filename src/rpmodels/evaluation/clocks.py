"""Behaviour on a clock of its own, brought to the times of latents, and by which method."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.estimators import RPMEstimator
from rpmodels.evaluation.folds import Given, divisible, n_trials
from rpmodels.observations import adapters, resampling

Clocks = list[NDArray[np.float64]]


def clocked(
    estimator: RPMEstimator, X: Any, y: Any, at: Any, how: str, beside: Mapping[str, Any]
) -> tuple[Given, Any, str]:
    """Trials that can be divided, behaviour in their bins, and what was done to it; nothing where it had no clock.

    A model that counts rows takes no times; then they are of behaviour alone.
    """
    asked = at is not None
    y, at = with_own_clock(y, at)
    options, times = dict(beside), beside.get("times")
    if at is not None and not estimator.description.takes_times:
        options.pop("times", None)
        times = adapters.to_trials(X, times, series=estimator.description.in_trials)[1]
    given = divisible(estimator, X, **options)
    if y is not None and n_trials(y) != n_trials(given.X):
        raise errors.bad_value("y", f"{n_trials(given.X)} trials as in X", n_trials(y))
    times = given.beside.get("times", times)
    if at is None or (times is None and not asked):  # behaviour that knows its times, bins that do not
        return given, y, ""
    if y is None:
        raise errors.bad_value("at", "None without y, the behaviour that it is about", "times")
    return given, *in_bins(y, at, times, lengths_of(given.X), how)


def with_own_clock(y: Any, at: Any) -> tuple[Any, Any]:
    """Behaviour out of a container, which may know its times."""
    if y is None or not adapters.holds_containers(y):
        return y, at
    return adapters.to_trials(y, at)


def in_bins(y: Any, at: Any, times: Any, lengths: NDArray[np.int64], how: str) -> tuple[Any, str]:
    """Behaviour (trials, taken `at` times of their own) at the times of bins, and what was done to it."""
    if times is None:
        raise errors.bins_without_times("at")
    values = list(y)
    bins, own = clocks_of(times, lengths), clocks_of(at, np.array([len(np.atleast_1d(each)) for each in values]))
    if len(own) != len(values):
        raise errors.bad_value("at", f"the times of {len(values)} trials of behaviour", f"{len(own)}")
    if all(len(one) == len(other) and np.allclose(one, other) for one, other in zip(own, bins, strict=True)):
        return y, ""
    method = resampling.method_for(values[0], own[0], bins[0], how)
    found = resampling.interpolated(values, own, bins, how=method)
    if all(each.dtype.kind == "f" and np.isnan(each).all() for each in found):
        raise errors.clocks_apart(*((float(each[0][0]), float(each[0][-1])) for each in (bins, own)))
    return found, resampling.SAID[method]


def lengths_of(X: Any) -> NDArray[np.int64]:
    """T of every trial, from whichever factor has it."""
    factors = list(X.values()) if isinstance(X, Mapping) else [X]
    return np.array([max(len(each[n]) for each in factors if each[n] is not None) for n in range(n_trials(X))])


def clocks_of(times: Any, lengths: Any) -> Clocks:
    """(T_n,) of every trial: its own, one for all, or of factors with clocks of their own the times of any."""
    if isinstance(times, Mapping):
        every = [times[name] for name in times]
        parts = [[_of_trial(each, n) for each in every] for n in range(len(lengths))]
        return [np.unique(np.concatenate([each for each in part if each is not None])) for part in parts]
    if times is None:
        return [np.arange(length, dtype=np.float64) for length in lengths]
    if isinstance(times, Sequence | np.ndarray) and len(times) and np.ndim(times[0]) == 0:
        return [np.asarray(times, np.float64)[:length] for length in lengths]
    return [np.asarray(each, np.float64)[:length] for each, length in zip(times, lengths, strict=True)]


def _of_trial(times: Any, number: int) -> Any:
    """One clock of a factor: shared by all trials, or this one's."""
    shared = np.ndim(times[0]) == 0 and times[0] is not None
    each = times if shared else times[number]
    return None if each is None else np.asarray(each, np.float64)
