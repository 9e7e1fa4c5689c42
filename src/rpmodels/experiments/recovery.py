"""What the experiments on recovering a latent path share: one fit with its numbers, and the figures."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from rpmodels import metrics, mixtures, plots, presets
from rpmodels.datasets import Series
from rpmodels.estimators import RPGPFA
from rpmodels.experiments.experiment import Outcome, Row
from rpmodels.experiments.figures import save
from rpmodels.learning import TimeLimit
from rpmodels.observations import read

METHODS = {
    "interior": "interior",
    "quadrature": "quadrature",
    "second-order": "second_order",
    "monte-carlo": "monte_carlo",
}
SHOWN = 3
"""Trials in the figure of recovered paths."""


def rows(with_paper: bool = True) -> list[Row]:
    """RP-GPFA by each of the four ways to ⟨log F⟩, and as the paper has it."""
    return [Row("RP-GPFA", method) for method in (*METHODS, *(["paper"] if with_paper else []))]


def estimator(method: str, seed: int, seconds: float, **settings: Any) -> RPGPFA:
    """The default fit by one method, or the paper's with a limit on its time."""
    if method != "paper":
        return RPGPFA(expected_log_mixture=METHODS[method], random_state=seed, **settings)
    return RPGPFA(**presets.paper(), callbacks=[TimeLimit(seconds)], random_state=seed, **settings)


def recovered(model: RPGPFA, series: Series, n_training: int) -> Outcome:
    """Fit on the first trials; recovery there and on the others."""
    x, z = series.x[:n_training], series.z[:n_training]
    begun = time.monotonic()
    model.fit(x, times=series.times)
    seconds = time.monotonic() - begun
    mean = model.transform(x, times=series.times)
    new = model.posterior(series.x[n_training:], times=series.times)
    line = metrics.linear_map(mean, z)
    aligned, variance = metrics.aligned(new.mean, new.covariance, *line)
    truth = series.z[n_training:]
    return Outcome(
        metrics={
            "nmse": metrics.nmse(mean, z),
            "nmse_heldout": metrics.nmse(new.mean, truth, mean, z),
            "coverage_90": metrics.coverage(aligned, variance, truth),
            "free_energy_paper": _free_energy_paper(model, x, series.times),
            "score_nats": float(model.score_),
            "ceiling_nats": model.score_.ceiling,
            "steps": float(model.n_iter_),
            "fit_seconds": seconds,
        },
        extras={
            "stopped": model.stop_reason_,
            "length_scales": np.round(model.length_scales_, 3).tolist(),
            "restarts": [{"kind": a.kind, "free_energies": a.free_energies} for a in model.restarts_],
            "history": thinned(model.history_),
            "mean": np.round(aligned[:SHOWN], 4).tolist(),
            "sd": np.round(np.sqrt(variance[:SHOWN]), 4).tolist(),
            "truth": np.round(truth[:SHOWN], 4).tolist(),
            "x": np.round(series.x[n_training : n_training + 1], 3).tolist(),
            "times": series.times.tolist(),
        },
    )


def _free_energy_paper(model: RPGPFA, x: NDArray[Any], times: NDArray[Any]) -> float:
    """−F in the paper's convention, summed over the training trials; ⟨log F⟩ by quadrature where K allows it."""
    exact = mixtures.quadrature(model.n_latents) if model.n_latents <= mixtures.GaussHermite.largest else None
    observations = read({"x": x}, series=True, times=times)
    inferred = model.model_.infer(observations, own=False, approximation=exact)
    return -sum(float(each.energy.paper.double().sum()) for each in inferred)


