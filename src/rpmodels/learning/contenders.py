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
from rpmodels.learning.starts import Start
from rpmodels.learning.train import MakeObjective, Run, Training
from rpmodels.learning.trainable import Model
from rpmodels.observations import Observations


@dataclass
class Attempt:
    """What became of one start: its kind, seed, and free energy at every rung it reached."""

    kind: str
    seed: int
    free_energies: list[float] = field(default_factory=list)
    failure: str | None = None
    again: bool = False
    """Whether it stands for an earlier start that was stuck."""

    @property
    def key(self) -> str:
        """Its name among the checkpoints of a fit."""
        return f"{self.kind} {self.seed}"


@dataclass(eq=False)
class Contender(Generic[Model]):
    """A start, its run, and the rungs that a checkpoint says it has climbed already."""

    start: Start
    attempt: Attempt
    run: Run[Model]
    checkpoints: Checkpoints | None = None
    climbed: int = 0
    """The last rung. The run itself may be further when it came from a checkpoint."""
    recorded: list[float] = field(default_factory=list)

    @property
    def free_energy(self) -> float:
        """At the last rung."""
        return self.attempt.free_energies[-1]

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Back to a checkpoint."""
        self.run.restore(saved["run"])
        self.recorded = list(saved["free_energies"])
        self.attempt.failure = saved["failure"]

    def climb(self, observations: Observations, until: int) -> "Contender[Model]":
        """Train to this step and write down the free energy there, or look it up."""
        self.climbed = until
        if self.recorded:
            self.attempt.free_energies.append(self.recorded.pop(0))
            return self
        try:
            self.run.advance(observations, until, self.saving())
            self.attempt.free_energies.append(self.run.recent())
        except errors.NumericalError as failure:
            self.attempt.failure = str(failure)
            self.attempt.free_energies.append(-math.inf)
        self.save()
        return self

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
        return {name: about[name] for name in ("free_energies", "failure")}


def enter(
    task: tuple[Start, Attempt],
    model: Model,
    make_objective: MakeObjective,
    data: Divided,
    training: Training,
    rungs: Sequence[int],
    checkpoints: Checkpoints | None = None,
) -> Contender[Model]:
    """Begin, or go on where a checkpoint was, and climb these rungs: one journey to another process."""
    start, attempt = task
    own = copy.deepcopy(model)
    saved = None if checkpoints is None else checkpoints.load(attempt.key)
    if saved is None:
        start(own, data.training, attempt.seed)
        communicator().same(own.state_dict())
    contender = Contender(start, attempt, Run.start(own, data, training, attempt.seed, make_objective), checkpoints)
    if saved is not None:
        contender.restore(saved)
    for until in rungs:
        contender = contender.climb(data.training, until)
    return contender
