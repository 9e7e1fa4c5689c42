"""Plots that return Axes and never call show. numpy in."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

TERMS = ("free_energy", "prior", "recognition", "mixture")


def learning_curve(history: Mapping[str, NDArray[Any]], ceiling: float | None = None, ax: Axes | None = None) -> Axes:
    """Free energy and its named terms against the step, with the ceiling."""
    axes = ax or plt.subplots(figsize=(6, 3.2), layout="constrained")[1]
    for name in TERMS:
        if name in history:
            bold = name == "free_energy"
            axes.plot(history["step"], history[name], lw=1.8 if bold else 0.8, label=name.replace("_", " "))
    if ceiling is not None:
        axes.axhline(ceiling, color="0.5", ls=":", label="ceiling")
    axes.set(xlabel="step", ylabel="nats per observation")
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes


def confusion_matrix(table: NDArray[Any], ax: Axes | None = None) -> Axes:
    """Share of every class (row) that a state (column) received, states in the order of their classes."""
    axes = ax or plt.subplots(figsize=(3, 3), layout="constrained")[1]
    counts = np.asarray(table, float)
    axes.imshow(counts / np.maximum(counts.sum(1, keepdims=True), 1), vmin=0, vmax=1, cmap="Blues")
    axes.set(xticks=[0, counts.shape[1] - 1], yticks=[0, counts.shape[0] - 1])
    return axes


def latent_recovery(
    times: NDArray[Any], mean: NDArray[Any], sd: NDArray[Any], truth: NDArray[Any], ax: Axes | None = None
) -> Axes:
    """Posterior mean ± 2 sd of one trial, each (T,) or (T, D), with the truth dashed."""
    axes = ax or plt.subplots(figsize=(6, 2.4), layout="constrained")[1]
    columns = [np.asarray(values, float).reshape(len(times), -1).T for values in (mean, sd, truth)]
    for d, (middle, spread, true) in enumerate(zip(*columns, strict=True)):
        # Dimensions differ in colour; one of them is enough for the legend.
        labels = ("posterior mean", "± 2 sd", "truth") if d == 0 else (None, None, None)
        colour, low, high = f"C{d}", middle - 2 * spread, middle + 2 * spread
        darker = tuple(0.4 * channel for channel in to_rgb(colour))
        axes.plot(times, middle, color=colour, lw=1.5, label=labels[0])
        axes.fill_between(times, low, high, color=colour, alpha=0.25, lw=0, label=labels[1])
        axes.plot(times, true, color=darker, ls="--", lw=1.0, label=labels[2])
    axes.set(xlabel="time", ylabel="latent")
    axes.legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return axes


def trial_image(x: NDArray[Any], times: NDArray[Any], ax: Axes | None = None) -> Axes:
    """The observations (T, D) of one trial: time to the right, dimensions upwards."""
    axes = ax or plt.subplots(figsize=(6, 2), layout="constrained")[1]
    values = np.asarray(x, float)
    # A few extreme values (the textured ball has some) would leave the rest in one shade.
    low, high = np.nanquantile(values, [0.01, 0.99])
    grid = (times, np.arange(values.shape[1]), values.T)
    axes.pcolormesh(*grid, shading="nearest", cmap="Greys_r", vmin=low, vmax=high, rasterized=True)
    axes.set(xlabel="time", ylabel="dimension")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return axes
