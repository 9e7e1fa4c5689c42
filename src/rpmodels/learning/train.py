"""A training run of one model, and the public `train`."""

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, MultiStepLR

from rpmodels import errors
from rpmodels.carriers import Batch
from rpmodels.checks import Function, Integer, Nothing, Number, Rule, shown
from rpmodels.communicator import Communicator
from rpmodels.learning.alternation import Alternation
from rpmodels.learning.batches import Divided, Minibatches, divide
from rpmodels.learning.consumers import History, Plateau, Progress
from rpmodels.learning.distributed import communicator
from rpmodels.learning.feeding import Feed
from rpmodels.learning.held_out import HeldOut
from rpmodels.learning.loop import Consumer, Objective, State, steps
from rpmodels.learning.rescue import Rescue
from rpmodels.learning.trainable import Model, Trainable
from rpmodels.model import RPM, Inferred
from rpmodels.observations import Observations
from rpmodels.seeding import seeded, spawn

logger = logging.getLogger("rpmodels")

RULES: Mapping[str, Rule] = {
    "max_iter": Integer(1),
    "learning_rate": Number(above=0.0),
    "batch_size": Integer(2) | Nothing(),
    "weight_decay": Number(least=0.0),
    "max_gradient_norm": Number(above=0.0) | Nothing(),
    "tol": Number(least=0.0) | Nothing(),
    "patience": Integer(1),
    "validation_fraction": Number(least=0.0, below=1.0),
    "alternate": Nothing() | Integer(1),
    "optimiser": Nothing() | Function("a function: parameters → torch optimiser"),
    "scheduler": Nothing() | Function("a function: optimiser → torch scheduler"),
    "workers": Integer(0),
}
"""What the settings of a run may be."""


@dataclass(frozen=True)
class Training:
    """How to train: the one block of settings that `train`, restarts and estimators share.

    Args:
        max_iter: gradient steps at most
        learning_rate: of AdamW; dropped once, tenfold, for the last `settle` of the steps
        batch_size: observations a step; None for all
        weight_decay: on the weights of the recognition networks, not on biases
        max_gradient_norm: clipping; None for none
        tol, patience: stop when the mean free energy gains less than tol over `patience` steps; None: never.
            With validation, stop when the held-out score has not improved for `patience` steps
        validation_fraction: share of observations held out to stop by
        settle: share of the steps after the drop of the learning rate
        alternate: train the trials' own parameters (of a free E-step) and all others by turns of so many steps;
            None for jointly
        optimiser, scheduler: factories that replace the default AdamW and the drop
        workers: processes that read batches ahead of time; for data on disk or made on the way

    """

    max_iter: int = 1000
    learning_rate: float = 1e-3
    batch_size: int | None = 500
    weight_decay: float = 0.0
    max_gradient_norm: float | None = None
    tol: float | None = None
    patience: int = 200
    validation_fraction: float = 0.0
    settle: float = 0.3
    alternate: int | None = None
    optimiser: Callable[[Iterable[Any]], Optimizer] | None = None
    scheduler: Callable[[Optimizer], LRScheduler] | None = None
    workers: int = 0

    def __post_init__(self) -> None:
        for name, rule in RULES.items():
            rule.check(name, getattr(self, name))

    def make_optimiser(self, model: Trainable) -> Optimizer:
        """The user's, or AdamW with decay on weight matrices only."""
        if self.optimiser is not None:
            return _made("optimiser", self.optimiser, model.parameters(), Optimizer)
        decayed = [p for p in model.recognition.parameters() if p.ndim > 1]
        chosen = {id(p) for p in decayed}
        rest = [p for p in model.parameters() if id(p) not in chosen]
        groups = [
            {"params": params, "weight_decay": decay}
            for params, decay in ((decayed, self.weight_decay), (rest, 0.0))
            if params
        ]
        # Fused: one call for all parameters, which matters when a step takes milliseconds.
        return torch.optim.AdamW(groups, lr=self.learning_rate, fused=True)

    def make_scheduler(self, optimiser: Optimizer) -> LRScheduler | None:
        """The user's, or one tenfold drop."""
        if self.scheduler is not None:
            return _made("scheduler", self.scheduler, optimiser, LRScheduler)
        return MultiStepLR(optimiser, [max(1, round(self.max_iter * (1 - self.settle)))])


Made = TypeVar("Made")


