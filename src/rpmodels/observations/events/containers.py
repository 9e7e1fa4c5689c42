"""Events in the containers of neuroscience: pynapple, neo, NWB."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rpmodels import errors
from rpmodels.observations.events.events import Bounds, Events, Recorded, ordered
from rpmodels.observations.kinds import LISTS, in_seconds, kind_of

TRAIN, SEGMENT, BLOCK = "neo.SpikeTrain", "neo.Segment", "neo.Block"
Found = tuple[Events, Any]
"""Events, and the epochs that their container has of its own, if any."""


def events_of_container(spikes: Any) -> Found | None:
    """From one container, or from a list of spike trains or Segments; None for anything else."""
    if kind_of(spikes) in LISTS:
        spikes = list(spikes)
    if kind := kind_of(spikes):
        reader = READERS.get(kind)
        return None if reader is None else reader(spikes)
    listed = isinstance(spikes, Sequence) and not isinstance(spikes, str | bytes) and len(spikes)
    kinds = {kind_of(each) for each in spikes} if listed else set()
    if len(kinds) == 1:
        (kind,) = kinds
        if kind == TRAIN:
            return _of_trains(spikes), None
        if kind == SEGMENT:
            return _of_segments(spikes), None
        if kind in ("pynapple.TsGroup", "pynapple.Ts") and len(spikes) == 1:
            return READERS[kind](spikes[0])
    return None


# ---- pynapple and neo -----------------------------------------------------------------------------


def _of_group(group: Any) -> Found:
    names = list(group)
    if not names:
        raise errors.no_events("a TsGroup without units")
    times = tuple(np.asarray(group[unit].t, np.float64) for unit in names)
    return Events(tuple(names), (Recorded(times, bounds_of(group.time_support)),)), None


def _of_ts(ts: Any) -> Found:
    if not len(ts):
        raise errors.no_events("a Ts without spikes")
    return Events((0,), (Recorded((np.asarray(ts.t, np.float64),), bounds_of(ts.time_support)),)), None


def _of_trains(trains: Sequence[Any]) -> Events:
    recorded = _recorded(trains)
    return Events(tuple(each.name or n for n, each in enumerate(trains)), (recorded,))


def _recorded(trains: Sequence[Any]) -> Recorded:
    start = max(float(in_seconds(each.t_start)) for each in trains)
    end = min(float(in_seconds(each.t_stop)) for each in trains)
    return Recorded(tuple(ordered(in_seconds(each.times)) for each in trains), [(start, end)])


def _of_segments(segments: Sequence[Any]) -> Events:
    """Of one Segment a recording, of several of them trials."""
    trials = [list(each.spiketrains) for each in segments]
    for n, each in enumerate(trials):
        if not each:
            raise errors.no_events(f"a Segment without spike trains (number {n})")
        if len(each) != len(trials[0]):
            raise errors.other_units(n, len(each), len(trials[0]))
    units = tuple(each.name or n for n, each in enumerate(trials[0]))
    recorded = tuple(map(_recorded, trials))
    return Events(units, recorded, tuple(range(len(trials))) if len(trials) > 1 else None)


def _of_block(block: Any) -> Found:
    if not len(block.segments):
        raise errors.no_events("a Block without Segments")
    return _of_segments(list(block.segments)), None


# ---- NWB ------------------------------------------------------------------------------------------


def events_of_nwb_file(path: Path) -> Found:
    """From a file, which is closed again."""
    try:
        opened = importlib.import_module("pynwb").NWBHDF5IO
    except ImportError as failure:
        raise errors.needs_package(f"Reading {path}", "pynwb", "pip install 'rpmodels[nwb]'") from failure
    if not path.is_file():
        raise errors.no_data_file(str(path))
    try:
        with opened(str(path), "r") as file:
            return _of_nwb(file.read())
    except errors.InputError:
        raise
    except Exception as failure:  # readers raise classes of their own
        raise errors.unreadable(str(path), "an NWB file", failure) from failure


def _of_nwb(session: Any) -> Found:
    """Its units; the epochs are those of its table of trials."""
    units = session.units
    if units is None or not len(units):
        raise errors.no_events("an NWB session without units")
    names = tuple(np.asarray(units.id[:]).tolist())
    times = tuple(ordered(np.asarray(units.get_unit_spike_times(n), np.float64)) for n in range(len(names)))
    trials = session.trials
    epochs = None if trials is None or not len(trials) else bounds_of(trials)
    observed = None
    if "obs_intervals" in units.colnames:  # what all units were recorded in
        every = [np.asarray(units["obs_intervals"][n], np.float64).reshape(-1, 2) for n in range(len(names))]
        if all(len(each) == len(every[0]) and np.allclose(each, every[0]) for each in every) and len(every[0]):
            observed = bounds_of(every[0])
    return Events(names, (Recorded(times, observed),)), epochs


# ---- epochs ---------------------------------------------------------------------------------------


def bounds_of(epochs: Any, factor: float = 1.0) -> Bounds:
    """Beginnings and ends in seconds, from whatever holds some; plain numbers are times a factor."""
    kind = kind_of(epochs)
    if kind == "pynapple.IntervalSet":
        array = np.stack([np.asarray(epochs.start), np.asarray(epochs.end)], 1)
    elif kind == "neo.Epoch":
        array = np.stack([in_seconds(epochs.times), in_seconds(epochs.times) + in_seconds(epochs.durations)], 1)
    elif hasattr(epochs, "colnames"):  # a table of NWB, in seconds
        array = np.stack([np.asarray(epochs[name][:], np.float64) for name in ("start_time", "stop_time")], 1)
    else:
        array = _plain_bounds(epochs) * factor
    if array.ndim != 2 or array.shape[1] != 2 or not len(array) or not np.isfinite(array).all():
        raise errors.bad_value("epochs", "one or more, (E, 2) beginnings and ends in seconds", f"shape {array.shape}")
    return [(float(start), float(end)) for start, end in array]


def _plain_bounds(epochs: Any) -> Any:
    """(E, 2) of an array, or of two columns by their names."""
    names = [str(each) for each in (epochs if isinstance(epochs, Mapping) else getattr(epochs, "columns", ()))]
    if names:
        found = [next((name for name in usual if name in names), None) for usual in (BEGINNINGS, ENDS)]
        if None in found:
            expected = f"columns for beginnings ({', '.join(BEGINNINGS)}) and ends ({', '.join(ENDS)})"
            raise errors.bad_value("epochs", expected, ", ".join(names))
        epochs = np.stack([np.asarray(epochs[name], np.float64) for name in found], 1)
    try:
        array = np.asarray(epochs, np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    return array[None] if array.shape == (2,) else array


BEGINNINGS = ("start", "start_time", "begin", "onset")
ENDS = ("end", "stop", "stop_time", "end_time", "offset")
READERS: dict[str, Callable[[Any], Found]] = {
    "pynapple.TsGroup": _of_group,
    "pynapple.Ts": _of_ts,
    TRAIN: lambda train: (_of_trains([train]), None),
    SEGMENT: lambda segment: (_of_segments([segment]), None),
    BLOCK: _of_block,
    "pynwb.NWBFile": _of_nwb,
}
