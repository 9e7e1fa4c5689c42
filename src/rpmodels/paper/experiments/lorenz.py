"""A Lorenz path behind Poisson counts (the authors' code): three smooth latents from 200 channels, ten trials."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sklearn.decomposition import PCA

from rpmodels import datasets, metrics
from rpmodels.datasets import Series
from rpmodels.paper.experiments import recovery
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row


@dataclass(frozen=True)
class Settings:
    """N trials to learn from and as many held out, T times, D channels, M inducing points."""

    n_trials: int = 10
    n_times: int = 100
    n_channels: int = 200
    n_inducing: int = 50
    methods: tuple[str, ...] = ("interior",)


class Lorenz(Experiment):
    """RP-GPFA with three latents, and three principal components as what needs no model."""

    name = "lorenz"
    summary = "a Lorenz path from Poisson counts"
    presets: Mapping[str, Any] = {"quick": Settings(n_times=60, n_inducing=30), "paper": Settings()}
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 10}

    def rows(self, settings: Any) -> Sequence[Row]:
        """The model and the yardstick."""
        return [*(Row("RP-GPFA", method) for method in settings.methods), Row("PCA")]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Not in the paper; the authors' code reports this."""
        return {("RP-GPFA-interior", "r2"): "0.887 (authors' code)"}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """One fit."""
        series = datasets.lorenz(
            n_trials=2 * settings.n_trials,
            n_times=settings.n_times,
            n_channels=settings.n_channels,
            random_state=seed,
        )
        if row.model == "PCA":
            return _components(series, settings.n_trials)
        model = recovery.estimator(row.method, seed, 0.0, n_latents=3, n_inducing=settings.n_inducing)
        outcome = recovery.recovered(model, series, settings.n_trials)
        r2 = {"r2": 1.0 - outcome.metrics["nmse"], "r2_heldout": 1.0 - outcome.metrics["nmse_heldout"]}
        return Outcome({**r2, **outcome.metrics}, outcome.extras)

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Paths, numbers, learning curves."""
        recovery.figures(outcomes, {}, folder)


def _components(series: Series, n_training: int) -> Outcome:
    """Three principal components of the training trials."""
    width = series.x.shape[-1]
    fitted = PCA(3).fit(series.x[:n_training].reshape(-1, width))
    scores = fitted.transform(series.x.reshape(-1, width)).reshape(*series.x.shape[:2], 3)
    training, new = scores[:n_training], scores[n_training:]
    z = series.z
    error = metrics.nmse(training, z[:n_training])
    heldout = metrics.nmse(new, z[n_training:], training, z[:n_training])
    return Outcome({"r2": 1.0 - error, "r2_heldout": 1.0 - heldout, "nmse": error, "nmse_heldout": heldout})


EXPERIMENT = Lorenz()
