"""Methods beside each other: a dot for every seed, paths of latents, behaviour as it was read, tuning, co-smoothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from rpmodels.paper.experiments.experiment import Outcome, Row

Outcomes = Mapping[Row, Sequence[Outcome]]
OWN, PEERS = "RP-GPFA", ("GPFA", "PCA, smoothed")
"""Whose latents are drawn beside each other."""
COLOURS = {"RP-GPFA": "C0", "RP-GPFA, smoothed": "C9", "GPFA": "C1", "PCA, smoothed": "C2", "FA, smoothed": "C4"}
NAMES = {
    "ridge": "R², ridge", "knn": "R², neighbours", "ridge_rates": "R², ridge from rates",
    "direction": "right direction", "direction_rates": "the same, from rates",
    "co_smoothing": "co-smoothing (bits a spike)",
    "co_smoothing_own": "co-smoothing, own p", "f1": "F1, second half", "f1_first_half": "F1, first half",
    "accuracy": "accuracy", "nmi": "NMI", "ari": "ARI",
}  # fmt: skip


def dots(outcomes: Outcomes) -> Any:
    """Of one set: a panel for every number, a line for every method, a colour for every condition."""
    names = list(dict.fromkeys(name for each in outcomes.values() for name in each[0].metrics if name != "seconds"))
    methods = sorted(dict.fromkeys(row.model for row in outcomes), key=lambda name: not name.startswith("RP-"))
    conditions = list(dict.fromkeys(row.condition for row in outcomes))
    figure, axes = plt.subplots(1, len(names), figsize=(1.5 + 2.2 * len(names), 1 + 0.3 * len(methods)), sharey=True,
                                squeeze=False, layout="constrained")  # fmt: skip
    for ax, name in zip(axes[0], names, strict=True):
        for row, each in outcomes.items():
            values = [outcome.metrics[name] for outcome in each if name in outcome.metrics]
            place = methods.index(row.model) + 0.5 * (conditions.index(row.condition) + 0.5) / len(conditions) - 0.25
            ax.plot(values, [place] * len(values), "o", ms=4, mfc="none", color=f"C{conditions.index(row.condition)}")
        ax.set_xlabel(NAMES.get(name, name))
        ax.grid(axis="x", color="0.9")
        ax.set_yticks(range(len(methods)), methods)
    axes[0, 0].invert_yaxis()
    handles = [Line2D([], [], marker="o", mfc="none", ls="", color=f"C{n}") for n in range(len(conditions))]
    figure.legend(handles, conditions, frameon=False, fontsize="small", loc="outside right center")
    return figure


# ---- of one condition ----------------------------------------------------------------------------


def examples(outcomes: Outcomes, condition: str) -> dict[str, Any]:
    """What was kept of one fold of each method whose latents are drawn; empty where ours was not run."""
    kept = {row.model: each[0].extras.get("example") for row, each in outcomes.items() if row.condition == condition}
    found = {name: kept[name] for name in (OWN, *PEERS) if kept.get(name)}
    return found if OWN in found else {}


def trajectories(shown: Mapping[str, Any]) -> Any:
    """Held-out trials along two axes, coloured by their label, a panel for every method.

    Labels have means where trials are of one length.
    """
    alike = len({len(path) for each in shown.values() for path in each["paths"]}) == 1
    figure, axes = plt.subplots(1, len(shown), figsize=(2.5 * len(shown), 2.6), squeeze=False, layout="constrained")
    for ax, (name, each) in zip(axes[0], shown.items(), strict=True):
        labels = np.array(each["labels"])
        for number, label in enumerate(np.unique(labels)):
            own = [np.array(path) for path, known in zip(each["paths"], labels, strict=True) if known == label]
            _bundle(ax, own, alike, plt.get_cmap("turbo")((number + 0.5) / len(np.unique(labels))))
        ax.set(title=name, xlabel="first axis", xticks=[], yticks=[])
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("second axis")
    looks: dict[str, Any] = {"beginning": {"marker": "o", "ls": ""}, "trials": {"lw": 0.5 if alike else 1.0}}
    looks |= {"mean of a condition": {"lw": 2}} if alike else {}
    handles, words = [Line2D([], [], color="0.3", **look) for look in looks.values()], list(looks)
    figure.legend(handles, words, frameon=False, fontsize="small", loc="outside lower center", ncols=3)
    return figure


def _bundle(ax: Any, trials: Sequence[NDArray[Any]], alike: bool, colour: Any) -> None:
    """Trials thin and their mean thick, or trials alone."""
    for path in trials:
        ax.plot(path[:, 0], path[:, 1], color=colour, lw=0.5 if alike else 1.0, alpha=0.6)
    for path in [np.mean(trials, 0)] if alike else trials:
        ax.plot(path[:, 0], path[:, 1], color=colour, lw=2 if alike else 0)
        ax.plot(*path[0, :2], "o", color=colour, ms=4 if alike else 3)


def decoded(shown: Mapping[str, Any], source: str, labels: Sequence[str]) -> Any:
    """Behaviour of held-out trials side by side, true in black and as each method tells it."""
    first = next(iter(shown.values()))[source]
    truth = [np.array(each) for each in first["true"]]
    figure, axes = plt.subplots(len(labels), 1, figsize=(8, 0.6 + 1.6 * len(labels)), sharex=True, squeeze=False,
                                layout="constrained")  # fmt: skip
    for d, (ax, label) in enumerate(zip(axes[:, 0], labels, strict=True)):
        _side_by_side(ax, [each[:, d] for each in truth], "k", "true", 2.0)
        for name, each in shown.items():
            told = [np.array(trial)[:, d] for trial in each[source]["decoded"]]
            _side_by_side(ax, told, COLOURS[name], name, 1.2)
        ax.set_ylabel(label)
        ax.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel("bins of held-out trials, one after the other")
    handles, words = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, words, frameon=False, fontsize="small", loc="outside upper center", ncols=len(words))
    return figure


def _side_by_side(ax: Any, trials: Sequence[NDArray[Any]], colour: Any, label: str, width: float) -> None:
    place = 0
    for number, each in enumerate(trials):
        ax.plot(place + np.arange(len(each)), each, color=colour, lw=width, label=label if number == 0 else None)
        place += len(each) + 2


def tuning(shown: Mapping[str, Any]) -> Any:
    """E[x | u] of the units that say most, a small panel for each."""
    curves = shown["tuning"]
    figure, axes = plt.subplots(1, len(curves["units"]), figsize=(1.7 * len(curves["units"]), 1.9), squeeze=False,
                                layout="constrained")  # fmt: skip
    for ax, unit, expected in zip(axes[0], curves["units"], curves["expected"], strict=True):
        ax.plot(curves["u"], expected, color="C0", lw=1.5)
        ax.set_title(f"unit {unit}", fontsize="small")
        ax.set_ylim(bottom=0)
        ax.spines[["top", "right"]].set_visible(False)
        ax.tick_params(labelsize="small")
    figure.supxlabel("projection u of the latents (sd of the prior)", fontsize="small")
    axes[0, 0].set_ylabel("spikes a bin", fontsize="small")
    return figure


def co_smoothing(outcomes: Mapping[str, Outcomes]) -> Any:
    """Bits a spike as bars, mean over seeds with a dot for each; a panel for every set."""
    figure, axes = plt.subplots(1, len(outcomes), figsize=(1.0 + 3.2 * len(outcomes), 2.8), squeeze=False,
                                layout="constrained")  # fmt: skip
    for ax, (name, of_set) in zip(axes[0], outcomes.items(), strict=True):
        conditions = list(dict.fromkeys(row.condition for row in of_set))
        models = [each for each in COLOURS if each in {row.model for row in of_set}]
        for row, each in of_set.items():
            if row.model not in models:
                continue
            values = [outcome.metrics["co_smoothing"] for outcome in each]
            place = conditions.index(row.condition) + 0.8 * ((models.index(row.model) + 0.5) / len(models) - 0.5)
            ax.bar(place, np.mean(values), 0.8 / len(models), color=COLOURS[row.model], alpha=0.6)
            ax.plot([place] * len(values), values, ".", color="k", ms=3)
        ax.set_xticks(range(len(conditions)), conditions)
        ax.set_title(name, fontsize="medium")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("bits a spike")
    drawn = {row.model for of_set in outcomes.values() for row in of_set}
    words = [name for name in COLOURS if name in drawn]
    handles = [Rectangle((0, 0), 1, 1, color=COLOURS[name], alpha=0.6) for name in words]
    figure.legend(handles, words, frameon=False, fontsize="small", loc="outside lower center", ncols=len(words))
    return figure
