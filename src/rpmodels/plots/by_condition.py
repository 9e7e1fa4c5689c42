"""Latents by condition: thin lines of trials, averages with bands, against time, in the plane or in space."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rpmodels import errors
from rpmodels.plots.averages import BANDS, average, most_different
from rpmodels.plots.canvas import given_or_new
from rpmodels.plots.conditions import Conditions, read_conditions
from rpmodels.plots.event_marks import mark_events, read_events
from rpmodels.plots.found import Found, found_latents
from rpmodels.plots.point_groups import draw_bars, draw_points
from rpmodels.plots.strokes import Strokes

SIZES = {1: (5.4, 3.0), 2: (4.8, 3.8), 3: (5.4, 4.4)}
"""Of new figures, by how many dimensions are drawn."""


def latents(
    found: Any,
    X: Any = None,
    conditions: Any = None,
    *,
    dimensions: int | Sequence[int] | None = None,
    order: Sequence[Any] | None = None,
    trials: bool = True,
    averages: bool = True,
    band: str = "se",
    events: Mapping[str, Any] | None = None,
    times: Any = None,
    label: str = "condition",
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """Latents by condition: a colour for each, thin lines of its trials, and its average with a band.

    Averages are drawn where at least half of the trials of a condition are. Trials whose clocks are not on one grid are
    averaged along straight lines between their times. In the plane and in space a dot is where an average begins.
    Latents without time are points with their mean; probabilities and proportions without time are bars; angles are
    points in a disc, the nearer to its edge the more certain.

    Args:
        found: a fitted estimator, what its `latents` or `posterior` returned, or values: (N, T, K) or a list of
            (T_n, K), which are trials over time; (N, K), which are points, or one trial where there are `times`
        X: data, where an estimator was given
        conditions: one for every trial, words or numbers (None or NaN where it has none: it is left out), the name of
            a factor that has one for every trial, or {name: its trials}. Many different numbers are a scale with a
            colour bar and have no averages
        dimensions: which latents: one against time, two in the plane, three in space. By default the first two, and
            of states the one whose probability differs most between conditions
        order: names of the conditions that are drawn, in this order
        trials: whether trials have lines
        averages: whether conditions have averages
        band: around averages against time: "se" (± standard error), "sd" (± sd of trials), "posterior" (± 2 sd of the
            average by what the model says of every trial), "none"
        events: {name: when}, one time or one for every trial (NaN where it did not happen)
        times: of values without a clock; of an estimator as in `latents`
        label: what conditions are called in the legend
        ax: where to draw, made with projection="3d" for three dimensions
        options: beside X, as in `latents` (inputs, presence)

    """
    if band not in BANDS:
        raise errors.bad_choice("band", BANDS, band)
    each = found_latents("plots.latents", found, X, times, options, conditions)
    if band == "posterior" and each.spread is None:
        raise errors.needs_variances("band='posterior'", "what was given")
    groups = read_conditions(conditions, len(each), X, order)
    marks = read_events(events, each)
    if each.times is None and each.shares and dimensions is None and groups.scale is None:
        return draw_bars(given_or_new(ax, *SIZES[1]), each, groups, "none" if not averages else band, label)
    shown = _dimensions(each, groups, dimensions)
    axes = _axes(ax, len(shown))
    strokes = Strokes(axes, groups, each.times is not None and len(shown) == 1, label)
    if each.times is None:
        draw_points(strokes, each, shown, (trials, averages), band)
    else:
        _draw_paths(strokes, each, shown, (trials, averages), band)
        mark_events(strokes, each, shown, marks, (trials, averages))
    aside = "time" if strokes.over_time else label if groups.names != ("",) else ""
    _name_axes(axes, each, shown, aside)
    strokes.explain()
    return axes


def _axes(ax: Axes | None, count: int) -> Axes:
    if ax is not None and (ax.name == "3d") != (count == 3):
        expected = 'axes made with projection="3d"' if count == 3 else f"plain axes for {count} dimension(s)"
        raise errors.bad_value("ax", expected, f'"{ax.name}" ones')
    return given_or_new(ax, *SIZES[count], "3d" if count == 3 else None)


def _dimensions(each: Found, groups: Conditions, asked: int | Sequence[int] | None) -> list[int]:
    """Those that were asked for, else those that say most at a glance."""
    count = len(each.names)
    if asked is None:
        if each.shares:
            return [most_different(each, groups.members or (np.arange(len(each)),))]
        return list(range(min(count, 2)))
    shown = [int(asked)] if isinstance(asked, int | np.integer) else [int(each) for each in asked]
    if not 1 <= len(shown) <= 3 or not all(0 <= k < count for k in shown):
        raise errors.bad_value("dimensions", f"one to three of 0 to {count - 1}", asked)
    return shown


def _draw_paths(strokes: Strokes, each: Found, shown: list[int], what: tuple[bool, bool], band: str) -> None:
    trials, averages = what
    assert each.times is not None  # of paths there are
    for trial, look in strokes.trials() if trials or strokes.groups.scale is not None else ():
        strokes.line(each.times[trial], each.values[trial][:, shown], **look)
    for members, look in strokes.averages() if averages else ():
        path = average(each, members, band)
        middle = path.mean[:, shown]
        strokes.line(path.times, middle, **look)
        if strokes.over_time and path.band is not None:
            half = path.band[:, shown[0]]
            around = {"color": look["color"], "alpha": 0.25, "lw": 0}
            strokes.axes.fill_between(path.times, middle[:, 0] - half, middle[:, 0] + half, **around)
        elif not strokes.over_time:
            begun = np.flatnonzero(np.isfinite(middle).all(1))[:1]
            strokes.points(middle[begun], s=22, color=look["color"], lw=0, zorder=5)


def _name_axes(axes: Any, each: Found, shown: list[int], aside: str) -> None:
    """One latent alone is upwards."""
    names = [f"P({each.names[k]})" if each.shares else each.names[k] for k in shown]
    for axis, name in zip("xyz", [aside, *names] if len(shown) == 1 else names, strict=False):
        getattr(axes, f"set_{axis}label")(name)
        if len(shown) == 3:  # more ticks would run into each other
            getattr(axes, f"{axis}axis").set_major_locator(MaxNLocator(4))
    if len(shown) == 3:
        # Beside a legend matplotlib leaves the third label out of the figure otherwise.
        axes.set_box_aspect(None, zoom=0.85)
    if each.round and len(shown) == 2:
        around = np.linspace(-np.pi, np.pi, 181)
        axes.plot(np.cos(around), np.sin(around), color="0.8", lw=0.8, zorder=0)
        axes.set_aspect("equal")
