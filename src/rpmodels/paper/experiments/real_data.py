"""Recordings that nobody here made: RPMs by their default arguments beside every peer, by one protocol."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rpmodels.paper.experiments.experiment import Experiment, Outcome, Row
from rpmodels.paper.experiments.figures import save
from rpmodels.paper.experiments.real_figures import OWN, co_smoothing, decoded, dots, examples, trajectories, tuning
from rpmodels.paper.experiments.real_populations import Population
from rpmodels.paper.experiments.real_recordings import Barriers, Simulated, Targets, Track
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
        """For every set its numbers and, of populations, what one fold shows; co-smoothing of all together."""
        by_set = {name: {row: each for row, each in outcomes.items() if row.method == name} for name in SETS}
        there = {name: each for name, each in by_set.items() if each}
        for name, each in there.items():
            save(dots(each), folder / name)
            self._example(each, SETS[name], folder, name)
        bits = {name: each for name, each in there.items() if isinstance(SETS[name], Population)}
        if bits:
            save(co_smoothing(bits), folder / "co-smoothing")

    def _example(self, outcomes: Mapping[Row, Sequence[Outcome]], of: RealSet, folder: Path, name: str) -> None:
        """Under the condition that is drawn, or the first of those that were run."""
        if not isinstance(of, Population):
            return
        conditions = list(dict.fromkeys(row.condition for row in outcomes))
        wanted = f"{of.varied}={of.drawn}"
        shown = examples(outcomes, wanted if wanted in conditions else conditions[0])
        if not shown:
            return
        if len(shown[OWN]["paths"][0][0]) > 1:
            save(trajectories(shown), folder / f"{name}-trajectories")
        for source, labels in of.told.items():
            save(decoded(shown, source, labels), folder / f"{name}-{source.replace(' ', '-')}")
        if shown[OWN]["tuning"]:
            save(tuning(shown[OWN]), folder / f"{name}-tuning")


EXPERIMENT = RealData()
