"""Events as the library holds them: of every unit its times in seconds, recording by recording."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.checks import shown
from rpmodels.observations.arrays import as_numbers
from rpmodels.observations.kinds import Clock, in_seconds

UNITS_OF_TIME: Mapping[str, float] = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
WHOLE = 10
"""As many times that are all whole numbers are no seconds."""
Bounds = Sequence[tuple[float, float]]
"""Beginnings and ends in seconds."""


@dataclass(frozen=True)
class Recorded:
    """Events that are on one clock: those of a session, or of a single trial."""

    times: tuple[Clock, ...]
    """Of every unit, in seconds, in order."""
    support: Bounds | None = None
    """When they were recorded; None where nobody says."""

    @property
    def first_and_last(self) -> tuple[float, float] | None:
        """Times of the first event and of the last; None where there is none."""
        some = [each for each in self.times if len(each)]
        return (min(float(each[0]) for each in some), max(float(each[-1]) for each in some)) if some else None

    def since(self, zero: float) -> "Recorded":
        """Counted from another beginning."""
        return replace(self, times=tuple(each - zero for each in self.times))


@dataclass(frozen=True)
class Events:
    """What some units did: in one recording, or in several of them, which are trials."""

    units: tuple[Any, ...]
    """Their names, in the order of the channels that they become."""
    recorded: tuple[Recorded, ...]
    trials: tuple[Any, ...] | None = None
    """What recordings are called that are trials by themselves; None for one long recording."""

    def only(self, units: Sequence[Any] | None) -> "Events":
        """Those of these units, in this order."""
        if units is None:
            return self
        places = {str(unit): place for place, unit in enumerate(self.units)}
        for unit in units:
            if str(unit) not in places:
                raise errors.unknown_unit(unit, self.units)
        chosen = [places[str(unit)] for unit in units]
        if not chosen:
            raise errors.bad_value("units", "at least one", "none")
        recorded = tuple(replace(each, times=tuple(each.times[n] for n in chosen)) for each in self.recorded)
        return replace(self, units=tuple(self.units[n] for n in chosen), recorded=recorded)

    def aligned(self) -> "Events":
        """Every trial counted from its own first event."""
        ends = [each.first_and_last for each in self.recorded]
        moved = [each.since(end[0] if end else 0.0) for each, end in zip(self.recorded, ends, strict=True)]
        return replace(self, recorded=tuple(moved))

    def check_clock(self) -> None:
        """Trials of which each begins after the one before has ended are on the clock of a session."""
        ends = sorted(end for each in self.recorded if each.support is None and (end := each.first_and_last))
        gaps = [(one[1], other[0]) for one, other in pairwise(ends)]
        if gaps and all(end < begin for end, begin in gaps):
            raise errors.events_run_on(*gaps[0])


class Scale:
    """From the user's unit of time to seconds; of numbers that nobody gave one, seconds, if they can be that."""

    def __init__(self, unit: Any = None) -> None:
        self._asked = unit is not None
        self.factor = self._seconds(unit) if self._asked else 1.0

    @staticmethod
    def _seconds(unit: Any) -> float:
        known = UNITS_OF_TIME.get(unit) if isinstance(unit, str) else unit
        good = isinstance(known, int | float | np.number) and not isinstance(known, bool) and 0 < float(known) < np.inf
        if not good:
            expected = f"{', '.join(UNITS_OF_TIME)}, or the seconds of one step (samples: 1/30000)"
            raise errors.bad_value("time_unit", expected, shown(unit))
        return float(known)  # type: ignore[arg-type]

    def __call__(self, what: str, times: Any) -> Clock:
        """Times as seconds, finite, in the order they came."""
        if hasattr(times, "rescale"):
            return in_seconds(times).ravel()
        given = getattr(times, "dtype", None)
        if getattr(given, "kind", "") == "m":
            seconds = np.asarray(times).astype("timedelta64[ns]").astype(np.int64) * 1e-9
        else:
            seconds = as_numbers(what, times, "times as numbers (dates: subtract when the recording began)")
            seconds = seconds * self.factor if self.factor != 1.0 else seconds
        if seconds.ndim != 1 or not np.isfinite(seconds).all():
            got = (
                f"shape {seconds.shape}" if seconds.ndim != 1 else f"{int((~np.isfinite(seconds)).sum())} that are not"
            )
            raise errors.bad_value(what, "finite times, one after the other", got)
        return np.asarray(seconds, np.float64)

    def check(self, times: Sequence[Clock]) -> None:
        """Refuse whole numbers for seconds, where nobody said that they are."""
        count = sum(map(len, times))
        if not self._asked and count >= WHOLE and all(bool((each == np.floor(each)).all()) for each in times):
            raise errors.whole_times(max(float(each.max(initial=0.0)) for each in times))


def ordered(times: Clock) -> Clock:
    """From the first to the last."""
    return np.sort(times) if len(times) > 1 and bool((np.diff(times) < 0).any()) else times


def by_code(times: Clock, codes: NDArray[np.int64], count: int) -> tuple[Clock, ...]:
    """The times of every one of so many units, in order."""
    order = np.lexsort((times, codes))
    return tuple(np.split(times[order], np.cumsum(np.bincount(codes, minlength=count))[:-1]))
