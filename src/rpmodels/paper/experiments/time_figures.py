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


def draw(outcomes: Mapping[Row, Sequence[Outcome]], panels: Sequence[str], folder: Path) -> None:
    """One line a seed; colours are models."""
    shown = [panel for panel in panels if any(row.condition == panel for row in outcomes)]
    figure, axes = plt.subplots(
        2, len(shown), figsize=(1.0 + 4.6 * len(shown), 6.2), squeeze=False, layout="constrained"
    )
    for column, panel in zip(axes.T, shown, strict=True):
        rows = {row: each for row, each in outcomes.items() if row.condition == panel}
        for number, (row, each) in enumerate(rows.items()):
            name = f"{row.model} {row.method}".strip()
            for seed, outcome in enumerate(each):
                _lines(column, outcome, f"C{number}", name if seed == 0 else None)
        column[0].set(title=panel, ylabel="free energy, relative", ylim=(-0.05, 1.05))
        column[1].set(ylabel=QUALITY.get(panel, "quality"), xlabel="seconds of training", ylim=(-0.02, 1.02))
        column[1].legend(frameon=False, fontsize="small")
    save(figure, folder / "compute-time")


def _lines(axes: NDArray[Any], outcome: Outcome, colour: str, label: str | None) -> None:
    curve = {name: np.array(values, float) for name, values in outcome.extras.items()}
    energy = curve["free_energy"]
    # As the paper's: relative to the highest, from where it began.
    relative = (energy - energy[0]) / max(energy.max() - energy[0], 1e-12)
    for ax, values in zip(axes, (relative, curve["quality"]), strict=True):
        ax.plot(curve["seconds"], values, color=colour, lw=1.3, alpha=0.85, label=label)
        ax.set_xscale("log")
