"""The textured ball (paper, section 5.3.1, table 2, figure 4): a latent that moves neither mean nor variance."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rpmodels import datasets
from rpmodels.estimators import Engine
from rpmodels.paper.experiments import recovery, recovery_baselines
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row

DOUBLE = "dtype=float64"


@dataclass(frozen=True)
class Settings:
    """N trials to learn from and as many held out, T times, D pixels, M inducing points.

    Then the time for the paper's row, and the baselines' largest number of latents.
    """

    n_trials: int = 50
    n_times: int = 50
    n_pixels: int = 10
    n_inducing: int = 20
    paper_seconds: float = 40.0
    most_latents: int = 2


class TexturedBall(Experiment):
    """RP-GPFA by four ways to ⟨log F⟩ and as the paper has it; sparse GP-VAEs and linear GPFA, which see no texture.

    −F of a VAE and of an RPM are not comparable: see `recovery_baselines`.
    """

    name = "textured-ball"
    summary = "the path of a ball that changes only the texture of the pixels it covers"
    presets: Mapping[str, Any] = {
        "quick": Settings(n_trials=40, n_times=30, n_inducing=15, paper_seconds=5.0, most_latents=1),
        "paper": Settings(),
    }
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 20}

    def rows(self, settings: Any) -> Sequence[Row]:
        """Every method; the default one in double precision as well; the baselines."""
        return [*recovery.rows(), Row("RP-GPFA", "interior", DOUBLE), *recovery_baselines.rows(settings.most_latents)]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Table 2."""
        nmse = {"monte-carlo": "0.85 [0.06–1.00]", "second-order": "0.14 [0.04–0.94]", "interior": "0.05 [0.03–0.26]"}
        energy = {"monte-carlo": "9000", "second-order": "9100", "interior": "7400"}
        return {
            **{(f"RP-GPFA-{m}", "nmse"): value for m, value in nmse.items()},
            **{(f"RP-GPFA-{m}", "free_energy_paper"): value for m, value in energy.items()},
            **recovery_baselines.paper(
                energy=("31000 [30000–32000]", "23000 [22000–24000]"), nmse=("≥ 0.99", "≥ 0.99")
            ),
        }

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """One fit."""
        series = datasets.textured_ball(
            n_trials=2 * settings.n_trials, n_times=settings.n_times, n_pixels=settings.n_pixels, random_state=seed
        )
        if row.model != "RP-GPFA":
            return recovery_baselines.recovered(row, series, settings.n_trials, settings.n_inducing, seed)
        engine = Engine(dtype="float64" if row.condition == DOUBLE else "float32")
        model = recovery.estimator(
            row.method, seed, settings.paper_seconds, n_inducing=settings.n_inducing, engine=engine
        )
        return recovery.recovered(model, series, settings.n_trials)

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Paths, numbers, learning curves."""
        headline = {row: each for row, each in outcomes.items() if not row.condition}
        medians = {"monte-carlo": 0.85, "second-order": 0.14, "interior": 0.05, "sGP-VAE-1D": 0.99, "sGP-VAE-2D": 0.99}
        recovery.figures(headline or outcomes, medians, folder)


EXPERIMENT = TexturedBall()
