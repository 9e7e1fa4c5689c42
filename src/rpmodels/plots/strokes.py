"""Lines and points of conditions: who has which colour, in the plane, in space or against time."""

from collections.abc import Iterator
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from rpmodels.plots.canvas import ink, legend_beside
from rpmodels.plots.conditions import Conditions

SCALE = "viridis"
FULL = 8
"""Trials of a condition whose lines are as strong as they may be; more are paler each."""


class Strokes:
    """Draws trials and averages of conditions on one Axes."""

    def __init__(self, axes: Axes, groups: Conditions, over_time: bool, label: str) -> None:
        self.axes: Any = axes
        self.groups = groups
        self.over_time = over_time
        self.label = label
        self.named: list[Line2D] = []
        """What the legend will have."""

    def colour(self, group: int) -> str:
        """Of one condition."""
        return ink(group)

    def trials(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Every trial that has a condition, with the look of its line."""
        if self.groups.scale is not None:
            shades = self._scale()
            for trial in np.flatnonzero(np.isfinite(self.groups.scale)):
                yield int(trial), {"color": shades.to_rgba(self.groups.scale[trial]), "lw": 0.9, "alpha": 0.9}
            return
        for group, members in enumerate(self.groups.members):
            alpha = max(0.12, 0.45 * min(1.0, (FULL / max(1, len(members))) ** 0.5))
            for trial in members:
                yield int(trial), {"color": self.colour(group), "lw": 0.5, "alpha": alpha, "zorder": 1.5}

    def averages(self) -> Iterator[tuple[NDArray[np.intp], dict[str, Any]]]:
        """Every condition that has trials, with the look of its average."""
        for group, members in enumerate(self.groups.members):
            if len(members):
                style = "-" if group < 10 else "--"
                look = {"color": self.colour(group), "lw": 1.8, "ls": style, "zorder": 4}
                name = "average" if self.groups.names == ("",) else str(self.groups.names[group])
                yield members, {**look, "label": name}

    def line(self, times: NDArray[Any], values: NDArray[Any], **look: Any) -> None:
        """One path (T, d)."""
        self.axes.plot(*((times, values[:, 0]) if self.over_time else values.T), **look)

    def points(self, places: NDArray[Any], **look: Any) -> None:
        """(n, d)."""
        self.axes.scatter(*places.T, **look)

    def explain(self) -> None:
        """A legend of the conditions and of what else was marked, or the colour bar of their scale."""
        if self.groups.scale is not None:
            room = {"shrink": 0.7, "pad": 0.12} if self.axes.name == "3d" else {}
            self.axes.figure.colorbar(self._scale(), ax=self.axes, label=self.label, **room)
        single = self.groups.names == ("",)
        shown = [] if single else [
            Line2D([], [], color=self.colour(group), lw=1.8, ls="-" if group < 10 else "--", label=str(name))
            for group, name in enumerate(self.groups.names)
        ]  # fmt: skip
        if shown or self.named:
            legend_beside(self.axes, handles=[*shown, *self.named])
            self.axes.get_legend().set_title("" if single else self.label)

    def _scale(self) -> ScalarMappable:
        assert self.groups.scale is not None  # asked for only then
        known = self.groups.scale[np.isfinite(self.groups.scale)]
        return ScalarMappable(Normalize(known.min(), known.max()), mpl.colormaps[SCALE])
