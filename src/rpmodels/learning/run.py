"""A training run of one model: a state machine that can stop, travel to another process, and go on from a file."""

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from rpmodels import errors
from rpmodels.carriers import Batch
from rpmodels.communicator import ALONE
from rpmodels.learning import consumers
from rpmodels.learning.alternation import Alternation
from rpmodels.learning.batch_reader import BatchReader
from rpmodels.learning.batches import Divided, Minibatches
from rpmodels.learning.distributed import communicator
from rpmodels.learning.held_out import HeldOut
from rpmodels.learning.loop import Consumer, MakeObjective, Objective, Values, steps
from rpmodels.learning.objective import RPMObjective
from rpmodels.learning.optimisers import shorten
from rpmodels.learning.relaxing import phases
from rpmodels.learning.rescue import Rescue
from rpmodels.learning.settings import TrainingSettings
from rpmodels.learning.trainable import Model
from rpmodels.observations import Observations
from rpmodels.seeding import seeded

logger = logging.getLogger("rpmodels")


@dataclass
class Run(Generic[Model]):
    """One start of one model. Holds no data, so that it can travel between processes and halves of a fit."""

    objective: Objective[Model]
    training: TrainingSettings
    batches: Minibatches
    optimiser: Optimizer
    scheduler: LRScheduler | None
    history: consumers.History = field(default_factory=consumers.History)
    step: int = 0
    lessons: int = 0
    """Steps that were lessons: the run has as many fewer."""
    stop_reason: str | None = None
    validation_curve: list[dict[str, float]] = field(default_factory=list)
    rescues: int = 0
    """In the advance that is under way."""
    interrupted: bool = False
    converged: bool = False
    """Whether more steps would have changed little."""
    gained: float = 0.0
    """Nats by which the deterministic end has raised the free energy of the last steps."""
    fitted: Any = None
    """What `finish` made."""
    restorable: bool = True
    """Whether a copy of this moment is one that a rescue would go back to."""
    _stopping: HeldOut | consumers.Plateau | None = None
    _stopping_state: Mapping[str, Any] | None = None

    @staticmethod
    def start(
        model: Model, data: Divided, training: TrainingSettings, seed: int, make_objective: MakeObjective = RPMObjective
    ) -> "Run[Model]":
        """A run at step 0; the model must be prepared with the training part."""
        objective = make_objective(model, data.training)
        optimiser = training.make_optimiser(objective)
        batches = Minibatches(len(data.training), training.batch_size, seed)
        return Run(objective, training, batches, optimiser, training.make_scheduler(optimiser))

    @property
    def model(self) -> Model:
        """What is trained."""
        return self.objective.model

    def _read(self, observations: Observations, until: int) -> Iterator[tuple[Batch, int]]:
        objective, model = self.objective, self.model
        how = (objective.group, objective.beside, self.training.workers, model.dtype, model.device)
        batches = BatchReader(observations, *how).batches(self.batches)
        while self.step < until:
            yield next(batches)

    def advance(
        self,
        observations: Observations,
        until: int,
        consumers: Sequence[Consumer] = (),
        stopping: HeldOut | consumers.Plateau | None = None,
    ) -> None:
        """Train to step `until`, or to the first consumer that asks to stop; not at all where one has asked before."""
        if self.stop_reason is not None:
            return
        self._stopping = stopping
        try:
            self._advance(observations, until, [*([] if stopping is None else [stopping]), *consumers])
        finally:
            if stopping is not None:
                self._stopping_state = stopping.state()
            self._stopping = None  # it holds data

    def _advance(self, observations: Observations, until: int, others: Sequence[Consumer]) -> None:
        objective = self.objective
        objective.train()
        objective.group = communicator() if objective.shares else ALONE
        rescue = Rescue(objective, self.optimiser, self.scheduler, self.step, self.rescues)
        every: list[Consumer] = [self.history, rescue, *others]
        every += phases(objective, self.optimiser, self.training, self.step, self.longest)
        turns = None
        if self.training.alternate is not None and objective.local_parameters():
            turns = Alternation(objective, self.training.alternate, self.step)
            every.append(turns)
        limit = self.training.max_gradient_norm
        batches = self._read(observations, until)
        try:
            for state in steps(objective, batches, self.optimiser, self.scheduler, limit, self.step):
                self.step, state.model = state.step, self.model
                for consumer in every:
                    # Those that save come last, and see what the others did.
                    self.rescues, self.restorable = rescue.rescues, rescue.step == state.step
                    consumer(state)
                consumers.stop_together(state, objective.group)
                if state.stop_reason is not None:
                    self.stop_reason = state.stop_reason
                    break
            rescue.end(self.step)
        except KeyboardInterrupt:
            rescue.end(self.step)
            raise
        finally:
            if turns is not None:
                turns.end()
            self.rescues, self.restorable = 0, True

    def finish(
        self,
        data: Divided,
        consumers: Sequence[Consumer] = (),
        saving: Sequence[consumers.Saver] = (),
        settle: Callable[[Model, Observations], None] | None = None,
        until: int | None = None,
        rivals: Sequence["Run[Model]"] = (),
    ) -> Sequence[float]:
        """Train to the end with the usual stopping, then make what the training was for from all the data.

        `until`: the last step, where a deterministic end needs no more. `rivals`: runs from other starts, whose own
        deterministic end is taken where it is higher; returned is where this run and each of them has ended, if so.
        `settle`: called with all observations where held-out ones have found nothing better than the start.
        An interrupt from the keyboard ends the training, not the run: what was learnt so far is kept.
        """
        stopping = self._make_stopping(data)
        if self.stop_reason is None:
            try:
                self.advance(data.training, until or self.longest, [*consumers, *saving], stopping)
                for each in saving:
                    each.now()
            except KeyboardInterrupt:
                # Processes of a group are interrupted at different steps: none of them can go on.
                if not self.history.any_finite or communicator().size > 1:
                    raise
                self.interrupt()
        if not self.history.any_finite:
            raise errors.diverged(self.step, self.step)
        if isinstance(stopping, HeldOut):
            at_start = stopping.finish(self.step)
            self.validation_curve = stopping.curve
            if at_start and settle is not None:
                communicator().first_does(lambda: settle(self.model, data.usable))
                communicator().same(self.objective.state_dict())
        reached: Sequence[float] = ()
        if stopping is not None and self.stop_reason is not None and not self.interrupted:
            self.converged = True
        else:
            reached = self._close(data, [rival.objective for rival in rivals])
        logger.info("stopped at step %d: %s", self.step, self.stop_reason)
        with seeded(self.batches.step_seed()):  # some p₀ are drawn from
            self.fitted = self.objective.fitted(data.everything)
        self.objective.eval()
        return reached

    def _close(self, data: Divided, rivals: Sequence[Objective[Model]]) -> Sequence[float]:
        """What comes after the last step, unless somebody wanted an earlier end; else the trend says if it has arrived.

        Weights that held-out observations have chosen stay as they are.
        """
        if self.stop_reason is None:
            self.stop_reason = self.training.told(self.step, self.lessons, self.longest)
            others = communicator()
            ended = None
            if data.validation is None:
                ended = others.first_does(lambda: self.training.finish(self.objective, data.training, rivals))
            if ended is not None:
                others.same(self.objective.state_dict())
                self.stop_reason += f", then {ended.reason}"
                self.converged, self.gained = ended.converged, ended.gained
                return ended.reached
        trend = self.history.trend()
        self.converged = trend is not None and not trend.rising and not HeldOut.rises(self.validation_curve)
        return ()

    def _make_stopping(self, data: Divided) -> HeldOut | consumers.Plateau | None:
        stopping: HeldOut | consumers.Plateau | None = self.held_out(data)
        if stopping is None and self.training.tol is not None:
            stopping = consumers.Plateau(self.training.tol, self.training.patience)
            if self._stopping_state is not None:
                stopping.restore(self._stopping_state)
        return stopping

    def held_out(self, data: Divided) -> HeldOut | None:
        """Who watches the score of held-out observations, with what was seen so far; None where there are none."""
        if data.validation is None:
            return None
        watching = HeldOut(self.objective.alone(), data, self.training.patience, self.training.batch_size)
        if self._stopping_state is not None:
            watching.restore(self._stopping_state)
        watching.begin(self.step)
        return watching

    @property
    def taken(self) -> int:
        """All steps so far, those of lessons among them."""
        return self.step + self.lessons

    @property
    def longest(self) -> int:
        """Steps up the free energy that it may have: those that lessons have left, half of all at least."""
        return max((self.training.max_iter + 1) // 2, self.training.max_iter - self.lessons)

    def taught(self, steps: int) -> None:
        """A lesson has taken so many of its steps."""
        self.lessons += steps
        shorten(self.scheduler, self.longest)

    def unseen(self) -> None:
        """As if no held-out observation had been looked at: for a model that was changed by other means than steps."""
        self._stopping_state, self.stop_reason = None, None

    def interrupt(self) -> None:
        """Train no further."""
        self.interrupted = True
        self.stop_reason = f"interrupted at step {self.step}"
        warnings.warn(errors.interrupted(self.step, self.training.max_iter), stacklevel=2)

    def state(self) -> dict[str, Any]:
        """Everything that the steps to come depend on, as plain values and tensors."""
        return {
            "objective": self.objective.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "batches": self.batches.state(),
            "history": self.history.table(),
            "step": self.step,
            "lessons": self.lessons,
            "stop_reason": self.stop_reason,
            "rescues": self.rescues,
            "stopping": self._stopping_state if self._stopping is None else self._stopping.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.objective.load_state_dict(state["objective"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.batches.restore(state["batches"])
        self.history.restore(state["history"])
        self.step, self.stop_reason, self.rescues = state["step"], state["stop_reason"], state["rescues"]
        self.lessons, self._stopping_state = state["lessons"], state["stopping"]

    @property
    def record(self) -> consumers.Record:
        """What became of it."""
        return consumers.Record(
            self.history.table(), self.taken, self.stop_reason or "", self.validation_curve, self.converged
        )

    def recent(self) -> float:
        """Mean free energy over the last epoch."""
        return self.history.recent(self._window)

    def judged(self) -> float:
        """What starts are compared by: the best held-out score, where there is one, else `recent`."""
        best = self.held_out_scores()
        return self.recent() if best is None else float(best.mean())

    def held_out_scores(self) -> Values | None:
        """Of every held-out observation, at its best; None where there are none."""
        best = (self._stopping_state or {}).get("best")
        return HeldOut.scores(best)

    def noise(self) -> float:
        """Standard error of `recent`."""
        return self.history.noise(self._window)

    @property
    def _window(self) -> int:
        return max(10, self.batches.per_epoch)
