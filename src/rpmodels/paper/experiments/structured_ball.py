"""The ball before a structured background (paper, section 5.3.2, table 2): stripes that jump from frame to frame."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from rpmodels import datasets
from rpmodels.paper.experiments import recovery, recovery_baselines
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.figures import save


@dataclass(frozen=True)
class Settings:
    """N trials to learn from and as many held out, T times, D pixels, M inducing points, and the sweep of contrasts.

    Then the time for the paper's row, and the baselines' largest number of latents.
    """

    n_trials: int = 50
    n_times: int = 50
    n_pixels: int = 20
    n_inducing: int = 20
    contrasts: tuple[float, ...] = (0.25, 0.5, 2.0)
    paper_seconds: float = 40.0
    most_latents: int = 3


class StructuredBall(Experiment):
    """RP-GPFA by four ways to ⟨log F⟩ at contrast 1, as the paper has it, and a sweep over the contrast.

    Beside it at contrast 1 the models that must explain the stripes as well: sparse GP-VAEs and linear GPFA, with one
    and two latents as in the paper, and with three, which are enough for both (two for the stripes, one for the ball).
    −F of a VAE and of an RPM are not comparable: see `recovery_baselines`.
    """

    name = "structured-ball"
    summary = "the path of a ball before stripes that are as strong as it is"
    presets: Mapping[str, Any] = {
        "quick": Settings(n_trials=40, n_times=30, n_inducing=15, contrasts=(0.5,), paper_seconds=5.0, most_latents=1),
        "paper": Settings(),
    }
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 20}

    def rows(self, settings: Any) -> Sequence[Row]:
        """Every method at contrast 1, and the baselines; the interior bound at the other contrasts."""
        swept = [Row("RP-GPFA", "interior", f"contrast={c:g}") for c in settings.contrasts]
        return [*recovery.rows(), *swept, *recovery_baselines.rows(settings.most_latents)]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Table 2."""
        nmse = {"monte-carlo": "0.11", "second-order": "0.11", "interior": "0.09"}
        energy = {"monte-carlo": "1100", "second-order": "960", "interior": "770"}
        return {
            **{(f"RP-GPFA-{m}", "nmse"): value for m, value in nmse.items()},
            **{(f"RP-GPFA-{m}", "free_energy_paper"): value for m, value in energy.items()},
            **recovery_baselines.paper(energy=("40000 [28000–46000]", "26000 [21000–30000]"), nmse=("≥ 0.99", "≥ 0.9")),
        }

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """One fit."""
        series = datasets.structured_ball(
            n_trials=2 * settings.n_trials,
            n_times=settings.n_times,
            n_pixels=settings.n_pixels,
            contrast=_contrast(row),
            random_state=seed,
        )
        if row.model != "RP-GPFA":
            return recovery_baselines.recovered(row, series, settings.n_trials, settings.n_inducing, seed)
        model = recovery.estimator(row.method, seed, settings.paper_seconds, n_inducing=settings.n_inducing)
        return recovery.recovered(model, series, settings.n_trials)

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Paths, numbers and learning curves at contrast 1; recovery against contrast."""
        headline = {row: each for row, each in outcomes.items() if not row.condition}
        if headline:
            medians = {"monte-carlo": 0.11, "second-order": 0.11, "interior": 0.09}
            recovery.figures(headline, medians | {"sGP-VAE-1D": 0.99, "sGP-VAE-2D": 0.9}, folder)
        swept = {row: each for row, each in outcomes.items() if row.method == "interior"}
        if len(swept) > 1:
            save(_sweep(swept), folder / "contrast")


def _contrast(row: Row) -> float:
    return float(row.condition.removeprefix("contrast=")) if row.condition.startswith("contrast=") else 1.0


def _sweep(outcomes: Mapping[Row, Sequence[Outcome]]) -> Any:
    figure, ax = plt.subplots(figsize=(4.6, 3.2), layout="constrained")
    ordered = sorted(outcomes, key=_contrast)
    contrasts = [_contrast(row) for row in ordered]
    values = [[outcome.metrics["nmse"] for outcome in outcomes[row]] for row in ordered]
    for contrast, each in zip(contrasts, values, strict=True):
        ax.plot(np.full(len(each), contrast), each, "o", ms=4, color="C0", alpha=0.5)
    ax.plot(contrasts, [np.median(each) for each in values], color="C0", label="median")
    ax.set(xscale="log", yscale="log", xlabel="contrast of the ball (stripes: 1)", ylabel="nMSE (training trials)")
    ax.set_xticks(contrasts, [f"{c:g}" for c in contrasts])
    ax.minorticks_off()
    ax.legend(frameon=False)
    return figure


EXPERIMENT = StructuredBall()
