"""Containers that people keep their data in (xarray, pandas, pynapple, neo, NWB) as arrays, lists of trials, and times.

None of these packages is imported but to open a file: an object's class says what it is, and its own methods give what
is needed.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from rpmodels import errors
from rpmodels.observations.events import MOST_COLUMNS, Binned, are_spike_times, binned, events_in_columns
from rpmodels.observations.kinds import DECIMALS, LISTS, TIME_NAMES, TRIAL_NAMES, Clock, in_seconds, kind_of
from rpmodels.observations.merging import merged
from rpmodels.observations.resampling import interpolated
from rpmodels.observations.torch_data import of_torch

__all__ = ["Binned", "binned", "interpolated", "merged", "to_trials"]

Read = tuple[Any, Any]
"""Values, and their times in the same form; None where there are none, or where nobody asks."""


def to_trials(X: Any, times: Any = None, *, series: bool = True, timed: bool = True) -> tuple[Any, Any]:
    """Data as the library reads them, and when they were taken if their container knows; plain data as they are.

    Args:
        X: a container, or a list (trials) or dict (factors) of them; a dict of data frames with numbers as keys: trials
        times: the user's own, which win
        series: whether observations have several rows; if not, data frames are tables
        timed: whether to look for times

    """
    X = of_torch(X, series)
    table = kind_of(X) == "pandas.DataFrame" and (not series or X.index.nlevels == 1)
    if table or not holds_containers(X):
        _refuse_events(X, table and series, times)
        return X, times
    values, own = _read(X, series, series and timed and times is None)
    return values, own if times is None else times


def _refuse_events(X: Any, table: bool, times: Any) -> None:
    """Spike times are no numbers to fit, and the names of units are none either."""
    if table and times is None and X.columns.is_unique and X.shape[1] <= MOST_COLUMNS:
        found = events_in_columns({str(name): X[name].to_numpy() for name in X.columns})
        if found is not None:
            raise errors.raw_event_table(found.unit, found.time, found.trial)
    if not table and times is None and are_spike_times(X):
        raise errors.raw_events()


# ---- lists and dicts of containers ----------------------------------------------------------------


def holds_containers(X: Any) -> bool:
    """Whether it is a container, or a list or dict with some."""
    parts = X.values() if isinstance(X, Mapping) and not kind_of(X) else [X]
    return any(kind_of(part) or (isinstance(part, list | tuple) and any(map(kind_of, part))) for part in parts)


def _read(X: Any, series: bool, timed: bool) -> Read:
    if kind_of(X) in LISTS:
        X = list(X)
    if kind := kind_of(X):
        if kind not in READERS:
            raise errors.bad_value("the data", f"{', '.join(READERS)} (spikes: see rp.adapters.binned)", kind)
        return READERS[kind](X, series, timed)
    if not holds_containers(X):
        return X, None
    if not isinstance(X, Mapping):
        return _list(X, series, timed)
    # Factors have names; trials have numbers, as from dict(list(frame.groupby("trial"))).
    if series and all(kind_of(each) == "pandas.DataFrame" and not isinstance(key, str) for key, each in X.items()):
        return _list(list(X.values()), series, timed)
    parts = {str(name): _read(each, series, timed) for name, each in X.items()}
    return {name: values for name, (values, _) in parts.items()}, _clocks(
        {name: own for name, (_, own) in parts.items()}
    )


def _list(trials: Sequence[Any], series: bool, timed: bool) -> Read:
    parts = [_read(each, series, timed) for each in trials]
    values, times = [each for each, _ in parts], [own for _, own in parts]
    for n, (trial, each) in enumerate(zip(trials, values, strict=True)):
        if series and kind_of(trial) and (isinstance(each, list | dict) or each.ndim > 2):
            raise errors.bad_value(f"trial {n} of a list", "a container of one trial, (T, D)", kind_of(trial))
    columns = [list(each.columns) for each in trials if kind_of(each) == "pandas.DataFrame"]
    if series and any(each != columns[0] for each in columns):
        raise errors.bad_value("list of DataFrames", "the same columns in every trial", columns)
    timeless = [own is None for trial, own in zip(trials, times, strict=True) if trial is not None]
    if any(timeless) and not all(timeless):
        raise errors.bad_value("list of trials", "times in all of them (or give `times=`)", f"{sum(timeless)} without")
    return values, None if all(timeless) else times


def _clocks(clocks: Mapping[str, Any]) -> Any:
    """One clock where factors agree (those that know no times go along), otherwise {factor: its own}."""
    known = {name: clock for name, clock in clocks.items() if clock is not None}
    first = next(iter(known.values()), None)
    return first if all(_same(first, clock) for clock in known.values()) else known


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if one is None or other is None or isinstance(one, list) or isinstance(other, list):
        return one is other
    return bool(one.shape == other.shape and np.allclose(one, other, rtol=0, atol=10.0**-DECIMALS))


# ---- xarray ---------------------------------------------------------------------------------------


def _axes(x: Any, series: bool) -> tuple[list[Hashable], Hashable | None]:
    """The dims of a DataArray as trial, time, rest; and which of them is time."""
    dims = list(x.dims)
    trial = next((each for name in TRIAL_NAMES for each in dims if str(each).lower() == name), None)
    time = next((each for name in TIME_NAMES for each in dims if str(each).lower() == name), None)
    if trial is None and len(dims) > 2 and time == dims[1]:
        trial = dims[0]  # sessions, sweeps: trials by another name
    if time is None and trial is not None and len(dims) > 2:
        time = next(each for each in dims if each != trial)
    leading = [each for each in (trial, time) if each is not None]
    if series and (not dims or (len(leading) == 1 and (time is None or len(dims) > 2))):
        expected = "dims (trial, time, …) or (time, channel), see its rename()"
        raise errors.bad_value("xarray.DataArray", expected, f"({', '.join(map(str, dims))})")
    return leading + [each for each in dims if each not in leading], time


def _data_array(x: Any, series: bool, timed: bool) -> Read:
    order, time = _axes(x, series)
    array = x.transpose(*order).to_numpy()
    numeric = time in x.coords and x.coords[time].dtype.kind in "iuf"
    times = np.asarray(x.coords[time].to_numpy(), np.float64) if timed and numeric else None
    if series and time is not None and order[1:] == [time]:
        # (N, T) would be taken for a recording of T channels; what may be labels stays so in a list.
        return array[..., None] if array.dtype.kind == "f" else list(array), times
    return array, times


def _dataset(x: Any, series: bool, timed: bool) -> Read:
    values, times = _read(dict(x.data_vars), series, timed)
    if isinstance(times, dict):
        expected = "the same times for all variables (a dict of DataArrays may have several clocks)"
        raise errors.bad_value("xarray.Dataset", expected, f"different times for {', '.join(times)}")
    return values, times


# ---- pandas ---------------------------------------------------------------------------------------


def _frame(frame: Any, series: bool, timed: bool) -> Read:
    """A table, one trial with its times as index, or trials by the first of two levels."""
    values, index = frame.to_numpy(), frame.index
    if not series or index.nlevels == 1:
        return values, _numbers(index) if timed else None
    if index.nlevels != 2:
        raise errors.bad_value("index of a DataFrame", "two levels, (trial, time)", f"{index.nlevels} levels")
    first, second = (str(name).lower() for name in index.names)
    level = int(first in TIME_NAMES or (first not in TRIAL_NAMES and second in TRIAL_NAMES))
    codes, labels = index.get_level_values(level).factorize()
    if (codes < 0).any():
        raise errors.bad_value("index of a DataFrame", "a trial for every row", f"none for {(codes < 0).sum()} rows")
    times = _numbers(index.get_level_values(1 - level)) if timed else None
    rows = [np.flatnonzero(codes == n) for n in range(len(labels))]
    return [values[each] for each in rows], None if times is None else [times[each] for each in rows]


def _numbers(index: Any) -> Clock:
    if index.dtype.kind not in "iuf":
        expected = "times as numbers (such as index.total_seconds(); or give `times=`)"
        raise errors.bad_value("index of a DataFrame", expected, index.dtype)
    return np.asarray(index.to_numpy(), np.float64)


# ---- pynapple and neo -----------------------------------------------------------------------------


def _tsd(x: Any, series: bool, timed: bool) -> Read:
    array = np.asarray(x.values)
    if series and array.ndim > 2:
        raise errors.bad_value("pynapple.TsdTensor", "a list of arrays (T_n, *event) instead", f"shape {array.shape}")
    return array[:, None] if array.ndim == 1 else array, np.asarray(x.t, np.float64) if timed else None


def _signal(x: Any, _: bool, timed: bool) -> Read:
    return np.asarray(x.magnitude), in_seconds(x.times) if timed else None


def _segment(x: Any, series: bool, timed: bool) -> Read:
    if not len(x.analogsignals):
        expected = "an AnalogSignal in every Segment (spikes: rp.adapters.binned(segments, bin_width))"
        raise errors.bad_value("neo.Segment", expected, "none")
    return _signal(x.analogsignals[0], series, timed)


# ---- NWB, and events in bins ----------------------------------------------------------------------


def _time_series(x: Any, _: bool, timed: bool) -> Read:
    """A TimeSeries of NWB (SpatialSeries, …) in its unit."""
    array = np.asarray(x.data[:]) * float(x.conversion) + float(x.offset or 0.0)
    values = array[:, None] if array.ndim == 1 else array
    if not timed:
        return values, None
    if x.timestamps is not None:
        return values, np.asarray(x.timestamps[:], np.float64)
    return values, float(x.starting_time) + np.arange(len(values)) / float(x.rate)


def _binned(x: Binned, series: bool, timed: bool) -> Read:
    """Trials; without time every bin is a row."""
    return (list(x.trials), list(x.times) if timed else None) if series else (np.concatenate(x.trials), None)


READERS: dict[str, Callable[[Any, bool, bool], Read]] = {
    "xarray.DataArray": _data_array,
    "xarray.Dataset": _dataset,
    "pandas.DataFrame": _frame,
    **dict.fromkeys(("pynapple.Tsd", "pynapple.TsdFrame", "pynapple.TsdTensor"), _tsd),
    **dict.fromkeys(("neo.AnalogSignal", "neo.IrregularlySampledSignal"), _signal),
    "neo.Segment": _segment,
    **dict.fromkeys(("pynwb.TimeSeries", "pynwb.SpatialSeries"), _time_series),
    "rpmodels.Binned": _binned,
}
