"""When something happened: marks on the lines of trials and averages."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.plots.averages import at_times, average
from rpmodels.plots.canvas import MARKERS, STYLES
from rpmodels.plots.found import Found
from rpmodels.plots.strokes import Strokes

Events = dict[str, NDArray[np.float64]]


def read_events(events: Mapping[str, Any] | None, found: Found) -> Events:
    """{name: one time, or one for every trial}, checked."""
    if not events:
        return {}
    if found.times is None:
        raise errors.needs_times("events")
    checked = {}
    for name, when in events.items():
        try:
            values = np.asarray(when, float)
        except (TypeError, ValueError):
            values = np.empty((0, 0))
        if values.shape not in ((), (len(found),)):
            expected = f"one time, or one for every trial ({len(found)}; NaN where it did not happen)"
            raise errors.bad_value(f"events[{str(name)!r}]", expected, f"shape {np.shape(when)}")
        checked[str(name)] = values
    return checked


def mark_events(strokes: Strokes, found: Found, shown: list[int], events: Events, what: tuple[bool, bool]) -> None:
    """Against time, what is at one time for all is a line; everything else has marks on the paths."""
    for number, (name, when) in enumerate(events.items()):
        if strokes.over_time and when.ndim == 0:
            style = STYLES[1:][number % 3]
            strokes.axes.axvline(float(when), color="0.35", lw=0.9, ls=style, zorder=1)
            strokes.named.append(Line2D([], [], color="0.35", lw=0.9, ls=style, label=name))
            continue
        marker = MARKERS[1:][number % (len(MARKERS) - 1)]
        _on_paths(strokes, found, shown, np.broadcast_to(when, (len(found),)), marker, what)
        look: dict[str, Any] = {"ls": "", "marker": marker, "ms": 5, "mfc": "0.85", "mec": "k", "mew": 0.6}
        strokes.named.append(Line2D([], [], label=name, **look))


def _on_paths(
    strokes: Strokes, found: Found, shown: list[int], when: NDArray[np.float64], marker: str, what: tuple[bool, bool]
) -> None:
    trials, averages = what
    assert found.times is not None  # checked when events were read
    for trial, look in strokes.trials() if trials or strokes.groups.scale is not None else ():
        at = at_times(found.values[trial], found.times[trial], when[trial : trial + 1])
        _mark(strokes, when[trial : trial + 1], at[:, shown], s=9, color=look["color"], marker=marker, lw=0, zorder=3)
    for members, look in strokes.averages() if averages else ():
        usual = when[members][np.isfinite(when[members])]
        if len(usual):
            path, middle = average(found, members, "none"), np.array([usual.mean()])
            at = at_times(path.mean, path.times, middle)
            strong = {"s": 34, "color": look["color"], "marker": marker, "ec": "k", "lw": 0.7, "zorder": 6}
            _mark(strokes, middle, at[:, shown], **strong)


def _mark(strokes: Strokes, when: NDArray[Any], places: NDArray[Any], **look: Any) -> None:
    """Only where the path is."""
    if np.isfinite(places).all() and np.isfinite(when).all():
        strokes.points(np.column_stack([when, places]) if strokes.over_time else places, **look)
