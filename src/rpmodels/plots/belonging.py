"""Data beside those of a fit: which channels and trials do not belong."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rpmodels import errors
from rpmodels.plots.canvas import given_or_new, ink, legend_beside

ODD, PLAIN = 3, 0
"""Of the colours."""
NAMED = 8
"""Odd places that have their number beside them."""


def belonging(overview: Any, of: str = "channels", ax: Axes | None = None) -> Axes:
    """Channels or trials of one factor on the scale of the fit, those that do not belong in red with their numbers.

    Of channels the mean, with a bar of its sd, where those of the fit go from −1 to 1; of trials the mean, and the band
    in which nearly all trials of the fit are.

    Args:
        overview: of one factor, as `rp.evaluation.overviews` gives it
        of: "channels" or "trials"
        ax: where to draw; a new figure by default

    """
    axes = given_or_new(ax, 7.0, 2.6)
    if of == "channels":
        axes.axhspan(-1.0, 1.0, color="0.9", label="mean ± sd of the fit")
        _points(axes, np.arange(len(overview.means)), overview.means, overview.channels, "channel", overview.spreads)
    elif of == "trials":
        axes.axhspan(*overview.usual, color="0.9", label="trials of the fit (± 2 sd)")
        _points(axes, np.arange(len(overview.levels)), overview.levels, overview.trials, "trial", None)
    else:
        raise errors.bad_choice("of", ("channels", "trials"), of)
    axes.set(xlabel=of.removesuffix("s"), ylabel="sd of the fit", title=f"factor {overview.factor}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(y=0.15)
    legend_beside(axes)
    return axes


def _points(axes: Axes, places: Any, values: Any, odd: Any, what: str, bars: Any) -> None:
    """Odd ones in another colour and form."""
    apart = np.isin(places, list(odd))
    for chosen, colour, marker, label in (
        (~apart, PLAIN, "o", what),
        (apart, ODD, "D", f"{what} that does not belong"),
    ):
        if chosen.any():
            spread = None if bars is None else bars[chosen]
            look: dict[str, Any] = {"fmt": marker, "color": ink(colour), "ms": 4 if marker == "o" else 6, "lw": 1.2}
            axes.errorbar(places[chosen], values[chosen], yerr=spread, label=label, **look)
    for place in list(odd)[:NAMED]:
        offset: dict[str, Any] = {"textcoords": "offset points", "xytext": (5, 5), "fontsize": "small"}
        axes.annotate(str(place), (place, values[place]), color=ink(ODD), **offset)
