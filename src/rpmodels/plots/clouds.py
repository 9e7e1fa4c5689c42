"""Where the latents are: paths over time with their bands, and clouds coloured by what else is known."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.plots.canvas import MARKERS, given_or_new, ink, legend_beside

GROUPS = 10
"""As many whole numbers, at most, are groups with a legend; more are a scale with a colour bar."""


# ---- over time ---------------------------------------------------------------------------------


def trajectories(
    posterior: Any,
    variance: Any = None,
    *,
    times: Any = None,
    truth: Any = None,
    trial: int = 0,
    latents: Sequence[int] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Posterior mean ± 2 sd of one trial's latents over time, with the truth dashed where it is known.

    Args:
        posterior: what `latents(X)` or `posterior(X)` returned, or the means themselves: (N, T, K), a list of (T_n, K),
            (T, K) or (T,)
        variance: in the form of the means, where these were given
        times: (T,); default those of the posterior, else 0, 1, 2, …
        truth: in the form of the means, or that of one trial
        trial: which one
        latents: which of them; default all
        ax: where to draw

    """
    mean, spread = _unpacked(posterior)
    spread = variance if spread is None else spread
    times = getattr(posterior, "times", None) if times is None else times
    if mean is not posterior and times is None:
        raise errors.needs_times("trajectories")
    if mean is not posterior and spread is None:
        raise errors.needs_variances("trajectories", "this model")
    if spread is None:
        raise errors.bad_value("variance", "one for every mean", None)
    middle = _one_trial(mean, trial)
    sd = np.sqrt(_one_trial(spread, trial))
    true = None if truth is None else _one_trial(truth, trial)
    clock = np.arange(len(middle)) if times is None else _one_clock(times, trial)
    shown = list(range(middle.shape[1]) if latents is None else latents)
    axes = given_or_new(ax, 6, 2.4)
    _bands(axes, clock, middle[:, shown], sd[:, shown], None if true is None else true[:, shown], shown)
    return axes


def _unpacked(found: Any) -> tuple[Any, Any]:
    """Means and variances of what a model returned; numbers as they are, without any."""
    if hasattr(found, "covariance"):
        return found.mean, found.variance
    return (found.values, found.spread) if hasattr(found, "spread") else (found, None)


def latent_recovery(
    times: NDArray[Any], mean: NDArray[Any], sd: NDArray[Any], truth: NDArray[Any], ax: Axes | None = None
) -> Axes:
    """Posterior mean ± 2 sd of one trial, each (T,) or (T, D), with the truth dashed."""
    axes = given_or_new(ax, 6, 2.4)
    middle, spread, true = (np.asarray(values, float).reshape(len(times), -1) for values in (mean, sd, truth))
    _bands(axes, times, middle, spread, true)
    return axes


def _bands(
    axes: Axes,
    times: NDArray[Any],
    mean: NDArray[Any],
    sd: NDArray[Any],
    truth: NDArray[Any] | None,
    names: Sequence[int] | None = None,
) -> None:
    """Dimensions differ in colour; the last of them speaks for all in the legend, where they have no names."""
    several = names is not None and len(names) > 1
    for d, (middle, spread) in enumerate(zip(mean.T, sd.T, strict=True)):
        colour, last = ink(d), d == mean.shape[1] - 1
        label = f"latent {names[d]}" if names is not None and several else "posterior mean" if last else None
        low, high = middle - 2 * spread, middle + 2 * spread
        axes.plot(times, middle, color=colour, lw=1.5, label=label)
        axes.fill_between(times, low, high, color=colour, alpha=0.25, lw=0, label="± 2 sd" if last else None)
        if truth is not None:
            darker = tuple(0.4 * channel for channel in to_rgb(colour))
            axes.plot(times, truth[:, d], color=darker, ls="--", lw=1.0, label="truth" if last else None)
    axes.set(xlabel="time", ylabel="latent" if names is None or several else f"latent {names[0]}")
    legend_beside(axes)


def _one_trial(values: Any, trial: int) -> NDArray[np.float64]:
    """(T, K) of one trial; one array with two axes or fewer is one trial already."""
    array = None if isinstance(values, list | tuple) else np.asarray(values, float)
    one = np.asarray(values[trial], float) if array is None or array.ndim > 2 else array
    return one.reshape(len(one), -1)


