"""The figure of compute-time: relative free energy and quality against the clock, a column for each data set."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from rpmodels.paper.experiments.experiment import Outcome, Row
from rpmodels.paper.experiments.figures import save

QUALITY = {"peer-supervision": "accuracy (test images)", "plain-ball": "1 − nMSE"}
POINTS = 200
"""Of a median curve."""


def draw(outcomes: Mapping[Row, Sequence[Outcome]], panels: Sequence[str], folder: Path) -> None:
    """A thin line a seed and a thick one for their median; colours are models."""
    shown = [panel for panel in panels if any(row.condition == panel for row in outcomes)]
    figure, axes = plt.subplots(
        2, len(shown), figsize=(1.0 + 4.6 * len(shown), 6.2), squeeze=False, layout="constrained"
    )
    for column, panel in zip(axes.T, shown, strict=True):
        rows = {row: each for row, each in outcomes.items() if row.condition == panel}
        for number, (row, each) in enumerate(rows.items()):
            _lines(column, [_curve(outcome) for outcome in each], f"C{number}", f"{row.model} {row.method}".strip())
        seeds = max(len(each) for each in rows.values())
        column[0].set(title=panel, ylabel="free energy, relative", ylim=(-0.05, 1.05))
        column[1].set(ylabel=QUALITY.get(panel, "quality"), xlabel="seconds of training", ylim=(-0.02, 1.02))
        column[1].legend(frameon=False, fontsize="small", title=f"median of {seeds} seeds" if seeds > 1 else None)
    save(figure, folder / "compute-time")


def _curve(outcome: Outcome) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Seconds, free energy and quality."""
    seconds, energy, quality = (np.array(outcome.extras[name], float) for name in ("seconds", "free_energy", "quality"))
    # As the paper's: relative to the highest, from where it began.
    return seconds, (energy - energy[0]) / max(energy.max() - energy[0], 1e-12), quality


def _lines(
    axes: NDArray[Any], curves: Sequence[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]], colour: str, label: str
) -> None:
    """All of them on a logarithmic clock, and their median where all are on their way."""
    thin = {"lw": 0.7, "alpha": 0.35} if len(curves) > 1 else {"lw": 0.0}
    begin, end = max(each[0][0] for each in curves), min(each[0][-1] for each in curves)
    common = np.geomspace(begin, max(begin, end), POINTS)
    for which, ax in enumerate(axes, 1):
        for each in curves:
            ax.plot(each[0], each[which], color=colour, **thin)
        median = np.median([np.interp(np.log(common), np.log(each[0]), each[which]) for each in curves], 0)
        ax.plot(common, median, color=colour, lw=2.0, label=label)
        ax.set_xscale("log")