def _made(what: str, factory: Callable[[Any], Made], given: Any, kind: type[Made]) -> Made:
    """What a factory of the user's gives, checked."""
    try:
        made = factory(given)
    except Exception as failure:
        raise errors.factory_failed(what, failure) from failure
    if not isinstance(made, kind):
        raise errors.bad_value(what, f"a function that returns a torch {kind.__name__}", f"one of {shown(made)}")
    return made


@runtime_checkable
class Saver(Protocol):
    """A consumer that keeps a run somewhere."""

    def __call__(self, state: State) -> None:
        """After a step."""

    def now(self) -> None:
        """At once."""


class RPMObjective(Objective):
    """The free energy of a batch, and the prior's closed-form update after the step."""

    shares = True

    def __init__(self, model: RPM, n_observations: float) -> None:
        self._model = model
        self._n = n_observations
        self._last: Inferred | None = None

    def __call__(self, batch: Batch) -> Mapping[str, Tensor]:
        """Named terms, weighted means over the batch (in several processes, this one's part of them)."""
        try:
            self._last = self._model.evaluate(batch, self._n, self.communicator)
        except errors.NumericalError as failure:
            if self.communicator.size > 1:
                raise errors.failed_together(self.communicator.rank, failure) from failure
            raise
        return self._last.energy.means(batch.weights, batch.total_weight)

    @torch.no_grad()
    def after_step(self) -> None:
        """prior.update from the posterior of this step."""
        if self._last is None:
            return
        prior, batch = self._model.prior, self._last.batch
        sums = prior.sums(self._last.posterior, batch.weights)
        if sums and self.communicator.size > 1:
            flat = self.communicator.summed(torch.cat([each.reshape(-1) for each in sums.values()]))
            parts = torch.split(flat, [each.numel() for each in sums.values()])
            sums = {name: part.reshape(sums[name].shape) for name, part in zip(sums, parts, strict=True)}
        prior.update(sums, min(1.0, float(batch.total_weight) / self._n))
        self._last = None


MakeObjective = Callable[[Any, float], Objective]
"""From a model and the number of observations (their weights) to what is maximised."""


