"""What the sets of `real-data` have in common: who is compared on them, and what one of those is asked."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rpmodels.evaluation.methods import Method
from rpmodels.evaluation.rivals import Rivals
from rpmodels.paper.experiments.experiment import Outcome


@dataclass(frozen=True)
class Task:
    """One line of the table and one seed."""

    method: str
    condition: float
    """The number of latents or states, or the share of rows that lack views."""
    seed: int
    folds: int = 4
    fit: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the default arguments of the RPM: nothing, but in tests."""


class RealSet(ABC):
    """One set: its RPM by default arguments against every rival that is installed, equally scaled."""

    own: str
    """The RPM, as the table calls it."""
    rivals: Rivals
    varied: str = "K"
    """What conditions are."""
    n_factors: int = 1
    longest: int = 2
    """Bins of a trial: whether there is time."""

    @property
    def methods(self) -> Sequence[str]:
        """All of the table."""
        return [self.own, *(each.name for each in self.rivals.methods([1] * self.n_factors, self.longest))]

    def peer(self, name: str, widths: Sequence[int]) -> Method:
        """One of the rivals, told of the channels of the factors."""
        return self.rivals.methods(widths, self.longest, [name])[0]

    @abstractmethod
    def measured(self, task: Task) -> Outcome:
        """Numbers of one line and seed."""