def thinned(history: Mapping[str, NDArray[Any]], points: int = 200) -> dict[str, list[float]]:
    """A few of the steps, for the figure."""
    every = max(1, len(history["step"]) // points)
    return {name: [round(float(value), 4) for value in values[::every]] for name, values in history.items()}


# ---- figures ------------------------------------------------------------------------------------


def figures(outcomes: Mapping[Row, Sequence[Outcome]], paper: Mapping[str, float], folder: Path) -> None:
    """The numbers of all seeds, and of the rows that were trained: recovered paths and learning curves."""
    save(_numbers(outcomes, paper), folder / "nmse")
    trained = {row: each for row, each in outcomes.items() if "history" in each[0].extras}
    if trained:
        save(_paths(next(iter(trained.values()))[0]), folder / "recovery")
        save(_curves(trained), folder / "learning_curves")


def _paths(outcome: Outcome) -> Any:
    """One trial's observations above the recovered paths of held-out trials, with ±2 sd and the truth."""
    kept = outcome.extras
    times, truth = np.array(kept["times"]), np.array(kept["truth"])
    dimensions = truth.shape[-1]
    shown = len(truth) if dimensions == 1 else 1
    panels = 1 + shown * dimensions
    figure, axes = plt.subplots(panels, 1, figsize=(7, 1.2 + 1.25 * panels), sharex=True, layout="constrained")
    plots.trial_image(np.array(kept["x"][0]), times, axes[0])
    places = [(n, d) for n in range(shown) for d in range(dimensions)]
    for ax, (n, d) in zip(axes[1:], places, strict=True):
        mean, sd = np.array(kept["mean"])[n, :, d], np.array(kept["sd"])[n, :, d]
        plots.latent_recovery(times, mean, sd, truth[n, :, d], ax)
        ax.set_ylabel(f"held-out {n + 1}" if dimensions == 1 else f"latent {d + 1}")
        if ax is not axes[1] and ax.get_legend() is not None:
            ax.get_legend().remove()
        if ax is not axes[-1]:
            ax.set_xlabel("")
    axes[0].set_xlabel("")
    return figure


def _numbers(outcomes: Mapping[Row, Sequence[Outcome]], paper: Mapping[str, float]) -> Any:
    """nMSE of every seed by every method, on a logarithmic axis, with the paper's medians."""
    figure, ax = plt.subplots(figsize=(7.6, 3.4), layout="constrained")
    for number, (row, each) in enumerate(outcomes.items()):
        values = np.array([outcome.metrics["nmse"] for outcome in each])
        spread = np.linspace(-0.18, 0.18, len(values)) if len(values) > 1 else np.zeros(1)
        ax.plot(number + spread, values, "o", ms=4, color=f"C{number}", alpha=0.7)
        ax.hlines(np.median(values), number - 0.28, number + 0.28, color=f"C{number}", lw=2)
        if row.method in paper:
            reported = ax.hlines(paper[row.method], number - 0.28, number + 0.28, color="0.4", ls=":", lw=2)
            reported.set_label("the paper's median" if number == 0 else "")
    ax.set_xticks(range(len(outcomes)), [(row.method or row.model).replace("-", "\n") for row in outcomes])
    ax.set(yscale="log", ylabel="nMSE (training trials)", xlim=(-0.7, len(outcomes) - 0.3))
    if paper:
        ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _curves(outcomes: Mapping[Row, Sequence[Outcome]]) -> Any:
    """Free energy of the first seed against the step; the paper's own settings take many more and have their axis."""
    apart = [row for row in outcomes if row.method == "paper"]
    panels = 2 if apart and len(apart) < len(outcomes) else 1
    figure, grid = plt.subplots(1, panels, figsize=(3 + 3 * panels, 3.2), layout="constrained", squeeze=False)
    axes = grid[0]
    for number, (row, each) in enumerate(outcomes.items()):
        history = each[0].extras["history"]
        ax = axes[-1] if row in apart else axes[0]
        ax.plot(history["step"], history["free_energy"], color=f"C{number}", label=row.method or row.model)
    axes[0].set_ylabel("free energy (nats a trial)")
    for ax in axes:
        ax.set_xlabel("step")
        # The first steps may fall far below where all others are.
        highest = max(float(np.max(line.get_ydata())) for line in ax.lines)
        ax.set_ylim(bottom=max(ax.get_ylim()[0], -0.3 * abs(highest)))
        ax.legend(frameon=False, fontsize="small")
    return figure
