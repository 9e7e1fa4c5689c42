"""Events counted in bins: trials that estimators take, with their times, units and beginnings."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks, errors, memory
from rpmodels.observations import resampling
from rpmodels.observations.events.containers import bounds_of, events_of_container, events_of_nwb_file
from rpmodels.observations.events.events import Bounds, Events, Recorded, Scale
from rpmodels.observations.events.plain import events_of_plain
from rpmodels.observations.events.sorted_folder import events_of_folder
from rpmodels.observations.events.tables import events_of_table
from rpmodels.observations.kinds import DECIMALS, Clock, in_seconds, kind_of

ALMOST = 1e-6
"""Of a bin, which an epoch may lack and have it."""


@dataclass(frozen=True)
class Binned:
    """Counts of events in bins, as `binned` makes them: estimators take it as trials with their times.

    It unpacks into two: `counts, times = binned(…)`.
    """

    trials: list[NDArray[Any]]
    """(T_n, units) counts of every trial."""
    times: list[Clock]
    """(T_n,): the middles of the bins, in seconds since their trial began."""
    units: tuple[Any, ...]
    """What the columns are called."""
    bin_width: float
    """In seconds."""
    starts: tuple[float, ...]
    """When trials began, on the clock of the events."""
    labels: tuple[Any, ...]
    """What trials are called: their numbers, or what stands in the column of a table."""

    def __iter__(self) -> Iterator[Any]:
        yield self.trials
        yield self.times

    def __repr__(self) -> str:
        lengths = [len(each) for each in self.trials]
        bins = f"{min(lengths)}" if len(set(lengths)) == 1 else f"{min(lengths)} to {max(lengths)}"
        events = int(sum(each.sum() for each in self.trials))
        return (
            f"Binned: {len(lengths)} trial(s) of {bins} bins of {self.bin_width:g} s, {len(self.units)} unit(s), "
            f"{events} events"
        )

    def subset(self, index: Any) -> "Binned":
        """These trials."""
        chosen = np.arange(len(self.trials))[index]
        parts = ([each[n] for n in chosen] for each in (self.trials, self.times, self.starts, self.labels))
        trials, times, starts, labels = parts
        return replace(self, trials=trials, times=times, starts=tuple(starts), labels=tuple(labels))

    def beside(self, values: Any, times: Any, *, how: str = "mean", angular: bool = False) -> list[NDArray[Any]]:
        """Behaviour with a clock of its own, in the same bins: a list of (T_n, D), NaN where nobody knows.

        Args:
            values: one recording (T, D) on the clock of the session, or a list of trials (T_n, D), each counted from
                its own beginning
            times: when they were taken, in seconds: (T,), or a list of (T_n,)
            how: "mean" of what falls into a bin, "linear" or "nearest" at its middle; "auto": the mean where a bin
                has several values, otherwise linear, of labels the nearest
            angular: whether values are angles in radians, which are averaged on the circle

        """
        at = self.times
        listed = isinstance(values, Sequence) and len(values) == len(at) and np.ndim(values[0]) > 0
        if not listed:  # one recording, and its bins on the clock of the session
            values, times = [values] * len(at), [times] * len(at)
            at = [start + each for start, each in zip(self.starts, self.times, strict=True)]
        return list(resampling.interpolated(values, times, at, how=how, angular=angular, width=self.bin_width))


def binned(
    spikes: Any,
    bin_width: Any,
    epochs: Any = None,
    *,
    time_unit: Any = None,
    unit: str | None = None,
    time: str | None = None,
    trial: str | None = None,
    units: Sequence[Any] | None = None,
    align: bool = False,
) -> Binned:
    """Events (spikes) counted in bins, from any form that people keep them in; see docs/howto/spikes.md.

    Args:
        spikes: spike times as a list by unit, or a list of such lists by trial; a dict {unit: times}, or a list of such
            dicts; a DataFrame with a row for every event; a pynapple TsGroup or Ts; a neo Block, Segment, list of
            Segments (trials) or list of spike trains; an NWB session, or the path of its file; the path of a folder of
            Kilosort or phy (the clusters that are called good)
        bin_width: in seconds, or a quantity; what an epoch has beyond its last whole bin is dropped
        epochs: what becomes of a session: every epoch a trial. A pynapple IntervalSet, a neo Epoch, a table with
            columns start and end (start_time and stop_time), or beginnings and ends (E, 2); of an NWB session its
            table of trials. Where events come by trial, when each began and ended on their clock, or one pair for all.
            Default all there is: where nobody says, from 0 to the last event
        time_unit: of plain numbers, those of epochs too: "s" (default), "ms", "us", "ns", or the seconds of one step
            (samples: 1/30000)
        unit: of a DataFrame, the column that names the unit
        time: of a DataFrame, the column that says when
        trial: of a DataFrame, the column that names the trial
        units: the names of those that are wanted, in this order; default all
        align: whether trials are counted from their first event each, where nobody knows when they began

    """
    has_unit = hasattr(bin_width, "rescale")
    width = checks.number("bin_width", float(in_seconds(bin_width)) if has_unit else bin_width, above=0.0)
    events, own = _events(spikes, time_unit, unit, time, trial)
    events = events.only(units)
    factor = Scale(time_unit).factor
    asked = own if epochs is None else bounds_of(epochs, factor)
    if align and asked is None and events.trials is not None:
        events = events.aligned()
    elif asked is None and events.trials is not None:
        events.check_clock()
    pieces = _pieces(events, asked, width)
    size = sum(max(1.0, (end - start) / width) for _, (start, end) in pieces) * len(events.units) * 8
    memory.afford("bin_width", width, size)
    counts = [_counts(recorded, start, end, width) for recorded, (start, end) in pieces]
    times = [width * (np.arange(len(each), dtype=np.float64) + 0.5) for each in counts]
    labels = events.trials if events.trials is not None and len(events.trials) == len(pieces) else range(len(pieces))
    return Binned(counts, times, events.units, width, tuple(start for _, (start, _) in pieces), tuple(labels))


def _events(spikes: Any, time_unit: Any, *columns: str | None) -> tuple[Events, Bounds | None]:
    """Events of whatever it is, and the epochs that it has of its own."""
    if isinstance(spikes, str | PathLike):
        path = Path(spikes)
        return (events_of_folder(path, time_unit), None) if path.is_dir() else events_of_nwb_file(path)
    if kind_of(spikes) == "pandas.DataFrame":
        return events_of_table(spikes, Scale(time_unit), *columns), None
    found = events_of_container(spikes)
    if found is not None:
        return found
    if kind_of(spikes) or not (isinstance(spikes, Mapping) or hasattr(spikes, "__len__")) or not len(spikes):
        raise errors.no_events(kind_of(spikes) or type(spikes).__name__)
    return events_of_plain(spikes, Scale(time_unit)), None


def _pieces(events: Events, asked: Bounds | None, width: float) -> list[tuple[Recorded, tuple[float, float]]]:
    """What becomes a trial each: events, and when they begin and end."""
    if events.trials is None:
        (session,) = events.recorded
        return [(session, each) for each in asked or session.support or [_whole(session, width, 0)]]
    count = len(events.recorded)
    if asked is not None and len(asked) not in (1, count):
        raise errors.bad_value("epochs", f"one for each of {count} trials, or one for all", f"{len(asked)}")
    pieces = []
    for n, each in enumerate(events.recorded):
        if asked is not None:
            pieces.append((each, asked[n if len(asked) > 1 else 0]))
        else:
            pieces += [(each, one) for one in each.support or [_whole(each, width, n)]]
    return pieces


def _whole(recorded: Recorded, width: float, number: int) -> tuple[float, float]:
    """From 0 to the end of the bin of the last event, where nobody says how long it was."""
    ends = recorded.first_and_last
    if ends is None:
        raise errors.no_event_in_trial(number)
    start = min(0.0, ends[0])
    return start, start + width * (np.floor((ends[1] - start) / width + ALMOST) + 1)


def _counts(recorded: Recorded, start: float, end: float, width: float) -> NDArray[np.int64]:
    bins = int(np.floor((end - start) / width + ALMOST))
    if bins < 1:
        raise errors.bad_value(
            f"epoch {start:g} to {end:g} s", f"at least one bin of {width:g} s", f"{end - start:g} s"
        )
    edges = np.round(start + width * np.arange(bins + 1), DECIMALS)
    counts = [np.diff(np.searchsorted(np.round(unit, DECIMALS), edges)) for unit in recorded.times]
    return np.stack(counts, 1).astype(np.int64)
