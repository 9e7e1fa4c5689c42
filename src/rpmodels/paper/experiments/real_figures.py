"""Methods beside each other, a dot for every seed."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.lines import Line2D

from rpmodels.paper.experiments.experiment import Outcome, Row


def dots(outcomes: Mapping[Row, Sequence[Outcome]]) -> Any:
    """Of one set: a panel for every number, a line for every method, a colour for every condition."""
    names = list(dict.fromkeys(name for each in outcomes.values() for name in each[0].metrics if name != "seconds"))
    methods = list(dict.fromkeys(row.model for row in outcomes))
    conditions = list(dict.fromkeys(row.condition for row in outcomes))
    figure, axes = plt.subplots(1, len(names), figsize=(1.5 + 2.6 * len(names), 1 + 0.3 * len(methods)), sharey=True,
                                squeeze=False, layout="constrained")  # fmt: skip
    for ax, name in zip(axes[0], names, strict=True):
        for row, each in outcomes.items():
            values = [outcome.metrics[name] for outcome in each if name in outcome.metrics]
            place = methods.index(row.model) + 0.5 * (conditions.index(row.condition) + 0.5) / len(conditions) - 0.25
            ax.plot(values, [place] * len(values), "o", ms=4, mfc="none", color=f"C{conditions.index(row.condition)}")
        ax.set_xlabel(name)
        ax.set_yticks(range(len(methods)), methods)
    axes[0, 0].invert_yaxis()
    handles = [Line2D([], [], marker="o", mfc="none", ls="", color=f"C{n}") for n in range(len(conditions))]
    axes[0, -1].legend(handles, conditions, frameon=False, fontsize="small")
    return figure
