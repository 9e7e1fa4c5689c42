"""How a fit went: the free energy step by step, what became of the starts, the score against ceiling and best known."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from rpmodels import errors
from rpmodels.plots.canvas import MARKERS, given_or_new, ink, legend_beside, line

TERMS = ("free_energy", "prior", "recognition", "mixture", "parameters")
MOVE = " + move"
"""How the kind of a start ends that a move made out of another one."""
LEAST_WIDTH = 1e-3
"""Of an axis of scores, relative to the best of them: what is less is no difference to look at."""


def learning_curve(history: Any, ceiling: float | None = None, ax: Axes | None = None) -> Axes:
    """Free energy and its named terms against the step, with the ceiling.

    Args:
        history: a fitted estimator (which knows its ceiling), its `history_`, or what `rp.train` returned
        ceiling: of the free energy, in nats per observation
        ax: where to draw

    """
    axes = given_or_new(ax, 6, 3.2)
    table = _table(history)
    for number, name in enumerate(TERMS):
        # Only variational Bayes has parameters with a term of their own.
        if name in table and (name != "parameters" or np.any(table[name])):
            bold = name == "free_energy"
            axes.plot(
                table["step"],
                table[name],
                lw=1.8 if bold else 1.0,
                zorder=3 if bold else 2,
                label=name.replace("_", " "),
                **line(number),
            )
    _ceiling(axes, getattr(history, "score_", None), ceiling)
    axes.set(xlabel="step", ylabel="nats per observation")
    legend_beside(axes)
    return axes


def _ceiling(axes: Axes, score: Any, given: float | None) -> None:
    """One that was asked for is always in sight; the model's own only where it does not press the curves together."""
    value = getattr(score, "ceiling", math.nan) if given is None else given
    if not math.isfinite(value):
        return
    low, high = axes.get_ylim()
    far = bool(given is None and value > 2 * high - low)
    axes.axhline(value, color="0.5", ls=(0, (1, 3)), label=f"ceiling {value:.3g}{' (above)' * far}")
    if far:
        axes.set_ylim(low, high)


def _table(source: Any) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    table: Mapping[str, Any] = source.history_ if hasattr(source, "history_") else source.record.history
    return table


def restarts(attempts: Any, ax: Axes | None = None) -> Axes:
    """Free energy of every start whenever starts were compared; the last one standing is bold.

    Args:
        attempts: a fitted estimator, or its `restarts_`
        ax: where to draw

    """
    axes = given_or_new(ax, 6, 3.2)
    every = list(getattr(attempts, "restarts_", attempts))
    firsts = _first_comparisons(every)
    judged = [n for n, each in enumerate(every) if np.isfinite(each.free_energies).any()]
    if not judged:
        axes.text(0.5, 0.5, "one start only: nothing to compare", transform=axes.transAxes, ha="center", va="center")
        axes.set(xticks=[], yticks=[])
    winner = max(
        judged, key=lambda n: (firsts[n] + len(every[n].free_energies), every[n].free_energies[-1]), default=-1
    )
    for number in judged:
        values = np.asarray(every[number].free_energies, float)
        places = firsts[number] + np.arange(len(values))
        look: dict[str, Any] = line(number) | {"marker": MARKERS[number % len(MARKERS)], "ms": 5}
        # A start that diverged has −∞, which is no place to draw.
        shown = np.where(np.isfinite(values), values, np.nan)
        width = 2.2 if number == winner else 1.0
        axes.plot(places, shown, lw=width, label=f"{number + 1}: {every[number].kind}", **look)
    axes.set(xlabel="comparison (the worse half of the starts is dropped)", ylabel="free energy (nats per observation)")
    if judged:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        legend_beside(axes)
    return axes


def _first_comparisons(attempts: Sequence[Any]) -> list[int]:
    """When every start was first judged: one that a move made begins where its origin was met last."""
    firsts = [1] * len(attempts)
    origin: int | None = None
    for number, each in enumerate(attempts):
        if not each.kind.endswith(MOVE):
            continue
        if origin is None:
            kind = each.kind.removesuffix(MOVE)
            origin = next((n for n, a in enumerate(attempts) if (a.kind, a.seed) == (kind, each.seed - 1)), None)
        if origin is not None:
            firsts[number] = firsts[origin] + max(0, len(attempts[origin].free_energies) - 1)
        origin = number
    return firsts


