"""Containers that people keep their data in (xarray, pandas, pynapple, neo) as arrays, lists of trials, and times.

None of these packages is imported: an object's class says what it is, and its own methods give what is needed.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks, errors
from rpmodels.observations.merging import merged

__all__ = ["binned", "merged", "to_trials"]

Clock = NDArray[np.float64]
Read = tuple[Any, Any]
"""Values, and their times in the same form; None where there are none, or where nobody asks."""

TIME_NAMES = ("time", "times", "t")
TRIAL_NAMES = ("trial", "trials", "observation", "sample")
PACKAGES = ("xarray", "pandas", "pynapple", "neo")
LISTS = ("neo.ObjectList", "neo.SpikeTrainList")
DECIMALS = 9
"""Times are told apart, and edges of bins rounded, to the nanosecond, as in pynapple: 3 · 0.1 s is 0.3 s."""


def to_trials(X: Any, times: Any = None, *, series: bool = True, timed: bool = True) -> tuple[Any, Any]:
    """Data as the library reads them, and when they were taken if their container knows; plain data as they are.

    Args:
        X: a container, or a list (trials) or dict (factors) of them; a dict of data frames with numbers as keys: trials
        times: the user's own, which win
        series: whether observations have several rows; if not, data frames are tables
        timed: whether to look for times

    """
    table = _kind(X) == "pandas.DataFrame" and (not series or X.index.nlevels == 1)
    if table or not _holds_containers(X):
        return X, times
    values, own = _read(X, series, series and timed and times is None)
    return values, own if times is None else times


def binned(spikes: Any, bin_width: Any, epochs: Any = None) -> tuple[list[NDArray[np.int64]], list[Clock]]:
    """Spikes counted in bins: trials (T_n, units), and the middles of the bins in seconds since their trial began.

    Args:
        spikes: a pynapple TsGroup or Ts; a neo Segment, a list of its spike trains, or a list of Segments (trials)
        bin_width: in seconds, or a quantity; what an epoch has beyond its last whole bin is dropped
        epochs: a pynapple IntervalSet, a neo Epoch, or beginnings and ends (E, 2) in seconds; default all there is

    """
    has_unit = hasattr(bin_width, "rescale")
    width = checks.number("bin_width", float(_seconds(bin_width)) if has_unit else bin_width, above=0.0)
    listed = list(spikes) if isinstance(spikes, Sequence) or _kind(spikes) in LISTS else [spikes]
    segments = [each for each in listed if _kind(each) == "neo.Segment"]
    if len(segments) > 1 and epochs is not None:
        raise errors.bad_value("epochs", "None beside several Segments, which are trials already", "epochs")
    recorded = [_units(list(each.spiketrains)) for each in segments] or [_units(listed)]
    trials = [
        _counts(units, start, end, width)
        for units, support in recorded
        for start, end in _bounds(support if epochs is None else epochs)
    ]
    return trials, [width * (np.arange(len(trial), dtype=np.float64) + 0.5) for trial in trials]


# ---- lists and dicts of containers ----------------------------------------------------------------


def _kind(x: Any) -> str:
    """Such as "xarray.DataArray"; empty for everything that is no container."""
    for each in type(x).__mro__:  # classes of the user's own may inherit from a container
        package = each.__module__.partition(".")[0]
        if package in PACKAGES and (package != "pandas" or each.__name__ == "DataFrame"):
            return f"{package}.{each.__name__}"
    return ""


def _holds_containers(X: Any) -> bool:
    parts = X.values() if isinstance(X, Mapping) and not _kind(X) else [X]
    return any(_kind(part) or (isinstance(part, list | tuple) and any(map(_kind, part))) for part in parts)


def _read(X: Any, series: bool, timed: bool) -> Read:
    if _kind(X) in LISTS:
        X = list(X)
    if kind := _kind(X):
        if kind not in READERS:
            raise errors.bad_value("the data", f"{', '.join(READERS)} (spikes: see rp.adapters.binned)", kind)
        return READERS[kind](X, series, timed)
    if not _holds_containers(X):
        return X, None
    if not isinstance(X, Mapping):
        return _list(X, series, timed)
    # Factors have names; trials have numbers, as from dict(list(frame.groupby("trial"))).
    if series and all(_kind(each) == "pandas.DataFrame" and not isinstance(key, str) for key, each in X.items()):
        return _list(list(X.values()), series, timed)
    parts = {str(name): _read(each, series, timed) for name, each in X.items()}
    return {name: values for name, (values, _) in parts.items()}, _clocks(
        {name: own for name, (_, own) in parts.items()}
    )


def _list(trials: Sequence[Any], series: bool, timed: bool) -> Read:
    parts = [_read(each, series, timed) for each in trials]
    values, times = [each for each, _ in parts], [own for _, own in parts]
    for n, (trial, each) in enumerate(zip(trials, values, strict=True)):
        if series and _kind(trial) and (isinstance(each, list | dict) or each.ndim > 2):
            raise errors.bad_value(f"trial {n} of a list", "a container of one trial, (T, D)", _kind(trial))
    columns = [list(each.columns) for each in trials if _kind(each) == "pandas.DataFrame"]
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
    return np.asarray(x.magnitude), _seconds(x.times) if timed else None


def _segment(x: Any, series: bool, timed: bool) -> Read:
    if not len(x.analogsignals):
        expected = "an AnalogSignal in every Segment (spikes: rp.adapters.binned(segments, bin_width))"
        raise errors.bad_value("neo.Segment", expected, "none")
    return _signal(x.analogsignals[0], series, timed)


def _seconds(quantity: Any) -> Clock:
    return np.asarray(quantity.rescale("s").magnitude, np.float64)


def _units(listed: list[Any]) -> tuple[list[Clock], Any]:
    """The spike times of every unit, and the epochs in which they were recorded."""
    kinds = {_kind(each) or type(each).__name__ for each in listed}
    if kinds == {"neo.SpikeTrain"}:
        start = max(float(_seconds(each.t_start)) for each in listed)
        end = min(float(_seconds(each.t_stop)) for each in listed)
        return [np.sort(_seconds(each.times)) for each in listed], [(start, end)]
    if kinds not in ({"pynapple.TsGroup"}, {"pynapple.Ts"}) or len(listed) > 1 or not len(listed[0]):
        expected = "a TsGroup or Ts with spikes, spike trains, or Segments that have some"
        raise errors.bad_value("spikes", expected, ", ".join(sorted(kinds)) or "none")
    group = listed[0]
    units = [group] if kinds == {"pynapple.Ts"} else [group[unit] for unit in list(group)]
    return [np.asarray(unit.t, np.float64) for unit in units], group.time_support


def _bounds(epochs: Any) -> list[tuple[float, float]]:
    if _kind(epochs) == "pynapple.IntervalSet":
        epochs = np.stack([np.asarray(epochs.start), np.asarray(epochs.end)], 1)
    elif _kind(epochs) == "neo.Epoch":
        epochs = np.stack([_seconds(epochs.times), _seconds(epochs.times) + _seconds(epochs.durations)], 1)
    array = np.asarray(epochs, np.float64)
    if array.ndim != 2 or array.shape[1] != 2 or not len(array) or not np.isfinite(array).all():
        raise errors.bad_value("epochs", "one or more, (E, 2) beginnings and ends in seconds", f"shape {array.shape}")
    return [(float(start), float(end)) for start, end in array]


def _counts(units: Sequence[Clock], start: float, end: float, width: float) -> NDArray[np.int64]:
    bins = int(np.floor((end - start) / width + 1e-6))
    if bins < 1:
        raise errors.bad_value(
            f"epoch {start:g} to {end:g} s", f"at least one bin of {width:g} s", f"{end - start:g} s"
        )
    edges = np.round(start + width * np.arange(bins + 1), DECIMALS)
    return np.stack([np.diff(np.searchsorted(np.round(unit, DECIMALS), edges)) for unit in units], 1).astype(np.int64)


READERS: dict[str, Callable[[Any, bool, bool], Read]] = {
    "xarray.DataArray": _data_array,
    "xarray.Dataset": _dataset,
    "pandas.DataFrame": _frame,
    **dict.fromkeys(("pynapple.Tsd", "pynapple.TsdFrame", "pynapple.TsdTensor"), _tsd),
    **dict.fromkeys(("neo.AnalogSignal", "neo.IrregularlySampledSignal"), _signal),
    "neo.Segment": _segment,
}
