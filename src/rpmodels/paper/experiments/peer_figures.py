"""Figure A1: accuracy against the entropy of the average posterior, and confusion matrices."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rpmodels import plots
from rpmodels.paper.experiments.experiment import Outcome, Row

Outcomes = Mapping[Row, Sequence[Outcome]]
PANEL = 1.75
"""Inches of a confusion matrix, title included."""
LONGEST = 4
"""Confusion matrices in a line."""


def accuracy_figure(outcomes: Outcomes, paper: Mapping[str, str]) -> Any:
    """Accuracy and entropy per seed, train hollow and test filled; beside it the confusion matrices.

    `paper` is what it says of the models ("0.87 ± 0.09"), for marks at the edge; empty for other data.
    """
    shown = _insets(outcomes)
    columns = min(LONGEST, len(shown))
    lines = math.ceil(len(shown) / columns)
    size = (5.4 + PANEL * columns, max(4.6, 0.5 + PANEL * 1.15 * lines))
    figure = plt.figure(figsize=size, layout="constrained")
    left, right = figure.subfigures(1, 2, width_ratios=[5.4, PANEL * columns], squeeze=False)[0]
    axes = left.subplots()
    handles = _scatter(axes, outcomes)
    if paper:
        handles += _paper_marks(axes, outcomes, paper)
    left.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False, fontsize="small")
    _matrices(right, shown, lines, columns)
    return figure


def _colours(outcomes: Outcomes) -> dict[str, str]:
    """One for every model; conditions differ in their marker."""
    models = dict.fromkeys(row.model for row in outcomes)
    return {model: f"C{number}" for number, model in enumerate(models)}


def _scatter(axes: Axes, outcomes: Outcomes) -> list[Line2D]:
    colours, handles = _colours(outcomes), []
    for row, each in outcomes.items():
        colour, marker = colours[row.model], "s" if row.condition else "o"
        for outcome in each:
            found, x = outcome.metrics, outcome.extras["entropy_train"]
            axes.plot(x, found["accuracy_train"], marker, mfc="none", mec=colour, ms=5)
            axes.plot(found["entropy"], found["accuracy"], marker, color=colour, ms=5)
        handles.append(Line2D([], [], marker=marker, ls="", color=colour, ms=5, label=_name(row)))
    handles.append(Line2D([], [], marker="o", ls="", mfc="none", mec="0.4", ms=5, label="train (filled: test)"))
    states = len(next(iter(outcomes.values()))[0].extras["confusion"][0])
    axes.axvline(np.log(states), color="0.6", ls=":", lw=1)
    axes.text(np.log(states), 0.01, f"log {states} ", color="0.4", ha="right", transform=axes.get_xaxis_transform())
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.set(xlabel="entropy of the average posterior (nats)", ylabel="accuracy")
    return handles


def _paper_marks(axes: Axes, outcomes: Outcomes, paper: Mapping[str, str]) -> list[Line2D]:
    """The paper's means, at the right edge."""
    colours = _colours(outcomes)
    for model in paper.keys() & colours.keys():
        value = float(paper[model].split(maxsplit=1)[0])
        axes.plot(1.0, value, "<", color=colours[model], transform=axes.get_yaxis_transform(), clip_on=False)
    return [Line2D([], [], marker="<", ls="", color="0.4", label="at the edge: the paper's mean")]


def _matrices(figure: SubFigure, shown: Sequence[tuple[str, Outcome]], lines: int, columns: int) -> None:
    panels = figure.subplots(lines, columns, squeeze=False)
    for panel in panels.flat[len(shown) :]:
        panel.set_visible(False)
    for number, (title, outcome) in enumerate(shown):
        panel = panels.flat[number]
        plots.confusion_matrix(np.array(outcome.extras["confusion"]), panel)
        panel.set_title(title, fontsize="x-small")
        panel.tick_params(labelsize="x-small")
        last = number + columns >= len(shown)
        panel.set_xlabel("predicted digit" if last else "", fontsize="x-small")
        panel.set_ylabel("" if number % columns else "true digit", fontsize="x-small")


def _name(row: Row) -> str:
    return f"{row.model}, {row.condition}" if row.condition else row.model


def _insets(outcomes: Outcomes) -> list[tuple[str, Outcome]]:
    """The least and the most accurate RPM, and the best seed of everything else."""
    chosen = []
    for row, each in outcomes.items():
        ranked = sorted(each, key=lambda outcome: outcome.metrics["accuracy"])
        picked = {"most accurate ": ranked[-1]} if len(ranked) > 1 else {"": ranked[-1]}
        if row.model == "RPM" and len(ranked) > 1:
            picked = {"least accurate ": ranked[0], **picked}
        title = f"{row.model}\n{row.condition}\n" if row.condition else f"{row.model}\n"
        chosen += [(f"{title}{which}{outcome.metrics['accuracy']:.3f}", outcome) for which, outcome in picked.items()]
    return chosen