def _one_clock(times: Any, trial: int) -> NDArray[np.float64]:
    whole = np.ndim(times[0]) == 0
    return np.asarray(times if whole else times[trial], float)


# ---- clouds ------------------------------------------------------------------------------------


def latents_2d(
    latents: Any, colour: Any = None, *, label: str = "", dimensions: Sequence[int] = (0, 1), ax: Axes | None = None
) -> Axes:
    """Two of the latents against each other, coloured by a covariate.

    Args:
        latents: (…, K), a list of (T_n, K), or what `latents(X)` or `posterior(X)` returned
        colour: one value for every point, in the same form: numbers get a colour bar, words and few whole numbers
            a legend
        label: what the covariate is, with its unit
        dimensions: which two latents
        ax: where to draw

    """
    axes = given_or_new(ax, 4.6, 3.8)
    _cloud(axes, latents, colour, label, _checked(dimensions, 2))
    return axes


def latents_3d(
    latents: Any, colour: Any = None, *, label: str = "", dimensions: Sequence[int] = (0, 1, 2), ax: Axes | None = None
) -> Axes:
    """Three of the latents in space, coloured by a covariate; arguments as in `latents_2d`, `ax` a 3-D one."""
    if ax is not None and ax.name != "3d":
        raise errors.bad_value("ax", 'axes made with projection="3d"', f'"{ax.name}" ones')
    axes = given_or_new(ax, 5.4, 4.4, "3d")
    _cloud(axes, latents, colour, label, _checked(dimensions, 3))
    # Beside a colour bar matplotlib leaves the third label out of the figure otherwise.
    cast(Any, axes).set_box_aspect(None, zoom=0.85)
    return axes


def _checked(dimensions: Sequence[int], count: int) -> list[int]:
    if len(dimensions) != count:
        raise errors.bad_value("dimensions", f"{count} of them", len(dimensions))
    return list(dimensions)


def _cloud(axes: Any, latents: Any, colour: Any, label: str, dimensions: list[int]) -> None:
    points = _joined(_unpacked(latents)[0])
    if not 0 <= min(dimensions) <= max(dimensions) < points.shape[1]:
        raise errors.bad_value("dimensions", f"latents from 0 to {points.shape[1] - 1}", dimensions)
    places = points[:, dimensions].T
    for axis, dimension in zip("xyz", dimensions, strict=False):
        getattr(axes, f"set_{axis}label")(f"latent {dimension}")
        if len(dimensions) == 3:  # more ticks would run into each other
            getattr(axes, f"{axis}axis").set_major_locator(MaxNLocator(5))
    if colour is None:
        axes.scatter(*places, s=10, color=ink(0), lw=0)
        return
    values = _joined(colour, whole=True)
    if len(values) != len(points):
        raise errors.bad_value("colour", f"{len(points)} values, one for every point", len(values))
    groups = None if values.dtype.kind == "f" else np.unique(values)
    if groups is None or (values.dtype.kind in "iu" and len(groups) > GROUPS):
        drawn = axes.scatter(*places, s=10, c=values, cmap="viridis", lw=0)
        room = {"shrink": 0.7, "pad": 0.12} if len(dimensions) == 3 else {}
        axes.figure.colorbar(drawn, ax=axes, label=label, **room)
        return
    for number, group in enumerate(groups):
        look = {"color": ink(number), "marker": MARKERS[number % len(MARKERS)], "lw": 0, "s": 14}
        axes.scatter(*places[:, values == group], label=str(group), **look)
    legend_beside(axes)
    axes.get_legend().set_title(label)


def _joined(values: Any, whole: bool = False) -> NDArray[Any]:
    """Trials one after the other: rows (n, K), or with `whole` one number or word per point (n,)."""
    parts = [np.asarray(each) for each in values] if isinstance(values, list | tuple) else [np.asarray(values)]
    if whole:
        return np.concatenate([part.reshape(-1) for part in parts])
    return np.concatenate([part.reshape(-1, part.shape[-1]) for part in parts])
