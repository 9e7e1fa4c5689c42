"""Events in a long table: a row an event, with columns for its time, its unit, and its trial."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.observations.events.events import Events, Recorded, Scale, by_code
from rpmodels.observations.events.suspicion import EVENT_TIME_NAMES, UNIT_NAMES
from rpmodels.observations.kinds import TRIAL_NAMES


def events_of_table(
    frame: Any, scale: Scale, unit: str | None = None, time: str | None = None, trial: str | None = None
) -> Events:
    """From a DataFrame; columns that nobody names are those that are called so."""
    names = [str(name) for name in frame.columns]
    unit = _column("unit", unit, UNIT_NAMES, names)
    time = _column("time", time, EVENT_TIME_NAMES, names)
    trial = _column("trial", trial, TRIAL_NAMES, names, needed=False)
    if not len(frame):
        raise errors.no_events("a table without rows")
    columns = dict(zip(names, frame.columns, strict=True))
    times = scale(f"column '{time}'", frame[columns[time]].to_numpy())
    scale.check([times])
    labels, codes = _coded(unit, frame[columns[unit]], sort=True)
    if trial is None:
        return Events(labels, (Recorded(by_code(times, codes, len(labels))),))
    trials, places = _coded(trial, frame[columns[trial]], sort=False)
    order = np.argsort(places, kind="stable")
    ends = np.cumsum(np.bincount(places))[:-1]
    parts = zip(np.split(times[order], ends), np.split(codes[order], ends), strict=True)
    return Events(labels, tuple(Recorded(by_code(t, u, len(labels))) for t, u in parts), trials)


def _column(what: str, asked: str | None, usual: Sequence[str], names: Sequence[str], needed: bool = True) -> Any:
    """The name of a column: the one that was asked for, or the first that is called like one."""
    if asked is not None:
        if str(asked) not in names:
            raise errors.no_event_column(what, asked, names)
        return str(asked)
    found = next((name for usual_name in usual for name in names if name.lower() == usual_name), None)
    if found is None and needed:
        raise errors.no_event_column(what, None, names)
    return found


def _coded(name: str, column: Any, sort: bool) -> tuple[tuple[Any, ...], NDArray[np.int64]]:
    """The labels of a column, and which of them every row has."""
    codes, labels = column.factorize(sort=sort)
    if (codes < 0).any():
        missing = int((codes < 0).sum())
        raise errors.bad_value(f"column '{name}'", "a value in every row", f"none in {missing} row(s)")
    return tuple(np.asarray(labels).tolist()), np.asarray(codes, np.int64)
