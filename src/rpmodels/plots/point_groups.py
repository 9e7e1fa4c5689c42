"""Conditions of latents without time: clouds with their means, and bars of probabilities."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes

from rpmodels.plots.averages import average
from rpmodels.plots.canvas import MARKERS, ink, legend_beside
from rpmodels.plots.conditions import Conditions
from rpmodels.plots.found import Found
from rpmodels.plots.strokes import Strokes

WIDTH = 0.32
"""Of a column of points, to either side."""
HATCHES = ("", "//", "..", "xx")


def draw_points(strokes: Strokes, found: Found, shown: list[int], what: tuple[bool, bool], band: str) -> None:
    """Small points, and a large one where the mean is; one latent alone has a column for every condition."""
    if strokes.groups.scale is not None:
        _on_scale(strokes, found, shown)
        return
    points = np.concatenate(found.values)[:, shown]
    for group, (members, look) in enumerate(strokes.averages()):
        marker, colour = MARKERS[group % len(MARKERS)], look["color"]
        here = points[members]
        if len(shown) == 1:  # spread out in the order they came in
            here = np.column_stack([group + np.linspace(-WIDTH, WIDTH, len(here) + 2)[1:-1], here])
        if what[0]:
            strokes.points(here, s=9, color=colour, lw=0, alpha=0.6, marker=marker)
        if not what[1]:
            continue
        mean = average(found, members, band)
        middle = mean.mean[:, shown]
        if len(shown) == 1:
            half = None if mean.band is None else mean.band[:, shown[0]]
            bars: dict[str, Any] = {"fmt": marker, "ms": 6, "color": "k", "capsize": 3, "lw": 1.2, "zorder": 4}
            strokes.axes.errorbar([group], middle[:, 0], half, **bars)
        else:
            strokes.points(middle, s=60, color=colour, ec="k", lw=0.9, marker=marker, zorder=5)
    if len(shown) == 1:
        names = [str(each) for each in strokes.groups.names]
        strokes.axes.set_xticks(range(len(names)), names if names != [""] else ["all"])


def draw_bars(axes: Axes, found: Found, groups: Conditions, band: str, label: str) -> Axes:
    """Average probabilities of all states, a bar for every condition, with their band."""
    count = sum(len(members) > 0 for members in groups.members)
    width, places, group = 0.8 / count, np.arange(len(found.names)), 0
    for name, members in zip(groups.names, groups.members, strict=True):
        if not len(members):
            continue
        mean = average(found, members, band)
        look: dict[str, Any] = {"color": ink(group), "hatch": HATCHES[group // 10 % 4], "edgecolor": "w", "lw": 0}
        half = None if mean.band is None else mean.band[0]
        offset = (group - (count - 1) / 2) * width
        bars: dict[str, Any] = {"yerr": half, "error_kw": {"lw": 0.8}, "label": str(name)}
        axes.bar(places + offset, mean.mean[0], width, **bars, **look)
        group += 1
    crowded = len(places) > 6 or max(map(len, found.names)) > 7
    axes.set_xticks(places, found.names, rotation=45 if crowded else 0, ha="right" if crowded else "center")
    axes.set(ylabel="average probability", ylim=(0, None))
    if groups.names != ("",):
        legend_beside(axes)
        legend = axes.get_legend()
        assert legend is not None  # made just now
        legend.set_title(label)
    return axes


def _on_scale(strokes: Strokes, found: Found, shown: list[int]) -> None:
    """Every point in the colour of its number."""
    for trial, look in strokes.trials():
        place = found.values[trial][:, shown]
        if len(shown) == 1:
            assert strokes.groups.scale is not None  # it is what they are on
            place = np.column_stack([strokes.groups.scale[trial : trial + 1], place])
        strokes.points(place, s=10, color=look["color"], lw=0)
