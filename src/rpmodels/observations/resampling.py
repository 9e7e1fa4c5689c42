"""Behaviour with a clock of its own, at the times of bins."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.observations.arrays import as_array, as_numbers
from rpmodels.observations.kinds import DECIMALS, Clock

AUTO, MEAN, LINEAR, NEAREST = "auto", "mean", "linear", "nearest"
HOWS = (AUTO, MEAN, LINEAR, NEAREST)
GAP = 3.0
"""Usual steps of behaviour that may lie between two values for what is between them to be known."""
SEVERAL = 2.0
"""Values in a bin from which on they are averaged, where nobody says how."""
SAID = {
    MEAN: "averaged within bins",
    LINEAR: "interpolated linearly at bins",
    NEAREST: "taken at the time nearest to every bin",
}
"""What is said of behaviour by the method that was used."""


def interpolated(
    values: Any, times: Any, at: Any, *, how: str = MEAN, angular: bool = False, width: float | None = None
) -> Any:
    """Behaviour at other times than its own: (T, D) from one recording, or a list of (T_n, D) from a list of trials.

    Numbers are NaN where nobody knows: in a bin without any ("mean"), before the first and after the last value, and
    between two that are further apart than three usual steps. Values that are NaN are left out first. Labels (words,
    and one whole number a time) are those of the nearest time.

    Args:
        values: (T,) or (T, D), or a list of them
        times: when they were taken: (T,), or a list of (T_n,); for a list of trials one clock may be for all
        at: when they are wanted (the middles of bins), in the same form
        how: "mean" of those within a bin, "linear", "nearest"; "auto": the mean where bins have two values or more,
            otherwise linear, of labels the nearest
        angular: whether values are angles in radians, which are interpolated on the circle
        width: of a bin, for "mean"; default from a time half-way to the next one

    """
    if how not in HOWS:
        raise errors.bad_choice("how", HOWS, how)
    if not _is_list(at):
        return _one("behaviour", values, times, at, how, angular, width)
    listed = [list(each) if _is_list(each) else [each] * len(at) for each in (values, times)]
    if any(len(each) != len(at) for each in listed):
        expected = f"{len(at)} trials, each with its times"
        raise errors.bad_value("behaviour", expected, f"{len(listed[0])} with {len(listed[1])} clocks")
    every = zip(*listed, at, strict=True)
    return [_one(f"behaviour, trial {n}", x, t, b, how, angular, width) for n, (x, t, b) in enumerate(every)]


def method_for(values: Any, times: Any, at: Any, how: str = AUTO) -> str:
    """Which method "auto" stands for, from one trial of behaviour; any other stands for itself."""
    if how not in HOWS:
        raise errors.bad_choice("how", HOWS, how)
    if how != AUTO:
        return how
    if _are_labels(np.asarray(values)):
        return NEAREST
    return MEAN if _step(np.asarray(at)) >= SEVERAL * _step(np.asarray(times)) else LINEAR


def _one(what: str, values: Any, times: Any, at: Any, how: str, angular: bool, width: float | None) -> NDArray[Any]:
    """One trial (T, …) at times (B,)."""
    array, own, new = as_array(what, values), as_numbers(f"times of {what}", times), as_numbers("bins", at)
    if own.shape != array.shape[:1] or not len(own):
        raise errors.bad_value(f"times of {what}", f"{len(array)}, one for every value", f"shape {own.shape}")
    if not np.isfinite(own).all() or (np.diff(own) < 0).any():
        raise errors.bad_value(f"times of {what}", "finite and in order", "times that are not")
    chosen = method_for(array, own, new, how)
    if chosen == NEAREST and array.dtype.kind != "f":
        return _nearest_labels(what, array, own, new)
    if array.dtype.kind not in "biuf":
        raise errors.bad_value("how", f"{NEAREST}, as {what} has labels", how)
    numbers = np.asarray(array, np.float64)
    wide = numbers.reshape(len(own), -1)
    known = np.isfinite(wide).all(1)
    if not known.any():
        return np.full((len(new), *numbers.shape[1:]), np.nan)
    wide, own = wide[known], own[known]
    found = _on_circle(wide, own, new, chosen, width) if angular else METHODS[chosen](wide, own, new, width)
    return found.reshape(len(new), *numbers.shape[1:])


Method = Callable[[NDArray[np.float64], Clock, Clock, float | None], NDArray[np.float64]]


def _mean(values: NDArray[np.float64], own: Clock, at: Clock, width: float | None) -> NDArray[np.float64]:
    """Of what falls into every bin."""
    begin, end = _edges(at, width)
    own = np.round(own, DECIMALS)
    first, last = np.searchsorted(own, begin), np.searchsorted(own, end)
    sums = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values - values[:1], 0)])
    count = (last - first)[:, None]
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(count > 0, (sums[last] - sums[first]) / np.maximum(count, 1) + values[:1], np.nan))


def _linear(values: NDArray[np.float64], own: Clock, at: Clock, _: float | None) -> NDArray[np.float64]:
    found = np.stack([np.interp(at, own, column) for column in values.T], 1)
    found[~_is_known(own, at)] = np.nan
    return found


def _nearest(values: NDArray[np.float64], own: Clock, at: Clock, _: float | None) -> NDArray[np.float64]:
    found = values[_places(own, at)]
    found[~_is_known(own, at)] = np.nan
    return found


METHODS: dict[str, Method] = {MEAN: _mean, LINEAR: _linear, NEAREST: _nearest}


def _on_circle(
    angles: NDArray[np.float64], own: Clock, at: Clock, how: str, width: float | None
) -> NDArray[np.float64]:
    """The direction of the interpolated unit vectors, from −π to π."""
    parts = METHODS[how](np.concatenate([np.cos(angles), np.sin(angles)], 1), own, at, width)
    half = angles.shape[1]
    return np.asarray(np.arctan2(parts[:, half:], parts[:, :half]))


def _nearest_labels(what: str, labels: NDArray[Any], own: Clock, at: Clock) -> NDArray[Any]:
    """Labels have no NaN: where nobody knows, this is said."""
    unknown = ~_is_known(own, at, max(_step(own), _step(at)))
    if unknown.any():
        raise errors.no_label_near(what, float(at[unknown][0]), float(own[0]), float(own[-1]))
    return labels[_places(own, at)]


def _places(own: Clock, at: Clock) -> NDArray[np.int64]:
    """Which of these times is nearest."""
    return np.searchsorted((own[1:] + own[:-1]) / 2, at)


def _is_known(own: Clock, at: Clock, beyond: float | None = None) -> NDArray[np.bool_]:
    """Whether there are values near on both sides; before the first and after the last one within half a step."""
    reach = _step(own) / 2 if beyond is None else beyond
    after = np.searchsorted(own, at).clip(1, max(1, len(own) - 1))
    inside = (at >= own[0] - reach * (1 + 1e-9)) & (at <= own[-1] + reach * (1 + 1e-9))
    if len(own) < 2 or beyond is not None:
        return np.asarray(inside)
    between = (at > own[0]) & (at < own[-1])
    gap = own[after] - own[after - 1]
    return np.asarray(inside & (~between | (gap <= GAP * _step(own) * (1 + 1e-9)) | (at == own[after])))


def _edges(at: Clock, width: float | None) -> tuple[Clock, Clock]:
    """Where bins begin and end, from their middles."""
    if width is not None or len(at) < 2:
        half = (1.0 if width is None else width) / 2
        return np.round(at - half, DECIMALS), np.round(at + half, DECIMALS)
    middles = (at[1:] + at[:-1]) / 2
    begin = np.concatenate([[2 * at[0] - middles[0]], middles])
    end = np.concatenate([middles, [2 * at[-1] - middles[-1]]])
    return np.round(begin, DECIMALS), np.round(end, DECIMALS)


def _step(times: Clock) -> float:
    return float(np.median(np.diff(times))) if len(times) > 1 else 0.0


def _are_labels(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "USO" or (values.ndim == 1 and values.dtype.kind in "biu")


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and len(value) > 0 and (value[0] is None or np.ndim(value[0]) > 0)
