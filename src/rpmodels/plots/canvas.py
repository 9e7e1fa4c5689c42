"""Axes to draw on, and lines that differ in more than their colour."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

STYLES = ("-", "--", "-.", ":")
MARKERS = "os^Dv<>Xph"


def given_or_new(ax: Axes | None, width: float, height: float, projection: str | None = None) -> Axes:
    """The axes that were given, or new ones in a figure of this size (inches)."""
    if ax is not None:
        return ax
    figure = plt.figure(figsize=(width, height), layout="constrained")
    return figure.add_subplot(projection=projection)


def line(number: int) -> dict[str, Any]:
    """Colour and style of the n-th line: neighbours can be told apart in grey."""
    return {"color": f"C{number % 10}", "ls": STYLES[number % len(STYLES)]}


def legend_beside(axes: Axes) -> None:
    """A legend to the right, where it hides nothing."""
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
