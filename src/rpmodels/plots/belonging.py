"""Data beside those of a fit: which channels and trials do not belong."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rpmodels.plots.canvas import legend_beside

ODD, PLAIN = "C3", "C0"
NAMED = 8
"""Odd places that have their number beside them."""


def belonging(overview: Any) -> Axes:
    """Channels and trials of one factor on the scale of the fit, those that do not belong in red with their numbers.

    Above every channel's mean with a bar of its sd, where those of the fit go from −1 to 1; below every trial's mean,
    and the band in which nearly all trials of the fit are. The lower Axes is returned.

    Args:
        overview: of one factor, as `rp.evaluation.overviews` gives it

    """
    figure = plt.figure(figsize=(7, 4.6), layout="constrained")
    above, below = figure.add_subplot(2, 1, 1), figure.add_subplot(2, 1, 2)
    places = np.arange(len(overview.means))
    above.axhspan(-1.0, 1.0, color="0.9", label="mean ± sd of the fit")
    _points(above, places, overview.means, overview.channels, "channel", overview.spreads)
    above.set(xlabel="channel", ylabel="sd of the fit", title=f"factor {overview.factor}")
    below.axhspan(*overview.usual, color="0.9", label="trials of the fit (± 2 sd)")
    _points(below, np.arange(len(overview.levels)), overview.levels, overview.trials, "trial", None)
    below.set(xlabel="trial", ylabel="mean (sd of the fit)")
    for axes in (above, below):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(y=0.15)
        legend_beside(axes)
    return below


def _points(axes: Axes, places: Any, values: Any, odd: Any, what: str, bars: Any) -> None:
    """Odd ones in another colour and form."""
    apart = np.isin(places, list(odd))
    for chosen, colour, marker, label in (
        (~apart, PLAIN, "o", what),
        (apart, ODD, "D", f"{what} that does not belong"),
    ):
        if chosen.any():
            spread = None if bars is None else bars[chosen]
            look: dict[str, Any] = {"fmt": marker, "color": colour, "ms": 4 if marker == "o" else 6, "lw": 1.2}
            axes.errorbar(places[chosen], values[chosen], yerr=spread, label=label, **look)
    for place in list(odd)[:NAMED]:
        offset: dict[str, Any] = {"textcoords": "offset points", "xytext": (5, 5), "fontsize": "small", "color": ODD}
        axes.annotate(str(place), (place, values[place]), **offset)
