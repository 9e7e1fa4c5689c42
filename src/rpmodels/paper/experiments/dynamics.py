"""A rotation seen through noisy images: are its eigenvalues found, and can the next twenty steps be told?"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

from rpmodels import RPLDS, datasets, metrics
from rpmodels.datasets import Series
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.figures import save

ORDER = 5
COMPONENTS = 10


@dataclass(frozen=True)
class Settings:
    """Trials to learn from and as many held out, times seen, times to forecast, and the dynamics."""

    n_trials: int = 50
    n_times: int = 50
    ahead: int = 20
    angle: float = 0.3
    modulus: float = 0.97
    max_iter: int = 400


class Dynamics(Experiment):
    """RP-LDS against the last value and a linear autoregression of principal components."""

    name = "dynamics"
    summary = "a rotation seen through noisy images"
    presets: Mapping[str, Any] = {"quick": Settings(n_trials=30, n_times=40, max_iter=150), "paper": Settings()}
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 5}

    def rows(self, settings: Any) -> Sequence[Row]:
        """The model and two forecasts that need none."""
        return [Row("RP-LDS"), Row("last value"), Row("linear AR")]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Not in the paper."""
        return {}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """Trials are seen up to `n_times`; errors are those of the true latents after that, on held-out trials."""
        series = datasets.rotating_spot(
            2 * settings.n_trials,
            settings.n_times + settings.ahead,
            angle=settings.angle,
            modulus=settings.modulus,
            random_state=seed,
        )
        if row.model == "RP-LDS":
            return _model(series, settings, seed)
        latents = _components(series, settings)
        forecast = _held(latents, settings) if row.model == "last value" else _autoregressed(latents, settings)
        return Outcome({"forecast_nmse": _error(forecast, latents, series, settings)})

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Eigenvalues in the plane, and a forecast with its band."""
        shown = [outcome.extras for outcome in next(iter(outcomes.values()))]
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.6), width_ratios=[1, 2], layout="constrained")
        turn = np.linspace(0, 2 * np.pi, 200)
        left.plot(np.cos(turn), np.sin(turn), color="0.7", lw=0.8)
        truth = settings.modulus * np.exp(1j * np.array([1, -1]) * settings.angle)
        for each in shown:
            values = np.array(each["eigenvalues"])
            left.plot(values[:, 0], values[:, 1], "C0o", ms=5, mfc="none")
        left.plot(truth.real, truth.imag, "kx", ms=7, label="true")
        left.set_aspect("equal")
        left.set_title("eigenvalues of A, every seed", fontsize="medium")
        left.legend(frameon=False, fontsize="small")
        first = shown[0]
        times = np.arange(len(first["truth"]))
        split = len(times) - settings.ahead
        mean, band = np.array(first["mean"]), np.array(first["band"])
        right.plot(times, first["truth"], "k--", lw=1, label="truth")
        right.plot(times[:split], mean[:split], "C0", label="filtered")
        right.plot(times[split:], mean[split:], "C1", label="forecast")
        right.fill_between(times, mean - band, mean + band, color="C1", alpha=0.2, lw=0, label="90 % band")
        right.axvline(split - 0.5, color="0.6", lw=0.8)
        right.set_xlabel("step")
        right.set_title("one held-out trial", fontsize="medium")
        right.legend(frameon=False, fontsize="small")
        save(figure, folder / "dynamics")


def _model(series: Series, settings: Settings, seed: int) -> Outcome:
    n, seen = settings.n_trials, settings.n_times
    begun = time.perf_counter()
    model = RPLDS(2, max_iter=settings.max_iter, random_state=seed).fit(series.x[:n, :seen])
    seconds = time.perf_counter() - begun
    found = model.transform(series.x[:n, :seen])
    mapped = metrics.linear_map(found, series.z[:n, :seen])
    new, truth = series.x[n:], series.z[n:]
    ahead = model.forecast(new[:, :seen], settings.ahead)
    mean, variance = metrics.aligned(ahead.mean, ahead.covariance, *mapped)
    past = model.filter(new[:, :seen])
    before, spread = metrics.aligned(past.mean, past.covariance, *mapped)
    values = model.eigenvalues_
    numbers = {
        "nmse": metrics.nmse(found, series.z[:n, :seen]),
        "forecast_nmse": _nmse(mean, truth[:, seen:]),
        "forecast_coverage": metrics.coverage(mean, variance, truth[:, seen:]),
        "eig_angle": float(abs(abs(np.angle(values[0])) / settings.angle - 1.0)),
        "eig_modulus": float(abs(abs(values[0]) - settings.modulus)),
        "score_nats": float(model.score_),
        "seconds": seconds,
    }
    path = np.concatenate([before[0, :, 0], mean[0, :, 0]])
    band = 1.645 * np.sqrt(np.concatenate([spread[0, :, 0], variance[0, :, 0]]))
    shown = {
        "eigenvalues": [[float(each.real), float(each.imag)] for each in values],
        "truth": truth[0, :, 0].round(4).tolist(),
        "mean": path.round(4).tolist(),
        "band": band.round(4).tolist(),
    }
    return Outcome(numbers, shown)


def _nmse(mean: NDArray[Any], truth: NDArray[Any]) -> float:
    return float(np.square(mean - truth).sum() / np.square(truth - truth.mean((0, 1))).sum())


def _components(series: Series, settings: Settings) -> NDArray[Any]:
    """Principal components of what training trials show, of every frame."""
    flat = series.x.reshape(*series.x.shape[:2], -1)
    fitted = PCA(COMPONENTS).fit(flat[: settings.n_trials, : settings.n_times].reshape(-1, flat.shape[-1]))
    return np.asarray(fitted.transform(flat.reshape(-1, flat.shape[-1])).reshape(*flat.shape[:2], -1))


def _held(latents: NDArray[Any], settings: Settings) -> NDArray[Any]:
    return np.repeat(latents[settings.n_trials :, settings.n_times - 1 : settings.n_times], settings.ahead, 1)


def _autoregressed(latents: NDArray[Any], settings: Settings) -> NDArray[Any]:
    """A ridge regression on the last five frames, its own forecasts fed back."""
    n, seen = settings.n_trials, settings.n_times
    known = latents[:n, :seen]
    past = np.concatenate([known[:, lag : seen - ORDER + lag] for lag in range(ORDER)], -1)
    fitted = Ridge(1.0).fit(past.reshape(-1, past.shape[-1]), known[:, ORDER:].reshape(-1, known.shape[-1]))
    recent = [latents[n:, seen - ORDER + lag] for lag in range(ORDER)]
    for _ in range(settings.ahead):
        recent.append(fitted.predict(np.concatenate(recent[-ORDER:], -1)))
    return np.stack(recent[ORDER:], 1)


def _error(forecast: NDArray[Any], latents: NDArray[Any], series: Series, settings: Settings) -> float:
    """Of the true latents read linearly from forecast components; the reading is learned on training trials."""
    n, seen = settings.n_trials, settings.n_times
    width = latents.shape[-1]
    reading = Ridge(1.0).fit(latents[:n, :seen].reshape(-1, width), series.z[:n, :seen].reshape(-1, 2))
    read = reading.predict(forecast.reshape(-1, width)).reshape(*forecast.shape[:2], 2)
    return _nmse(read, series.z[n:, seen:])


EXPERIMENT = Dynamics()
