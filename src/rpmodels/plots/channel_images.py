"""What was observed channel by channel, with what was found of it beneath."""

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.plots.canvas import state_ink
from rpmodels.plots.clouds import trajectories
from rpmodels.plots.found import found_latents

GAP = "#d6e6f2"


def raster(
    model: Any, X: Any, trial: int = 0, factor: str | None = None, *, ax: Axes | None = None, **options: Any
) -> Axes:
    """The channels of one trial over time, and beneath them its latents: a line with its band each, or probabilities.

    Args:
        model: a fitted estimator of trials over time
        X: data, as `latents` takes them
        trial: which of them
        factor: whose channels; default the first that has numbers
        ax: where to draw the channels, alone; by default a new figure has both, and the first of its Axes is returned
        options: as in `latents` (times, presence)

    """
    clock, seen, name = observed(model, X, trial, factor, options)
    if ax is not None:
        channel_image(ax, clock, seen, name, "Greys")
        return ax
    figure = plt.figure(figsize=(6, 4.2), layout="constrained")
    above, beneath = figure.subplots(2, 1, sharex=True, height_ratios=(1.4, 1))
    channel_image(above, clock, seen, name, "Greys")
    above.set_xlabel("")
    trial_latents(model, X, trial, ax=beneath, **options)
    first: Axes = above
    return first


def trial_latents(model: Any, X: Any, trial: int, *, ax: Axes, **options: Any) -> Axes:
    """Latents of one trial: coordinates with their bands, probabilities on top of each other."""
    each = found_latents("plots.raster", model, X, None, options)
    assert each.times is not None  # models over time alone have rasters
    values, clock = each.values[trial], each.times[trial]
    if each.spread is not None:
        return trajectories(values, each.spread[trial], times=clock, ax=ax)
    if not each.shares or not np.allclose(values.sum(1), 1, atol=1e-3):  # those of several latents
        ax.plot(clock, values, label=each.names)
        ax.set(xlabel="time", ylabel="probability" if each.shares else "latent")
        return ax
    colours = [state_ink(k) for k in range(values.shape[1])]
    ax.stackplot(clock, values.T, labels=each.names, colors=colours, lw=0)
    ax.set(xlabel="time", ylabel="probability", ylim=(0, 1), xlim=(clock[0], clock[-1]))
    return ax


def observed(
    model: Any, X: Any, trial: int, factor: str | None, options: dict[str, Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """Times (T,) and channels (T, C) of one trial, NaN where it was not seen, and the name of the factor."""
    if not model.description.in_time:
        raise errors.needs_times("plots.raster")
    every = model.read(X, **options)
    if not 0 <= trial < len(every):
        raise errors.bad_value("trial", f"one from 0 to {len(every) - 1}", trial)
    specs = model.model_.specs
    numbers = [name for name, spec in specs.items() if not spec.is_label and name in every.values]
    if factor is not None and factor not in numbers:
        raise errors.unknown_factor(str(factor), numbers)
    if not numbers:
        raise errors.no_rows_to_draw(list(specs))
    name = numbers[0] if factor is None else str(factor)
    exists = every.exists[trial]
    seen = np.array(every.values[name][trial], float)[exists]
    seen = seen.reshape(len(seen), -1)
    there = np.asarray(every.present[name][trial])[exists]
    seen[~there] = np.nan
    return np.asarray(every.times[trial], float)[exists], seen, name


def channel_image(axes: Axes, times: NDArray[Any], values: NDArray[Any], title: str, colours: str) -> Any:
    """Time to the right, channels upwards; a few extreme values do not set the scale, and gaps are light blue."""
    low, high = np.nanquantile(values, [0.005, 0.995]) if np.isfinite(values).any() else (0.0, 1.0)
    grid = (times, np.arange(values.shape[1]), values.T)
    image = axes.pcolormesh(
        *grid, shading="nearest", cmap=colours, vmin=low, vmax=max(high, low + 1e-12), rasterized=True
    )
    axes.set_facecolor(GAP)
    axes.set(xlabel="time", ylabel="channel")
    axes.set_title(title, fontsize="medium")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return image
