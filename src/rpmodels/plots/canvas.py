"""Axes to draw on, and lines that differ in more than their colour."""

from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

STYLES = ("-", "--", "-.", ":")
MARKERS = "os^Dv<>Xph"


def given_or_new(ax: Axes | None, width: float, height: float, projection: str | None = None) -> Axes:
    """The axes that were given, or new ones in a figure of this size (inches)."""
    if ax is not None:
        return ax
    figure = plt.figure(figsize=(width, height), layout="constrained")
    return figure.add_subplot(projection=projection)


def ink(number: int) -> str:
    """The n-th of the colours in use now: lines would ask for theirs when they are saved, after `style()` has ended."""
    return to_hex(f"C{number % 10}")


def state_ink(number: int) -> str:
    """Of a state: counted from the last colour, so that none is taken for a condition."""
    return ink(9 - number % 10)


def line(number: int) -> dict[str, Any]:
    """Colour and style of the n-th line: neighbours can be told apart in grey."""
    return {"color": ink(number), "ls": STYLES[number % len(STYLES)]}


def legend_beside(axes: Axes, handles: list[Any] | None = None) -> None:
    """A legend to the right, where it hides nothing; of everything that has a label, or of these."""
    these: dict[str, Any] = {} if handles is None else {"handles": handles}
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0), **these)
