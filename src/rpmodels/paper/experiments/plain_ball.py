"""The plain ball: a ball brighter than its background, where every model of table 2 should find the path.

On the textured and the structured ball the sparse GP-VAE and linear GPFA with one or two latents find next to nothing;
that says something about them only if they work where they should, with the same settings. Here they should: the mean
of the pixels moves.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rpmodels import datasets
from rpmodels.paper.experiments import recovery, recovery_baselines
from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row


@dataclass(frozen=True)
class Settings:
    """N trials to learn from and as many held out, T times, D pixels, M inducing points."""

    n_trials: int = 50
    n_times: int = 50
    n_pixels: int = 10
    n_inducing: int = 20


class PlainBall(Experiment):
    """RP-GPFA by the interior bound, sparse GP-VAEs and linear GPFA.

    −F of a VAE and of an RPM are not comparable: see `recovery_baselines`.
    """

    name = "plain-ball"
    summary = "the path of a ball that is brighter than its background: do the baselines work?"
    presets: Mapping[str, Any] = {"quick": Settings(n_trials=40, n_times=30, n_inducing=15), "paper": Settings()}
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 10}

    def rows(self, settings: Any) -> Sequence[Row]:
        """Our default and the baselines."""
        return [Row("RP-GPFA", "interior"), *recovery_baselines.rows(2)]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """The paper shows its learning curves only."""
        return {}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """One fit."""
        series = datasets.plain_ball(
            n_trials=2 * settings.n_trials, n_times=settings.n_times, n_pixels=settings.n_pixels, random_state=seed
        )
        if row.model != "RP-GPFA":
            return recovery_baselines.recovered(row, series, settings.n_trials, settings.n_inducing, seed)
        model = recovery.estimator(row.method, seed, 0.0, n_inducing=settings.n_inducing)
        return recovery.recovered(model, series, settings.n_trials)

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Paths, numbers, learning curves."""
        headline = {row: each for row, each in outcomes.items() if not row.condition}
        recovery.figures(headline or outcomes, {}, folder)


EXPERIMENT = PlainBall()
