"""One start of a fit on its way up: what it is, how far it has come, and how it comes back from a checkpoint."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic

from rpmodels import errors
from rpmodels.learning.batches import Divided
from rpmodels.learning.checkpoints import Checkpoints, Saving
from rpmodels.learning.distributed import communicator
from rpmodels.learning.loop import MakeObjective
from rpmodels.learning.moves import Move
from rpmodels.learning.objective import RPMObjective
from rpmodels.learning.run import Run
from rpmodels.learning.settings import TrainingSettings
from rpmodels.learning.starts import Start
from rpmodels.learning.trainable import Model
from rpmodels.persistence import as_written


@dataclass
class Attempt:
    """What became of one start: its kind, seed, and free energy whenever starts were compared.

    Where observations are held out, it is the best score of these so far.
    """

    kind: str
    seed: int
    free_energies: list[float] = field(default_factory=list)
    noise: list[float] = field(default_factory=list)
    """Standard errors of these, as batches and dropout make them vary."""
    failure: str | None = None
    again: bool = False
    """Whether it stands for an earlier start that was stuck."""
    lessons: int = 0
    """Steps that it was taught for, by its start and by moves; they are counted in `max_iter`."""
    end: float | None = None
    """Where the deterministic end has led it, of several that had one."""
    agreement: float | None = None
    """How far its latents were those of an independent start, the leader, when that ended the comparisons."""

    @property
    def key(self) -> str:
        """Its name among the checkpoints of a fit."""
        return f"{self.kind} {self.seed}"


@dataclass(eq=False)
class Contender(Generic[Model]):
    """A start, its run, and the comparisons that a checkpoint says it has behind it already."""

    start: Start
    attempt: Attempt
    run: Run[Model]
    checkpoints: Checkpoints | None = None
    reached: int = 0
    """The step of the last comparison. The run itself may be further when it came from a checkpoint."""
    recorded: list[tuple[float, float]] = field(default_factory=list)

    @property
    def free_energy(self) -> float:
        """At the last comparison."""
        return self.attempt.free_energies[-1]

    @property
    def noise(self) -> float:
        """Its standard error there."""
        return self.attempt.noise[-1]

    def ahead_of(self, other: "Contender[Model]") -> tuple[float, float]:
        """By how much, at the last comparison, and the standard error of that.

        The same held-out observations are compared one by one.
        """
        mine, theirs = (each.run.held_out_scores() for each in (self, other))
        if mine is None or theirs is None:
            return self.free_energy - other.free_energy, math.hypot(self.noise, other.noise)
        gained = mine - theirs
        return float(gained.mean()), float(gained.std() / math.sqrt(max(1, len(gained) - 1)))

    def taught(self, steps: int) -> None:
        """It was taught for so many of its steps."""
        self.run.taught(steps)
        self.attempt.lessons = self.run.lessons

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Back to a checkpoint."""
        assert self.checkpoints is not None
        with as_written(self.checkpoints.path(self.attempt.key)):
            self.run.restore(saved["run"])
            self.attempt.lessons = self.run.lessons
            self.recorded = list(zip(saved["free_energies"], saved["noise"], strict=True))
            self.attempt.failure = saved["failure"]

    def train_to(self, data: Divided, until: int) -> "Contender[Model]":
        """Train to this step and write down the free energy there, or look it up."""
        self.reached = until
        if self.recorded:
            self._write_down(*self.recorded.pop(0))
            return self
        try:
            last = min(until, self.run.longest)
            self.run.advance(data.training, last, self.saving(), self.run.held_out(data))
            self._write_down(self.run.judged(), self.run.noise())
        except errors.NumericalError as failure:
            self.attempt.failure = str(failure)
            self._write_down(-math.inf, 0.0)
        self.save()
        return self

    def _write_down(self, free_energy: float, noise: float) -> None:
        self.attempt.free_energies.append(free_energy)
        self.attempt.noise.append(noise)

    def save(self) -> bool:
        """Write a checkpoint now, where there are any."""
        return self.checkpoints is None or self.checkpoints.save(
            self.attempt.key, {"run": self.run.state(), **self._beside()}
        )

    def saving(self) -> list[Saving]:
        """Consumers that write checkpoints while the run goes on."""
        if self.checkpoints is None:
            return []
        return [Saving(self.checkpoints, self.attempt.key, self.run, self._beside())]

    def _beside(self) -> dict[str, Any]:
        about = asdict(self.attempt)
        return {name: about[name] for name in ("free_energies", "noise", "failure")}


@dataclass(frozen=True)
class Plan(Generic[Model]):
    """What a fit is going to try, decided before any work.

    Args:
        model: a prepared pattern that every start copies
        training: how each of them is trained
        starts: where they begin
        interval: steps between two comparisons
        enough: free energy that the best start must have before any is dropped; until then there is nothing that they
            could be judged by
        move: a way out of poor optima, tried on the best
        moves: how often, at most
        objective: what is maximised

    """

    model: Model
    training: TrainingSettings
    starts: Sequence[Start]
    interval: int
    enough: float = -math.inf
    move: Move | None = None
    moves: int = 4
    objective: MakeObjective = RPMObjective


def enter(
    task: tuple[Start, Attempt],
    plan: Plan[Model],
    data: Divided,
    comparisons: Sequence[int],
    checkpoints: Checkpoints | None = None,
) -> Contender[Model]:
    """Begin, or go on where a checkpoint was, and train to these steps: one journey to another process."""
    start, attempt = task
    own = copy.deepcopy(plan.model)
    saved = None if checkpoints is None else checkpoints.load(attempt.key)
    lessons = 0
    if saved is None:
        lessons = start(own, data.training, attempt.seed) or 0
        communicator().same(own.state_dict())
    run = Run.start(own, data, plan.training, attempt.seed, plan.objective)
    contender = Contender(start, attempt, run, checkpoints)
    if saved is not None:
        contender.restore(saved)
    elif lessons:
        contender.taught(lessons)
    for until in comparisons:
        contender = contender.train_to(data, until)
    return contender
