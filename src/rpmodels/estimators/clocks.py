"""When the updates of a stream are."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.estimators.series import OTHER_UNITS

Times = NDArray[np.float64]


class Clock:
    """On that of the fit, whose usual step is taken where no time is said."""

    def __init__(self, known: Times) -> None:
        self.usual = float(np.median(np.diff(known))) if len(known) > 1 else 1.0
        self._compared = False

    def since(self, last: Times, time: Any) -> tuple[Times, Times]:
        """How long it is since the last update of every series, and when this one is. The first is never late."""
        first = np.isnan(last)
        if time is None:
            return np.full(1, self.usual), np.where(first, 0.0, last + self.usual)
        now = np.asarray(time, np.float64)
        if now.shape not in ((), last.shape) or not np.isfinite(now).all():
            expected = "a finite number" + (f", or {len(last)} of them" if len(last) > 1 else "")
            raise errors.bad_value("time", expected, f"shape {now.shape}" if now.ndim else time)
        now = np.broadcast_to(now, last.shape).copy()
        elapsed = np.where(first, self.usual, now - last)
        if (elapsed < 0).any():
            late = int(np.flatnonzero(elapsed < 0)[0])
            raise errors.back_in_time(float(now[late]), float(last[late]))
        self._compare(elapsed[~first])
        return elapsed, now

    def _compare(self, elapsed: Times) -> None:
        """Once: seconds here and milliseconds there."""
        steps = elapsed[elapsed > 0]
        if self._compared or not steps.size:
            return
        self._compared = True
        if not 1 / OTHER_UNITS < float(np.median(steps)) / self.usual < OTHER_UNITS:
            warnings.warn(errors.other_clock(float(np.median(steps)), self.usual), stacklevel=4)
