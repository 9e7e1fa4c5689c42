"""Latents as plots draw them: trial by trial, with a clock, whatever form they came in."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors

Trials = list[NDArray[np.float64]]


@dataclass(frozen=True)
class Found:
    """Latents of N trials, (T_n, K) each."""

    values: Trials
    names: tuple[str, ...]
    """What the K numbers are called."""
    times: Trials | None = None
    """When they are, (T_n,) each; None where trials are points, (1, K) each."""
    spread: Trials | None = None
    """Variances of coordinates."""
    shares: bool = False
    """Whether they are probabilities or proportions."""
    round: bool = False
    """Whether they are angles, as points in a disc: the more certain, the nearer to its edge."""
    beside: "Found | None" = None
    """Probabilities of states, of models that have both."""

    def __len__(self) -> int:
        return len(self.values)

    @property
    def states(self) -> "Found":
        """Probabilities of states, where there are some; else what there is."""
        return self if self.beside is None else self.beside


def found_latents(what: str, source: Any, X: Any, times: Any, options: dict[str, Any], conditions: Any = None) -> Found:
    """From an estimator and its data, from what it returned, or from arrays.

    Args:
        what: the plot that asks
        source: a fitted estimator, what its `latents` or `posterior` returned, or values
        X: data of an estimator
        times: as the estimator takes them, or of values: (T,), (N, T) or a list of (T_n,)
        options: beside X
        conditions: which may be a factor of X, that is then there beside latents

    """
    if not hasattr(source, "description"):
        if X is not None and conditions is None:
            raise errors.latents_and_data(type(X).__name__)
        return _taken_apart(source, times)
    if X is None:
        raise errors.needs_data(what)
    given = options if times is None else {**options, "times": times}
    return _taken_apart(source.latents(X, **given), None, source.description.in_time)


def _taken_apart(source: Any, times: Any, in_time: bool = False) -> Found:
    """Values, variances and clocks of whatever it is."""
    clock = getattr(source, "times", None) if times is None else times
    if getattr(source, "resultant", None) is not None:
        return _angles(source.values, source.resultant, clock)
    if hasattr(source, "angle"):
        return _angles(source.angle, source.resultant_length, clock)
    if hasattr(source, "covariance"):
        return _trials(source.mean, source.variance, clock, in_time, None)
    if not hasattr(source, "spread"):
        return _trials(source, None, clock, in_time, None)
    return _of_latents(source, clock, in_time)


def _of_latents(source: Any, clock: Any, in_time: bool) -> Found:
    """Shares alone, or coordinates, of some models with shares beside them."""
    if source.spread is None:
        return _trials(source.values, None, clock, in_time, _names_of(source.values, source.sizes))
    found = _trials(source.values, source.spread, clock, in_time, None)
    probabilities = getattr(source, "probabilities", None)
    if probabilities is None:
        return found
    return replace(found, beside=_trials(probabilities, None, clock, in_time, _names_of(probabilities, None)))


def _trials(values: Any, spread: Any, clock: Any, in_time: bool, shares: Sequence[str] | None) -> Found:
    """In time are lists, (N, T, K), and whatever has a clock; (N, K) are points."""
    listed = isinstance(values, list | tuple) and np.ndim(values[0]) > 0
    array = None if listed else np.asarray(values, float)
    single = array is not None and array.ndim <= 2 and (clock is not None or in_time)
    if array is not None and array.ndim <= 2 and not single:
        rows = array.reshape(len(array), 1, -1)
        others = None if spread is None else list(np.asarray(spread, float).reshape(rows.shape))
        return Found(list(rows), _called(rows.shape[-1], shares), None, others, shares is not None)
    parts = _each(values, single)
    others = None if spread is None else _each(spread, single)
    clocks = _clocks(clock, [len(each) for each in parts])
    return Found(parts, _called(parts[0].shape[1], shares), clocks, others, shares is not None)


def _angles(angles: Any, lengths: Any, clock: Any) -> Found:
    """R cos and R sin of every angle: averages of these are averages on the circle."""

    def turned(angle: Any, length: Any) -> NDArray[np.float64]:
        a, r = (np.asarray(each, float).reshape(len(angle), -1) for each in (angle, length))
        return np.stack([r * np.cos(a), r * np.sin(a)], -1).reshape(len(a), -1)

    listed = isinstance(angles, list)
    values = [turned(*each) for each in zip(angles, lengths, strict=True)] if listed else turned(angles, lengths)
    found = _trials(values, None, clock, False, None)
    names = [f"{part} of angle {k}" for k in range(len(found.names) // 2) for part in ("cosine", "sine")]
    return Found(found.values, tuple(names), found.times, round=True)


def _called(count: int, shares: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(shares or (f"latent {k}" for k in range(count)))


def _names_of(values: Any, sizes: Any) -> list[str]:
    """Of states, or of the states of several latents."""
    if sizes is not None:
        return [f"{name} = {k}" for name, size in sizes.items() for k in range(size)]
    first = values[0] if isinstance(values, list) else values
    return [f"state {k}" for k in range(np.shape(first)[-1])]


def _each(values: Any, single: bool) -> Trials:
    """(T_n, K) of every trial."""
    parts = [values] if single else list(values)
    return [np.asarray(each, float).reshape(len(each), -1) for each in parts]


def _clocks(clock: Any, lengths: Sequence[int]) -> Trials:
    """One for every trial, or one that all of them share."""
    if clock is None:
        return [np.arange(length, dtype=float) for length in lengths]
    own = [clock] * len(lengths) if np.ndim(clock[0]) == 0 else list(clock)
    clocks = [np.asarray(each, float).ravel() for each in own]
    if [len(each) for each in clocks] != list(lengths):
        expected = f"clocks of {', '.join(map(str, lengths[:5]))} times" + " …" * (len(lengths) > 5)
        raise errors.bad_value("times", expected, ", ".join(str(len(each)) for each in clocks[:5]))
    return clocks
