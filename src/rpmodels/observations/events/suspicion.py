"""What looks like events and was handed in as something else."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels.observations.kinds import TIME_NAMES, TRIAL_NAMES

UNIT_NAMES = (
    "unit",
    "units",
    "unit_id",
    "neuron",
    "neuron_id",
    "cell",
    "cell_id",
    "cluster",
    "cluster_id",
    "electrode",
)
EVENT_TIME_NAMES = (*TIME_NAMES, "spike_time", "spike_times", "timestamp", "timestamps", "seconds", "s", "ms")
MOST_COLUMNS = 6
"""A table of events has few."""
UNEVEN = 0.3
"""Spread of steps of time relative to their mean: 0 of samples, about 1 of events."""
REPEATED = 3
"""Events of a unit, at least, on average."""
FULL = 0.75
"""Of a row for every unit at every time."""
ROWS = 8
"""Below, nothing can be told."""
LOOKED_AT = 20
"""Of nested lists."""


@dataclass(frozen=True)
class EventColumns:
    """Which columns of a table would be what."""

    unit: str
    time: str
    trial: str | None


def events_in_columns(
    columns: Mapping[str, NDArray[Any]], time: str | None = None, trial: str | None = None, *, named: bool = False
) -> EventColumns | None:
    """The columns of a table that holds events; None for a table of samples.

    Args:
        columns: all of them by their names
        time: of which it is known that it tells when
        trial: of which it is known that it tells the trial
        named: whether a unit is only what is called so

    """
    lower = {name.lower(): name for name in reversed(list(columns))}
    time = time or next((lower[name] for name in EVENT_TIME_NAMES if name in lower), None)
    trial = trial or next((lower[name] for name in TRIAL_NAMES if name in lower), None)
    if len(columns) > MOST_COLUMNS or time is None or columns[time].dtype.kind not in "iufm":
        return None
    clock = np.asarray(columns[time], np.float64)
    if len(clock) < ROWS or not np.isfinite(clock).all():
        return None
    where = (
        np.zeros(len(clock), np.int64)
        if trial is None
        else np.unique(columns[trial].astype(str), return_inverse=True)[1]
    )
    called = next((lower[name] for name in UNIT_NAMES if name in lower), None)
    others = [name for name in columns if name not in (time, trial)]
    candidates = [called] if called in others else [] if named or len(others) > 1 else others
    for unit in candidates:
        if _is_unit(columns[unit]) and _are_events(clock, where, columns[unit], unit == called):
            return EventColumns(unit, time, trial)
    return None


def _is_unit(values: NDArray[Any]) -> bool:
    """Whole numbers or words, few of them, each again and again."""
    if values.dtype.kind == "f":
        if not (np.isfinite(values).all() and bool((values == np.floor(values)).all())):
            return False
    elif values.dtype.kind not in "iuOUST":
        return False
    return len(np.unique(values.astype(str))) * REPEATED <= len(values)


def _are_events(clock: NDArray[np.float64], where: NDArray[Any], units: NDArray[Any], called: bool) -> bool:
    """Uneven steps within trials; or several rows at one time, but no row for every unit at every time."""
    places, rows = np.unique(np.stack([where, clock], 1), axis=0, return_counts=True)
    steps = np.diff(places[:, 1])[np.diff(places[:, 0]) == 0]
    uneven = len(steps) > 2 and float(np.std(steps)) > UNEVEN * float(np.mean(steps))
    several = len(np.unique(units.astype(str)))
    if several == 1:
        return uneven and called
    return len(clock) < FULL * several * len(places) and (uneven or (called and bool((rows > 1).any())))


def are_spike_times(X: Any) -> bool:
    """Nested lists of unequal numbers of rising times (trials, units, times), or a list of such (units, times)."""
    if isinstance(X, Mapping):  # units by name; or factors, each of which may be raw
        parts = [each for each in X.values() if each is not None]
        rising = len(parts) > 1 and all(map(_is_rising, parts)) and _unequal(parts)
        return rising or any(_listed(each) and are_spike_times(each) for each in parts)
    if not _listed(X) or len(X) < 2:
        return False
    inner = [each for each in X[:LOOKED_AT] if each is not None]
    if all(_listed(trial) and len(trial) for trial in inner):
        units = [each for trial in inner for each in list(trial)[:LOOKED_AT]]
        return all(map(_is_rising, units)) and _unequal(units)
    return all(map(_is_rising, inner)) and _unequal(inner) and max(map(len, inner)) > 2


def _listed(value: Any) -> bool:
    plain = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    return plain or (isinstance(value, np.ndarray) and value.dtype == object and value.ndim == 1)


def _is_row(value: Any) -> bool:
    """Numbers one after the other."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "iuf"
    return _listed(value) and not any(hasattr(each, "__len__") for each in value[:LOOKED_AT])


def _is_rising(value: Any) -> bool:
    """Times of one unit: finite numbers that rise; also none at all."""
    if not _is_row(value):
        return False
    try:
        times = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        return False
    return bool(np.isfinite(times).all() and (np.diff(times) > 0).all())


def _unequal(parts: Sequence[Any]) -> bool:
    return len({len(each) for each in parts}) > 1
