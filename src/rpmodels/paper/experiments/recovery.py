"""What the experiments on recovering a latent path share: one fit with its numbers, and the figures."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import metrics, mixtures, presets
from rpmodels.datasets import Series
from rpmodels.estimators import RPGPFA, Inference
from rpmodels.learning import TimeLimit
from rpmodels.observations import read
from rpmodels.paper.baselines import SparseGPVAE
from rpmodels.paper.experiments import recovery_figures
from rpmodels.paper.experiments.experiment import Outcome, Row
from rpmodels.paper.experiments.figures import save

METHODS = {
    "interior": "interior",
    "quadrature": "quadrature",
    "second-order": "second_order",
    "monte-carlo": "monte_carlo",
}
SHOWN = 3
"""Trials in the figure of recovered paths."""
COLUMNS = 2
"""Models there."""


def rows(with_paper: bool = True) -> list[Row]:
    """RP-GPFA by each of the four ways to ⟨log F⟩, and as the paper has it."""
    return [Row("RP-GPFA", method) for method in (*METHODS, *(["paper"] if with_paper else []))]


def estimator(method: str, seed: int, seconds: float, **settings: Any) -> RPGPFA:
    """The default fit by one method, or the paper's with a limit on its time."""
    if method != "paper":
        chosen: dict[str, Any] = {"inference": Inference(expected_log_mixture=METHODS[method])}
        return RPGPFA(random_state=seed, **chosen, **settings)
    model = RPGPFA(random_state=seed, **presets.paper(), **settings)
    return model.set_params(training__callbacks=[TimeLimit(seconds)])


def recovered(model: RPGPFA, series: Series, n_training: int) -> Outcome:
    """Fit on the first trials; recovery there and on the others."""
    found = fitted(model, series, n_training)
    own = {
        "free_energy_paper": _free_energy_paper(model, series.x[:n_training], series.times),
        "score_nats": float(model.score_),
        "ceiling_nats": model.score_.ceiling,
    }
    return Outcome({**found.metrics, **own}, found.extras)


def fitted(model: RPGPFA | SparseGPVAE, series: Series, n_training: int) -> Outcome:
    """Fit on the first trials; what every smooth latent can be asked there and on the others."""
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
    return -float(model.model_.free_energies(observations, exact, in_training=True).paper.double().sum())


def thinned(history: Mapping[str, NDArray[Any]], points: int = 200) -> dict[str, list[float]]:
    """A few of the steps, for the figure."""
    every = max(1, len(history["step"]) // points)
    return {name: [round(float(value), 4) for value in values[::every]] for name, values in history.items()}


def figures(outcomes: Mapping[Row, Sequence[Outcome]], paper: Mapping[str, float], folder: Path) -> None:
    """The numbers of all seeds, and of the rows that were trained: recovered paths and learning curves.

    `paper` holds the paper's median nMSE by method, or by model where there is no method.
    """
    save(recovery_figures.numbers(outcomes, paper), folder / "nmse")
    trained = {row: each for row, each in outcomes.items() if "history" in each[0].extras}
    if not trained:
        return
    shown: dict[str, Outcome] = {}
    for row, each in trained.items():  # one column a model, by its first method
        shown.setdefault(row.model, each[0])
    save(recovery_figures.paths(dict(list(shown.items())[:COLUMNS])), folder / "recovery")
    save(recovery_figures.curves(trained), folder / "learning_curves")
