"""What the experiments on recovering a latent path draw: paths, numbers, learning curves."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from rpmodels import plots
from rpmodels.paper.experiments.experiment import Outcome, Row

EARLY = 10.0
"""Per cent of the values of a panel that may lie below its axis: curves start far under where they end."""
VAE = "sparse GP-VAE"


def paths(outcomes: Mapping[str, Outcome]) -> Any:
    """One trial's observations above the recovered paths of held-out trials, with ±2 sd and the truth, by model."""
    truth = np.array(next(iter(outcomes.values())).extras["truth"])
    shown = len(truth) if truth.shape[-1] == 1 else 1
    panels = 1 + shown * truth.shape[-1]
    width = 7.0 if len(outcomes) == 1 else 5.0 * len(outcomes)
    figure, axes = plt.subplots(panels, len(outcomes), figsize=(width, 1.2 + 1.25 * panels), sharex=True,
                                sharey="row", squeeze=False, layout="constrained")  # fmt: skip
    for number, (model, outcome) in enumerate(outcomes.items()):
        column = axes[:, number]
        _path(list(column), outcome, shown)
        if len(outcomes) > 1:
            column[0].set_title(model, fontsize="medium")
        for ax in column:
            if ax is not axes[1, -1] and ax.get_legend() is not None:
                ax.get_legend().remove()
            if number:
                ax.set_ylabel("")
    return figure


def _path(axes: Sequence[Any], outcome: Outcome, shown: int) -> None:
    """One column."""
    kept = outcome.extras
    times, truth = np.array(kept["times"]), np.array(kept["truth"])
    dimensions = truth.shape[-1]
    plots.trial_image(np.array(kept["x"][0]), times, axes[0])
    places = [(n, d) for n in range(shown) for d in range(dimensions)]
    for ax, (n, d) in zip(axes[1:], places, strict=True):
        mean, sd = np.array(kept["mean"])[n, :, d], np.array(kept["sd"])[n, :, d]
        plots.latent_recovery(times, mean, sd, truth[n, :, d], ax)
        ax.set_ylabel(f"held-out {n + 1}" if dimensions == 1 else f"latent {d + 1}")
    for ax in axes[:-1]:
        ax.set_xlabel("")


def numbers(outcomes: Mapping[Row, Sequence[Outcome]], paper: Mapping[str, float]) -> Any:
    """nMSE of every seed by every method, on a logarithmic axis, with the paper's medians."""
    figure, ax = plt.subplots(figsize=(2.6 + len(outcomes), 3.4), layout="constrained")
    reported = None
    for number, (row, each) in enumerate(outcomes.items()):
        values = np.array([outcome.metrics["nmse"] for outcome in each])
        spread = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
        ax.plot(number + spread, values, "o", ms=4, color=f"C{number % 10}", alpha=0.7)
        ax.hlines(np.median(values), number - 0.28, number + 0.28, color=f"C{number % 10}", lw=2)
        if _name(row) in paper:
            reported = ax.hlines(paper[_name(row)], number - 0.28, number + 0.28, color="0.4", ls=":", lw=2)
    ax.set_xticks(range(len(outcomes)), [_ticked(row) for row in outcomes])
    ax.set(yscale="log", ylabel="nMSE (training trials)", xlim=(-0.7, len(outcomes) - 0.3))
    if reported is not None:
        ax.legend([reported], ["the paper's median"], frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _name(row: Row) -> str:
    """What tells a row from the others."""
    return row.method or row.model


def _ticked(row: Row) -> str:
    """In two lines, or three with a condition."""
    return "\n".join([*_name(row).rsplit("-", 1), *([row.condition] if row.condition else [])])


def curves(outcomes: Mapping[Row, Sequence[Outcome]]) -> Any:
    """What was maximised, of the first seed, against the step.

    The paper's own settings take many more steps and have their axis, and so has an ELBO: it bounds another quantity,
    and an RPM's free energy says nothing about whether it is better.
    """
    panels: dict[str, list[Row]] = {}
    for row in outcomes:
        panels.setdefault(_panel(row), []).append(row)
    figure, grid = plt.subplots(1, len(panels), figsize=(3 + 3 * len(panels), 3.2), layout="constrained", squeeze=False)
    colours = {row: f"C{number % 10}" for number, row in enumerate(outcomes)}
    for ax, (title, rows) in zip(grid[0], panels.items(), strict=True):
        values = []
        for row in rows:
            history = outcomes[row][0].extras["history"]
            values.append(np.array(history["free_energy"], float))  # null, a step that was not finite, is NaN
            ax.plot(history["step"], values[-1], color=colours[row], label=_name(row))
        low, high = np.nanpercentile(np.concatenate(values), [EARLY, 100.0])
        ax.set_ylim(low - 0.2 * (high - low), high + 0.1 * (high - low))
        ax.set(xlabel="step", ylabel="ELBO (nats a trial)" if title == VAE else "free energy (nats a trial)")
        if len(panels) > 1:
            ax.set_title(title, fontsize="medium")
        ax.legend(edgecolor="none", framealpha=0.8, fontsize="small", loc="lower right")
    return figure


def _panel(row: Row) -> str:
    """The title of the axes that a row's curve belongs to."""
    if row.model != "RP-GPFA":
        return VAE
    return "RP-GPFA, the paper's settings" if row.method == "paper" else "RP-GPFA"
