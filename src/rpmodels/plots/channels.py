"""Channels of a population: how each depends on the latents, and what they are expected to show."""

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from rpmodels import errors
from rpmodels.plots import fitted
from rpmodels.plots.canvas import given_or_new, legend_beside, line
from rpmodels.plots.channel_images import channel_image, observed

SHOWN = 6
"""Tuning curves, where none are named."""


def tuning(
    model: Any, factor: str | None = None, channels: Sequence[int] | int = SHOWN, *, ax: Axes | None = None
) -> Axes:
    """E[x | u] of channels of a population, each along its own projection u of the latents, those that say most first.

    Args:
        model: a fitted estimator that has `tuning`
        factor: the population; None where there is one only
        channels: which of them, or so many of those that say most about their projection
        ax: where to draw

    """
    found = _asked(model, "tuning")(factor)
    order = np.argsort(-found.precision, kind="stable")
    size = len(order)
    if isinstance(channels, int | np.integer):
        if channels < 1:
            raise errors.bad_value("channels", "a number > 0, or some of them", channels)
        shown = order[:channels].tolist()
    else:
        shown = [int(each) for each in channels]
        if not shown or not all(0 <= each < size for each in shown):
            raise errors.bad_value("channels", f"some from 0 to {size - 1}", list(channels))
        shown.sort(key=order.tolist().index)
    axes = given_or_new(ax, 6, 3)
    for number, channel in enumerate(shown):
        label = f"channel {channel} ({found.precision[channel]:.2f} nats)"
        axes.plot(found.u, found.expected[channel], lw=1.5, label=label, **line(number))
    axes.set(xlabel="projection u of the latents (sd of the prior)", ylabel="expected observation")
    legend_beside(axes)
    return axes


def rates(
    model: Any, X: Any, trial: int = 0, factor: str | None = None, *, ax: Axes | None = None, **options: Any
) -> Axes:
    """What the channels of a population showed in one trial, and beside it what they were expected to show.

    Args:
        model: a fitted estimator of trials over time that has `rates`
        X: data, as `transform` takes them
        trial: which of them
        factor: the population; None where there is one only
        ax: where to draw what is expected, alone; by default a new figure has both, and its second Axes is returned
        options: as in `transform` (times, presence)

    """
    expected, name = _asked(model, "rates")(X, factor, **options), _name(model, factor)
    if not model.description.in_time:
        raise errors.bad_value("model", "one of trials over time", "one without: model.rates(X) has its rates")
    if not isinstance(expected, list) and np.ndim(expected) == 2:
        raise errors.bad_value("X", "trials", "one long recording: pass a piece of it as one trial, X[None]")
    clock, seen, _ = observed(model, X, trial, name, options)
    denoised = np.asarray(expected[trial], float)[: len(clock)]
    if ax is not None:
        channel_image(ax, clock, denoised, "expected", "viridis")
        return ax
    figure = plt.figure(figsize=(9, 3.2), layout="constrained")
    left = figure.add_subplot(1, 2, 1)
    right = figure.add_subplot(1, 2, 2, sharey=left)
    for axes, values, title, colours in ((left, seen, "observed", "Greys"), (right, denoised, "expected", "viridis")):
        figure.colorbar(channel_image(axes, clock, values, title, colours), ax=axes, pad=0.02)
    right.set_ylabel("")
    return right


def _asked(model: Any, verb: str) -> Any:
    """A verb of estimators that may have populations."""
    if not hasattr(model, verb):
        raise errors.without_channels(verb, type(model).__name__)
    return getattr(model, verb)


def _name(model: Any, factor: str | None) -> str:
    return next(iter(fitted.populations(model))) if factor is None else str(factor)
