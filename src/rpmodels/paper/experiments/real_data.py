"""Recordings that nobody here made: RPMs by their default arguments beside every peer, by one protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.figures import save
from rpmodels.paper.experiments.real_figures import dots
from rpmodels.paper.experiments.real_populations import Barriers, Simulated, Targets, Track
from rpmodels.paper.experiments.real_sets import RealSet, Task
from rpmodels.paper.experiments.real_states import Night, Places

SETS: Mapping[str, RealSet] = {
    "simulated": Simulated(),
    "hippocampus": Track(),
    "mc_maze": Barriers(),
    "reach": Targets(),
    "ca1_sleep": Night(),
    "scene15": Places(),
}


@dataclass(frozen=True)
class Settings:
    """Conditions of every set: numbers of latents or states, or shares of rows that lack views; and folds.

    `fit` holds arguments of the RPMs that differ from their defaults: nothing in either preset.
    """

    conditions: Mapping[str, tuple[float, ...]]
    folds: int = 4
    fit: Mapping[str, Any] = field(default_factory=dict)


class RealData(Experiment):
    """Populations, a night's sleep and views of scenes; `--method mc_maze` keeps one set, `--method GPFA` one method.

    The seed is that of the models, and deals trials to folds. Three seeds; the track is usually run with five.
    """

    name = "real-data"
    summary = "public recordings: behaviour, sleep and scenes from latents, beside every peer (quick: simulated)"
    presets: Mapping[str, Any] = {
        "quick": Settings({"simulated": (2,)}, folds=2),
        "paper": Settings({
            "hippocampus": (3, 5),
            "mc_maze": (4, 8, 16),
            "reach": (4, 8),
            "ca1_sleep": (3, 6, 10),
            "scene15": (0.0, 0.3, 0.5, 0.7),
        }),
    }  # fmt: skip
    default_seeds: Mapping[str, int] = {"quick": 1, "paper": 3}

    def rows(self, settings: Any) -> Sequence[Row]:
        """Every method under every condition of every set."""
        return [
            Row(method, name, f"{SETS[name].varied}={condition}")
            for name, conditions in settings.conditions.items()
            for condition in conditions
            for method in SETS[name].methods
        ]

    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """Not in the paper."""
        return {}

    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """Fits of one method, on every fold where there are some."""
        condition = float(row.condition.partition("=")[2])
        return SETS[row.method].measured(Task(row.model, condition, seed, settings.folds, settings.fit))

    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """A picture for every set."""
        for name in settings.conditions:
            shown = {row: each for row, each in outcomes.items() if row.method == name}
            if shown:
                save(dots(shown), folder / name)


EXPERIMENT = RealData()
