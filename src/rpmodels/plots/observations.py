"""What was observed."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from rpmodels.plots.canvas import given_or_new


def trial_image(x: NDArray[Any], times: NDArray[Any], ax: Axes | None = None) -> Axes:
    """The observations (T, D) of one trial: time to the right, dimensions upwards."""
    axes = given_or_new(ax, 6, 2)
    values = np.asarray(x, float)
    # A few extreme values (the textured ball has some) would leave the rest in one shade.
    low, high = np.nanquantile(values, [0.01, 0.99])
    grid = (times, np.arange(values.shape[1]), values.T)
    axes.pcolormesh(*grid, shading="nearest", cmap="Greys_r", vmin=low, vmax=high, rasterized=True)
    axes.set(xlabel="time", ylabel="dimension")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return axes