@dataclass
class Run(Generic[Model]):
    """One start of one model. Holds no data, so that it can travel between processes and halves of a fit."""

    model: Model
    make_objective: MakeObjective
    training: Training
    batches: Minibatches
    optimiser: Optimizer
    scheduler: LRScheduler | None
    history: History = field(default_factory=History)
    step: int = 0
    stop_reason: str | None = None
    validation_curve: list[dict[str, float]] = field(default_factory=list)
    rescues: int = 0
    """In the advance that is under way."""
    interrupted: bool = False
    restorable: bool = True
    """Whether a copy of this moment is one that a rescue would go back to."""
    _stopping: HeldOut | Plateau | None = None
    _stopping_state: Mapping[str, Any] | None = None

    @staticmethod
    def start(
        model: Model, data: Divided, training: Training, seed: int, make_objective: MakeObjective = RPMObjective
    ) -> "Run[Model]":
        """A run at step 0; the model must be prepared with the training part."""
        optimiser = training.make_optimiser(model)
        batches = Minibatches(len(data.training), training.batch_size, seed)
        return Run(model, make_objective, training, batches, optimiser, training.make_scheduler(optimiser))

    def _feed(self, observations: Observations, until: int, others: Communicator) -> Iterator[tuple[Batch, int]]:
        beside = self.model.lender.beside if isinstance(self.model, RPM) else 0
        feed = Feed(observations, others, beside, self.training.workers, self.model.dtype, self.model.device)
        batches = feed.batches(self.batches)
        while self.step < until:
            yield next(batches)

    def advance(self, observations: Observations, until: int, consumers: Sequence[Consumer] = ()) -> None:
        """Train to step `until`, or to the first consumer that asks to stop."""
        self.model.train()
        objective = self.make_objective(self.model, float(observations.weights.sum()))
        if objective.shares:
            objective.communicator = communicator()
        rescue = Rescue(self.model, self.optimiser, self.scheduler, self.step, self.rescues)
        every: list[Consumer] = [self.history, rescue, *consumers]
        turns = None
        if self.training.alternate is not None and list(self.model.rows.parameters()):
            turns = Alternation(self.model, self.training.alternate, self.step)
            every.append(turns)
        limit = self.training.max_gradient_norm
        feed = self._feed(observations, until, objective.communicator)
        try:
            for state in steps(objective, feed, self.optimiser, self.scheduler, limit, self.step):
                self.step, state.model = state.step, self.model
                for consumer in every:
                    # Those that save come last, and see what the others did.
                    self.rescues, self.restorable = rescue.rescues, rescue.step == state.step
                    consumer(state)
                _agree(state, objective.communicator)
                if state.stop_reason is not None:
                    self.stop_reason = state.stop_reason
                    break
        finally:
            if turns is not None:
                turns.end()
            self.rescues, self.restorable = 0, True

    def finish(self, data: Divided, consumers: Sequence[Consumer] = (), saving: Sequence[Saver] = ()) -> None:
        """Train to the end with the usual stopping, then make F_j over all the data.

        An interrupt from the keyboard ends the training, not the run: what was learnt so far is kept.
        """
        self._stopping = self._make_stopping(data)
        stopping: list[Consumer] = [] if self._stopping is None else [self._stopping]
        if self.stop_reason is None:
            try:
                self.advance(data.training, self.training.max_iter, [*stopping, *consumers, *saving])
                for each in saving:
                    each.now()
            except KeyboardInterrupt:
                # Processes of a group are interrupted at different steps: none of them can go on.
                if not self.history.any_finite or communicator().size > 1:
                    raise
                self.interrupt()
        if not self.history.any_finite:
            raise errors.diverged(self.step, self.step)
        if isinstance(self._stopping, HeldOut):
            self._stopping.finish(self.step)
            self.validation_curve = self._stopping.curve
        self._stopping = None  # it holds data
        self.stop_reason = self.stop_reason or f"max_iter = {self.training.max_iter} steps"
        logger.info("stopped at step %d: %s", self.step, self.stop_reason)
        with seeded(self.batches.step_seed()):  # some p₀ are drawn from
            self.model.collect(data.everything)

    def _make_stopping(self, data: Divided) -> HeldOut | Plateau | None:
        stopping: HeldOut | Plateau | None = None
        if data.validation is not None:
            objective = self.make_objective(self.model, float(data.training.weights.sum()))
            stopping = HeldOut(self.model, objective, data.training, data.validation, self.training.patience)
        elif self.training.tol is not None:
            stopping = Plateau(self.training.tol, self.training.patience)
        if stopping is not None and self._stopping_state is not None:
            stopping.restore(self._stopping_state)
        return stopping

    def interrupt(self) -> None:
        """Train no further."""
        self.interrupted = True
        self.stop_reason = f"interrupted at step {self.step}"
        warnings.warn(errors.interrupted(self.step, self.training.max_iter), stacklevel=2)

    def state(self) -> dict[str, Any]:
        """Everything that the steps to come depend on, as plain values and tensors."""
        return {
            "model": self.model.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "batches": self.batches.state(),
            "history": self.history.table(),
            "step": self.step,
            "stop_reason": self.stop_reason,
            "rescues": self.rescues,
            "stopping": None if self._stopping is None else self._stopping.state(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self.model.load_state_dict(state["model"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.batches.restore(state["batches"])
        self.history.restore(state["history"])
        self.step, self.stop_reason, self.rescues = state["step"], state["stop_reason"], state["rescues"]
        self._stopping_state = state["stopping"]

    def recent(self) -> float:
        """Mean free energy over the last epoch: what restarts are judged by."""
        return self.history.recent(max(10, self.batches.per_epoch))


def _agree(state: State, others: Communicator) -> None:
    """All processes stop when one has a reason to (a clock, a callback of the user's)."""
    if others.size > 1 and float(others.summed(torch.tensor(float(state.stop_reason is not None)))):
        state.stop_reason = state.stop_reason or "another process of the group had a reason to stop"


def train(
    model: RPM,
    observations: Observations,
    training: Training | None = None,
    *,
    random_state: Any = None,
    callbacks: Sequence[Callable[[State], None]] = (),
    verbose: bool = False,
    **settings: Any,
) -> Run[RPM]:
    """Train an RPM on observations: scaling, loop, rescue, stopping, and F_j over all data at the end.

    `settings` are fields of `Training`, for those who do not want to build one. Returns the run: its
    history, its stop reason, and the model, ready for `infer`.
    """
    if training is not None and settings:
        raise errors.bad_value("settings", "either a Training or its fields", f"both ({', '.join(settings)})")
    chosen = training or Training(**settings)
    seeds = spawn(random_state, 2)
    data = divide(observations, chosen.validation_fraction, seeds[0])
    model.prepare(data.training)
    run = Run.start(model, data, chosen, seeds[1])
    progress = Progress(chosen.max_iter, verbose, type(model.prior).__name__)
    try:
        run.finish(data, [progress, *callbacks])
    finally:
        progress.close()
    return run
