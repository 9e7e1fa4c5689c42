"""What an experiment is: settings per preset, rows of a table, one outcome per row and seed, figures."""

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rpmodels import errors


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    model: str
    method: str = ""
    condition: str = ""

    @property
    def slug(self) -> str:
        """A name for files."""
        return "-".join(part for part in (self.model, self.method, self.condition) if part).replace("/", "_")


@dataclass(frozen=True)
class Outcome:
    """One seed of one row: numbers for the table, and small things that the figures need."""

    metrics: Mapping[str, float]
    extras: Mapping[str, Any] = field(default_factory=dict)


class Experiment(ABC):
    """One script per table or figure of the paper. Add a file to add one: it is found by its `EXPERIMENT`."""

    name: str
    summary: str
    presets: Mapping[str, Any]
    """Preset → its settings, a frozen dataclass."""
    default_seeds: Mapping[str, int]

    @abstractmethod
    def rows(self, settings: Any) -> Sequence[Row]:
        """Every row of the table."""

    @abstractmethod
    def paper(self, settings: Any) -> Mapping[tuple[str, str], str]:
        """(slug of the row, metric) → what the paper reports."""

    @abstractmethod
    def run(self, row: Row, settings: Any, seed: int) -> Outcome:
        """Data and initialisation both from the seed."""

    @abstractmethod
    def figures(self, outcomes: Mapping[Row, Sequence[Outcome]], settings: Any, folder: Path) -> None:
        """Pictures, PNG and PDF."""


def every_experiment() -> dict[str, Experiment]:
    """The experiments of this room, by name."""
    package = importlib.import_module("rpmodels.paper.experiments")
    found: dict[str, Experiment] = {}
    for module in pkgutil.iter_modules(package.__path__):
        experiment = getattr(importlib.import_module(f"rpmodels.paper.experiments.{module.name}"), "EXPERIMENT", None)
        if isinstance(experiment, Experiment):
            found[experiment.name] = experiment
    return found


def experiment_named(name: str) -> Experiment:
    """One of them, or a sentence that lists them."""
    known = every_experiment()
    if name not in known:
        raise errors.unknown_experiment(name, sorted(known))
    return known[name]
