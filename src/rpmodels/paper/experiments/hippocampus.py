"""Where is the rat? Latents of CA1 spikes on a linear track, and the position read from them on runs never seen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA, FactorAnalysis

from rpmodels import RPGPFA, datasets
from rpmodels.datasets import Runs
from rpmodels.evaluation import Decoder, TrialFolds
from rpmodels.evaluation.comparison import scaled_bins
from rpmodels.evaluation.decoding import KINDS
from rpmodels.evaluation.methods import SMOOTHING, ByBins, LinearGPFA, Method
from rpmodels.observations import read
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.figures import save

BASELINES: Mapping[str, Method] = {
    method.name: method
    for method in (
        ByBins("PCA", PCA),
        ByBins("PCA, smoothed", PCA, SMOOTHING),
        ByBins("FA", FactorAnalysis),
        LinearGPFA(),
    )
}
NETWORKS = {"default": "auto", "mlp": "mlp"}


@dataclass(frozen=True)
class Settings:
    """Numbers of latents, folds, and runs to use (None: all)."""

    latents: tuple[int, ...] = (3, 5)
    folds: int = 4
    n_runs: int | None = None
    max_iter: int = 400


class HippocampusTrack(Experiment):
    """RP-GPFA with its defaults (for counts: a linear network) and an MLP against PCA, FA and GPFA, equally scaled."""

    name = "hippocampus"
    summary = "position of a rat from CA1 spikes, runs of unequal length"
    presets: Mapping[str, Any] = {
        "quick": Settings(latents=(3,), folds=2, n_runs=16, max_iter=100),
        "paper": Settings(),
    }
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 5}

    def rows(self, settings: Any) -> Sequence[Row]:
        """Every method at every number of latents."""
        sizes = [f"K={k}" for k in settings.latents]
        ours = [Row("RP-GPFA", network, size) for size in sizes for network in NETWORKS]
        return [*ours, *(Row(name, condition=size) for size in sizes for name in BASELINES)]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Not in the paper."""
        return {}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """Means over the folds; the seed is the model's, and deals the runs to the folds."""
        runs = datasets.load_hippocampus().runs()
        count = len(runs) if settings.n_runs is None else settings.n_runs
        latents = int(row.condition.removeprefix("K="))
        scores: list[dict[str, float]] = []
        shown: dict[str, Any] = {}
        for training, held_out in TrialFolds(settings.folds, seed).split(list(range(count))):
            found, extra = _latents(row, runs, training, latents, settings.max_iter, seed, count)
            scores.append(_decoded(found, runs, training, held_out) | extra)
            if not shown:
                shown = _example(found, runs, training, held_out)
        return Outcome({name: float(np.mean([each[name] for each in scores])) for name in scores[0]}, shown)

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Bars of R² with every seed, and decoded positions."""
        _bars(outcomes, folder)
        _decoded_runs(outcomes, folder)


def _latents(
    row: Row, runs: Runs, training: NDArray[np.int64], latents: int, max_iter: int, seed: int, count: int
) -> tuple[list[NDArray[np.float64]], dict[str, float]]:
    """Of all runs, by a model of the training runs; for ours its scores as well."""
    counts = runs.counts[:count]
    if row.model in BASELINES:
        bins = scaled_bins(read({"x": counts}, series=True), training)
        return BASELINES[row.model].latents([bins[n] for n in training], bins, latents, seed).values, {}
    model = RPGPFA(latents, network=NETWORKS[row.method], max_iter=max_iter, random_state=seed)
    model.fit([counts[n] for n in training])
    new = [counts[n] for n in range(count) if n not in set(training.tolist())]
    scores = {"score": float(model.score_), "score_heldout": float(model.score(new))}
    return [np.asarray(each, np.float64) for each in model.transform(counts)], scores


def _decoded(
    latents: list[NDArray[np.float64]], runs: Runs, training: NDArray[np.int64], held_out: NDArray[np.int64]
) -> dict[str, float]:
    def score(kind: str, among: NDArray[np.bool_]) -> float:
        known, new = (part[among[part]] for part in (training, held_out))
        decoder = Decoder(kind).fit([latents[n] for n in known], [runs.position[n] for n in known])
        return decoder.score([latents[n] for n in new], [runs.position[n] for n in new])

    everywhere = np.ones(len(runs), bool)
    scores = {f"r2_{kind}": score(kind, everywhere) for kind in KINDS}
    # Place fields differ between the two directions of running, so that one line need not serve both.
    each_way = [score("ridge", runs.direction == way) for way in (-1, 1)]
    return scores | {"r2_ridge_each_way": float(np.mean(each_way))}


def _example(
    latents: list[NDArray[np.float64]], runs: Runs, training: NDArray[np.int64], held_out: NDArray[np.int64]
) -> dict[str, Any]:
    """A few held-out runs, position true and decoded by neighbours."""
    decoder = Decoder("knn").fit([latents[n] for n in training], [runs.position[n] for n in training])
    chosen = held_out[:6]
    return {
        "truth": [runs.position[n][:, 0].round(4).tolist() for n in chosen],
        "decoded": [decoder.predict(latents[n])[:, 0].round(4).tolist() for n in chosen],
    }


def _bars(outcomes: Mapping[Row, Sequence[Outcome]], folder: Path) -> None:
    conditions = list(dict.fromkeys(row.condition for row in outcomes))
    figure, axes = plt.subplots(1, len(conditions), figsize=(4.2 * len(conditions), 3.4), sharey=True, squeeze=False,
                                layout="constrained")  # fmt: skip
    for ax, condition in zip(axes[0], conditions, strict=True):
        rows = [row for row in outcomes if row.condition == condition]
        for shift, kind in ((-0.2, "ridge"), (0.2, "knn")):
            values = [[outcome.metrics[f"r2_{kind}"] for outcome in outcomes[row]] for row in rows]
            places = np.arange(len(rows)) + shift
            ax.bar(places, [np.mean(each) for each in values], 0.38, label=kind, alpha=0.6)
            for place, each in zip(places, values, strict=True):
                ax.plot(np.full(len(each), place), each, "k.", ms=3)
        names = [" ".join(part for part in (row.model, row.method) if part) for row in rows]
        ax.set_xticks(range(len(rows)), names, rotation=35, ha="right", fontsize="small")
        ax.set_title(condition, fontsize="medium")
        ax.axhline(0, color="0.6", lw=0.6)
    axes[0, 0].set_ylabel("R² of position, held-out runs")
    axes[0, -1].legend(frameon=False, fontsize="small")
    save(figure, folder / "position")


def _decoded_runs(outcomes: Mapping[Row, Sequence[Outcome]], folder: Path) -> None:
    rows = [row for row in outcomes if row.condition == next(iter(outcomes)).condition]
    figure, axes = plt.subplots(len(rows), 1, figsize=(7, 1.1 * len(rows)), sharex=True, squeeze=False,
                                layout="constrained")  # fmt: skip
    for ax, row in zip(axes[:, 0], rows, strict=True):
        shown, begin = outcomes[row][0].extras, 0
        for truth, decoded in zip(shown["truth"], shown["decoded"], strict=True):
            bins = begin + np.arange(len(truth))
            ax.plot(bins, truth, "k--", lw=1)
            ax.plot(bins, decoded, color="C0", lw=1.2)
            begin += len(truth) + 5
        ax.set_ylabel(f"{row.model}\n{row.method}", fontsize="x-small")
        ax.set_yticks([0, 1])
    axes[-1, 0].set_xlabel("bins of 0.1 s, six held-out runs (dashed: true position, line: decoded by 15 neighbours)")
    save(figure, folder / "decoded")


EXPERIMENT = HippocampusTrack()
