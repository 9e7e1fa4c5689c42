"""Plots that return Axes and never call show. numpy in."""

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
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
