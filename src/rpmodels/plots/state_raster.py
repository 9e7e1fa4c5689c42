"""States over time, a row for every trial."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.plots.averages import aligned, shared_clock
from rpmodels.plots.canvas import given_or_new, legend_beside, state_ink
from rpmodels.plots.conditions import read_conditions
from rpmodels.plots.found import Found, found_latents

NOWHERE = "0.93"
"""Where a trial is not."""


def states(
    found: Any,
    X: Any = None,
    conditions: Any = None,
    *,
    latent: str | None = None,
    order: Sequence[Any] | None = None,
    times: Any = None,
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """The most probable state of every trial at every time: trials are rows, in the order of their conditions.

    Args:
        found: a fitted estimator, or what its `latents` returned; its latents have states along time
        X: data, where an estimator was given
        conditions: as in `plots.latents`; many different numbers sort the trials
        latent: which one, where there are several with names; default the first
        order: names of the conditions that are drawn, from above
        times: as in `plots.latents`
        ax: where to draw
        options: beside X, as in `latents` (presence)

    """
    each = found_latents("plots.states", found, X, times, options, conditions).states
    if not each.shares or each.times is None:
        raise errors.no_states("plots.states", f"{each.names[0]}, …" if each.times is not None else "none over time")
    names = _states_of(each, latent)
    groups = read_conditions(conditions, len(each), X, order)
    members = list(groups.members)
    if groups.scale is not None:  # NaN comes last
        members = [np.argsort(groups.scale)[: np.isfinite(groups.scale).sum()]]
    rows = np.concatenate(members)
    clocks = [each.times[n] for n in rows]
    clock = shared_clock(clocks)
    table = aligned([_probable(each.values[n][:, list(names)]) for n in rows], clocks, clock)[..., 0]
    axes = given_or_new(ax, 6, max(1.6, min(5.0, 0.9 + 0.12 * len(rows))))
    colours = ListedColormap([state_ink(k) for k in range(len(names))])
    bounds = BoundaryNorm(np.arange(len(names) + 1) - 0.5, len(names))
    grid = (clock, np.arange(len(rows)), np.ma.masked_invalid(np.round(table)))
    axes.pcolormesh(*grid, shading="nearest", cmap=colours, norm=bounds, rasterized=True)
    axes.set_facecolor(NOWHERE)
    axes.set(xlabel="time", ylabel="trial", ylim=(len(rows) - 0.5, -0.5))
    _divide(axes, [len(each) for each in members], list(groups.names))
    legend_beside(axes, [Patch(color=colours(k), label=names[column]) for k, column in enumerate(names)])
    return axes


def _states_of(each: Found, latent: str | None) -> dict[int, str]:
    """The columns of one latent, and what its states are called."""
    owners = {k: name.split(" = ")[0] if " = " in name else "" for k, name in enumerate(each.names)}
    known = list(dict.fromkeys(owners.values()))
    chosen = known[0] if latent is None else latent
    if chosen not in known or (latent is not None and known == [""]):
        raise errors.bad_choice("latent", [name for name in known if name] or ["None"], latent)
    return {k: each.names[k] for k, owner in owners.items() if owner == chosen}


def _probable(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, 1); NaN where nothing is known."""
    known: Any = np.isfinite(probabilities).all(1)
    return np.where(known, np.where(known[:, None], probabilities, 0.0).argmax(1), np.nan)[:, None]


def _divide(axes: Axes, sizes: Sequence[int], names: list[Any]) -> None:
    """Lines between conditions, whose names stand in their middle."""
    ends = np.cumsum(sizes)
    if len(names) < 2:
        axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        return
    for end in ends[:-1]:
        axes.axhline(end - 0.5, color="k", lw=0.8)
    axes.set_yticks(ends - np.array(sizes) / 2 - 0.5, [str(name) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel("")
