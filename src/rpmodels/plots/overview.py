"""What a model found, on one figure as wide as a page."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from rpmodels.plots import fitted
from rpmodels.plots.by_condition import latents
from rpmodels.plots.channel_images import raster, trial_latents
from rpmodels.plots.channels import tuning
from rpmodels.plots.diagnostics import mixture_against_prior
from rpmodels.plots.factors import factors_and_posterior
from rpmodels.plots.found import Found, found_latents
from rpmodels.plots.state_raster import states
from rpmodels.plots.style import style
from rpmodels.plots.training import learning_curve, score_ceiling

WIDTH, ROW = 7.2, 2.0
"""Of a page, and of a row of it (inches)."""
PANELS = 6
LETTERS = 26
"""Of a label, before its line ends."""
BY_CONDITION = ("latents", "more latents", "plane")
"""Panels whose legend is that of the conditions."""


@dataclass(frozen=True)
class Panel:
    """One part of the figure."""

    name: str
    draw: Callable[[Axes], Any]


def overview(
    model: Any,
    X: Any,
    conditions: Any = None,
    *,
    trial: int = 0,
    events: Any = None,
    order: Sequence[Any] | None = None,
    label: str = "condition",
    **options: Any,
) -> dict[str, Axes]:
    """One trial with what was found of it, latents by condition, and how the fit went: a figure as wide as a page.

    Which panels there are (six at most) follows from what the model finds: coordinates, states, angles, over time or
    not, and populations with their tuning. The figure has the look of `plots.style()`.

    Args:
        model: a fitted estimator
        X: data, as `latents` takes them
        conditions: as in `plots.latents`
        trial: which trial, or observation, is shown by itself
        events: as in `plots.latents`
        order: as in `plots.latents`
        label: what conditions are called
        options: beside X, as in `latents` (times, inputs, presence)

    Returns:
        {name of the panel: its Axes}; `.figure` of any of them is the figure

    """
    shown = model.latents(X, **options)
    found = found_latents("plots.overview", shown, None, None, {})
    # Conditions may be a factor of X.
    named = {"X": X if conditions is not None else None, "conditions": conditions}
    by = _By(shown, {**named, "order": order, "label": label}, events)
    with style():
        panels = _panels(model, X, trial, found, options, by)[:PANELS]
        names: list[Any] = [each.name for each in panels]
        columns = (len(panels) + 1) // 2
        lower = [names[min(2 * column + 1, len(names) - 1)] for column in range(columns)]
        figure = plt.figure(figsize=(WIDTH, 2 * ROW if len(panels) > 1 else ROW), layout="constrained")
        axes = figure.subplot_mosaic([names[::2], lower])
        for letter, each in zip("abcdef", panels, strict=False):
            each.draw(axes[each.name])
            _tidied(axes[each.name], letter)
        if "trial" in axes:
            axes["trial"].set_xlim(axes["data"].get_xlim())
        _one_legend(figure, axes, label)
    return axes


@dataclass(frozen=True)
class _By:
    """Latents by condition, found once, however they are drawn."""

    shown: Any
    common: dict[str, Any]
    events: Any

    def paths(self, dimensions: Any, in_time: bool) -> Callable[[Axes], Any]:
        """Lines, points or bars."""
        events = self.events if in_time else None
        return lambda ax: latents(self.shown, dimensions=dimensions, events=events, ax=ax, **self.common)

    def states(self, ax: Axes) -> Any:
        """Rows of states."""
        return states(self.shown, self.common["X"], self.common["conditions"], order=self.common["order"], ax=ax)


def _panels(model: Any, X: Any, trial: int, found: Found, options: dict[str, Any], by: _By) -> list[Panel]:
    """Those that this model can have, the most telling first."""
    in_time, count = found.times is not None, len(found.names)
    panels = _of_one_trial(model, X, trial, options)
    if found.shares and in_time:
        panels += [Panel("states", by.states), Panel("latents", by.paths(None, True))]
    elif found.shares:
        panels += [Panel("latents", by.paths(None, False))]
    elif found.round:
        panels += [Panel("plane", by.paths((0, 1), in_time))]
    else:
        panels += [Panel("latents", by.paths(0, in_time))]
        panels += [Panel("more latents", by.paths(1, in_time)), Panel("plane", by.paths((0, 1), in_time))] * (count > 1)
    populations = fitted.populations(model)
    if populations:
        panels += [Panel("tuning", lambda ax: tuning(model, populations[0], 5, ax=ax))]
    elif in_time and fitted.is_drawable(model):
        name = model.model_.names[0]
        panels += [Panel("mixture", lambda ax: mixture_against_prior(model, name, ax=ax))]
    panels += [Panel("learning", lambda ax: learning_curve(model, ax=ax))]
    return panels if len(panels) > 2 else [*panels, Panel("score", lambda ax: score_ceiling(model, ax=ax))]


def _of_one_trial(model: Any, X: Any, trial: int, options: dict[str, Any]) -> list[Panel]:
    about = model.description
    if about.in_time and any(not spec.is_label for spec in model.model_.specs.values()):
        return [
            Panel("data", lambda ax: raster(model, X, trial, ax=ax, **options)),
            Panel("trial", lambda ax: trial_latents(model, X, trial, ax=ax, **options)),
        ]
    if not fitted.is_drawable(model):
        return []
    name = model.model_.names[0]
    return [
        Panel("factors", lambda ax: factors_and_posterior(model, X, trial, ax=ax, **options)),
        Panel("mixture", lambda ax: mixture_against_prior(model, name, ax=ax)),
    ]


def _tidied(axes: Axes, letter: str) -> None:
    """A letter in the place of a title, and labels that fit a small panel."""
    axes.set_title("")
    axes.set_title(letter, loc="left", fontweight="bold")
    axes.set_xlabel(fill(axes.get_xlabel(), LETTERS))
    axes.set_ylabel(fill(axes.get_ylabel(), LETTERS))


def _one_legend(figure: Any, axes: dict[str, Axes], label: str) -> None:
    """Conditions are explained once, beneath the panels; other legends go inside of theirs."""
    handles: dict[str, Any] = {}
    of_states: dict[str, Any] = {}
    for name, each in axes.items():
        legend = each.get_legend()
        if legend is None:
            continue
        own = dict(zip((text.get_text() for text in legend.get_texts()), legend.legend_handles, strict=True))
        legend.remove()
        if name in BY_CONDITION:
            handles |= {text: handle for text, handle in own.items() if text not in handles}
        elif name == "states":
            of_states = own
        else:
            each.legend(handles=list(own.values()), labels=list(own), loc="best", fontsize=5, handlelength=1.2)
    for side, these, title in (("left" if of_states else "center", handles, label), ("right", of_states, "state")):
        if these:
            place = {"loc": f"outside lower {side}", "ncols": min(len(these), 6), "title": title}
            figure.legend(handles=list(these.values()), labels=list(these), **place)