def score_ceiling(scores: Any, ax: Axes | None = None) -> Axes:
    """Scores as bars up to their ceilings, with the median over observations.

    Args:
        scores: a `Score` (of `score(X)`, or `score_`), a fitted estimator, or {label: any of these}
        ax: where to draw

    """
    named = scores if isinstance(scores, Mapping) else {_label(scores): scores}
    found = {str(label): getattr(each, "score_", each) for label, each in named.items()}
    for label, score in found.items():
        if not hasattr(score, "ceiling"):
            raise errors.bad_value(f"scores['{label}']", "a Score or a fitted estimator", repr(score))
    axes = given_or_new(ax, 6, 1.2 + 0.4 * len(found))
    places = np.arange(len(found))
    ceilings = np.array([score.ceiling for score in found.values()], float)
    # Scores under a continuous p₀ have no ceiling.
    reach = np.where(np.isfinite(ceilings), ceilings, 0.0)
    axes.barh(places, reach, height=0.6, color="0.9", edgecolor="0.5", lw=0.8, label="ceiling")
    axes.barh(places, [float(score) for score in found.values()], height=0.4, color=ink(0), label="mean score")
    medians = [score.median for score in found.values()]
    axes.plot(medians, places, "D", color=ink(1), mec="k", mew=0.6, ms=6, label="median")
    axes.axvline(0.0, color="0.3", lw=0.8)
    axes.set_yticks(places, list(found))
    axes.invert_yaxis()
    axes.set(xlabel="nats above independence per observation")
    legend_beside(axes)
    return axes


def _label(source: Any) -> str:
    return type(source).__name__ if hasattr(source, "score_") else "score"


def gap(gap: Any, ax: Axes | None = None) -> Axes:
    """Scores of a fit, of a longer one and of other seeds, each with a bar up to the best of them.

    Open circles are fits that had not converged.

    Args:
        gap: what `rp.evaluation.gap` returned
        ax: where to draw

    """
    rows = list(getattr(gap, "rows", ()))
    if not rows:
        raise errors.bad_value("gap", "what evaluation.gap returned", repr(gap))
    axes = given_or_new(ax, 7, 1.2 + 0.32 * len(rows))
    places = np.arange(len(rows))
    scores = np.array([row.score for row in rows])
    spreads = np.array([row.standard_error for row in rows])
    axes.axvline(gap.best, color=ink(3), ls="--", lw=1.4, label=f"best known {gap.best:.4g}", zorder=1)
    axes.hlines(places[1:], scores[1:], gap.best, color="0.85", lw=5, zorder=2)
    axes.hlines(places[:1], scores[:1], gap.best, color=ink(1), lw=5, label=f"gap of this fit {gap.nats:.2g}", zorder=2)
    if spreads.any():
        axes.errorbar(scores, places, xerr=spreads, fmt="none", ecolor="0.3", capsize=3, label="± standard error")
    faces = ((True, ink(0), "converged"), (False, "w", "not converged"), (None, "0.8", "not known"))
    for arrived, face, label in faces:
        own = np.array([row.converged is arrived for row in rows])
        if own.any():
            axes.plot(scores[own], places[own], "o", color=ink(0), mfc=face, mew=1.6, ms=8, label=label, zorder=3)
    axes.set_yticks(places, [f"{row.name} ({row.steps} steps)" for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    _at_least(axes, LEAST_WIDTH * max(1.0, abs(gap.best)))
    axes.set(xlabel="nats above independence per observation")
    legend_beside(axes)
    return axes


def _at_least(axes: Axes, width: float) -> None:
    """Differences of no size are drawn as none, and numbers on the axis stay readable."""
    low, high = axes.get_xlim()
    more = max(0.0, width - (high - low)) / 2
    axes.set_xlim(low - more, high + more)
    axes.ticklabel_format(axis="x", useOffset=False)
    axes.xaxis.set_major_locator(MaxNLocator(5))
