"""What all contenders of a fit have in common: what is tried, on which data, where it runs, and who watches."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

from rpmodels.learning.batches import Divided
from rpmodels.learning.checkpoints import Checkpoints
from rpmodels.learning.consumers import Progress
from rpmodels.learning.contenders import Attempt, Contender, Plan, enter
from rpmodels.learning.loop import Consumer
from rpmodels.learning.parallel import parallel_map
from rpmodels.learning.starts import Start
from rpmodels.learning.trainable import Model

DIRECT = 0.05
"""Of all steps: that fits have whose deterministic end needs no more; finalists are compared by where it leads."""
FEWEST_STEPS = 50
"""That such fits have in any case."""
FINALISTS = 3
"""Of such fits."""


@dataclass(frozen=True)
class Context:
    """Where and how a fit runs, whatever it tries: its seed, its processes, its files, and who watches.

    Args:
        random_state: seed of all starts
        n_jobs: starts at once, in processes of their own
        checkpoints: where runs are kept
        consumers: called after every step of the last run
        verbose: progress bars

    """

    random_state: Any = None
    n_jobs: int | None = None
    checkpoints: Checkpoints | None = None
    consumers: Sequence[Consumer] = ()
    verbose: bool = False


@dataclass(frozen=True)
class Field(Generic[Model]):
    """What all contenders of a fit have in common."""

    plan: Plan[Model]
    data: Divided
    context: Context
    progress: Progress

    @cached_property
    def direct(self) -> bool:
        """Whether a deterministic end needs no more steps than the search."""
        if self.data.validation is not None:
            return False
        objective = self.plan.objective(copy.deepcopy(self.plan.model), self.data.training)
        return self.plan.training.finish.suffices(objective, self.data.training)

    @property
    def finalists(self) -> int:
        """Runs that the search may leave."""
        return FINALISTS if self.direct else 1

    def last_step(self, winner: Contender[Model]) -> int:
        """Of the run that is kept."""
        longest = winner.run.longest
        if not self.direct:
            return longest
        return min(longest, max(winner.reached, FEWEST_STEPS, math.ceil(DIRECT * self.plan.training.max_iter)))

    def enter(
        self, tasks: list[tuple[Start, Attempt]], comparisons: Sequence[int], alive: list[Contender[Model]]
    ) -> None:
        """Begin these and train them; each joins those alive as soon as it is there."""
        shared = (self.plan, self.data, comparisons, self.context.checkpoints)
        for contender in parallel_map(enter, tasks, self.context.n_jobs, *shared):
            alive.append(contender)  # what is there when an interrupt comes is kept
            self.progress.advance(told(contender.attempt))

    def train_to(self, alive: list[Contender[Model]], until: int) -> None:
        """All of them, in place."""
        alive[:] = parallel_map(Contender.train_to, alive, self.context.n_jobs, self.data, until)


def told(attempt: Attempt) -> str:
    """A start, for the progress bar."""
    return f"{attempt.kind}: {attempt.lessons} steps of lessons" if attempt.lessons else attempt.kind
