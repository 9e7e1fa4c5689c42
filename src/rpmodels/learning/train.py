"""A training run of one model, and the public `train`."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, MultiStepLR

from rpmodels import checks, errors
from rpmodels.carriers import Batch
from rpmodels.learning.alternation import Alternation
from rpmodels.learning.batches import Divided, Minibatches, divide
from rpmodels.learning.consumers import History, Plateau, Progress
from rpmodels.learning.held_out import HeldOut
from rpmodels.learning.loop import Consumer, Objective, State, steps
from rpmodels.learning.rescue import Rescue
from rpmodels.model import RPM, Inferred
from rpmodels.observations import Observations
from rpmodels.seeding import seeded, spawn

logger = logging.getLogger("rpmodels")


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

    def __post_init__(self) -> None:
        checks.integer("max_iter", self.max_iter, 1)
        checks.number("learning_rate", self.learning_rate, above=0.0)
        if self.batch_size is not None:
            checks.integer("batch_size", self.batch_size, 2)
        checks.number("weight_decay", self.weight_decay, least=0.0)
        checks.integer("patience", self.patience, 1)
        if self.alternate is not None:
            checks.integer("alternate", self.alternate, 1)
        checks.number("validation_fraction", self.validation_fraction, least=0.0, below=1.0)

    def make_optimiser(self, model: RPM) -> Optimizer:
        """The user's, or AdamW with decay on weight matrices only."""
        if self.optimiser is not None:
            return self.optimiser(model.parameters())
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
            return self.scheduler(optimiser)
        return MultiStepLR(optimiser, [max(1, round(self.max_iter * (1 - self.settle)))])


class RPMObjective(Objective):
    """The free energy of a batch, and the prior's closed-form update after the step."""

    def __init__(self, model: RPM, n_observations: float) -> None:
        self._model = model
        self._n = n_observations
        self._last: Inferred | None = None

    def __call__(self, batch: Batch) -> Mapping[str, Tensor]:
        """Named terms, weighted means over the batch."""
        self._last = self._model.evaluate(batch, self._n)
        return self._last.energy.means(batch.weights)

    @torch.no_grad()
    def after_step(self) -> None:
        """prior.update from the posterior of this step."""
        if self._last is not None:
            weights = self._last.batch.weights
            self._model.prior.update(self._last.posterior, weights, min(1.0, float(weights.sum()) / self._n))
            self._last = None


@dataclass
class Run:
    """One start of one model. Holds no data, so that it can travel between processes and halves of a fit."""

    model: RPM
    training: Training
    batches: Minibatches
    optimiser: Optimizer
    scheduler: LRScheduler | None
    history: History = field(default_factory=History)
    step: int = 0
    stop_reason: str | None = None
    validation_curve: list[dict[str, float]] = field(default_factory=list)

    @staticmethod
    def start(model: RPM, data: Divided, training: Training, seed: int) -> "Run":
        """A run at step 0; the model must be prepared with the training part."""
        optimiser = training.make_optimiser(model)
        batches = Minibatches(len(data.training), training.batch_size, seed)
        return Run(model, training, batches, optimiser, training.make_scheduler(optimiser))

    def _feed(self, observations: Observations, until: int) -> Iterator[tuple[Batch, int]]:
        batch = None
        while self.step < until:
            if batch is None or self.batches.per_epoch > 1:  # all the data are the same batch every time
                batch = observations.batch(self.batches.next(), self.model.dtype, self.model.device)
            yield batch, self.batches.step_seed()

    def advance(self, observations: Observations, until: int, consumers: Sequence[Consumer] = ()) -> None:
        """Train to step `until`, or to the first consumer that asks to stop."""
        self.model.train()
        objective = RPMObjective(self.model, float(observations.weights.sum()))
        rescue = Rescue(self.model, self.optimiser, self.scheduler, self.step)
        every: list[Consumer] = [self.history, rescue, *consumers]
        turns = None
        if self.training.alternate is not None and list(self.model.rows):
            turns = Alternation(self.model, self.training.alternate, self.step)
            every.append(turns)
        limit = self.training.max_gradient_norm
        feed = self._feed(observations, until)
        for state in steps(objective, feed, self.optimiser, self.scheduler, limit, self.step):
            self.step = state.step
            for consumer in every:
                consumer(state)
            if state.stop_reason is not None:
                self.stop_reason = state.stop_reason
                break
        if turns is not None:
            turns.end()

    def finish(self, data: Divided, consumers: Sequence[Consumer] = ()) -> None:
        """Train to the end with the usual stopping, then make F_j over all the data."""
        held_out = None
        stopping: list[Consumer] = []
        if data.validation is not None:
            held_out = HeldOut(self.model, data.training, data.validation, self.training.patience)
            stopping = [held_out]
        elif self.training.tol is not None:
            stopping = [Plateau(self.training.tol, self.training.patience)]
        self.advance(data.training, self.training.max_iter, [*stopping, *consumers])
        if not self.history.any_finite:
            raise errors.diverged(self.step, self.step)
        if held_out is not None:
            held_out.finish(self.step)
            self.validation_curve = held_out.curve
        self.stop_reason = self.stop_reason or f"max_iter = {self.training.max_iter} steps"
        logger.info("stopped at step %d: %s", self.step, self.stop_reason)
        with seeded(self.batches.step_seed()):  # some p₀ are drawn from
            self.model.collect(data.everything)

    def recent(self) -> float:
        """Mean free energy over the last epoch: what restarts are judged by."""
        return self.history.recent(max(10, self.batches.per_epoch))


def train(
    model: RPM,
    observations: Observations,
    training: Training | None = None,
    *,
    random_state: Any = None,
    callbacks: Sequence[Callable[[State], None]] = (),
    verbose: bool = False,
    **settings: Any,
) -> Run:
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


def device_of(name: str | torch.device) -> torch.device:
    """The device by name: "auto" is CUDA where there is one, else the CPU; MPS only when named."""
    if isinstance(name, str) and name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as failure:
        raise errors.bad_value(
            "device", "'auto', 'cpu', or a device of this machine", f"{name!r} ({failure})"
        ) from failure
    return device


def dtype_of(name: str | torch.dtype) -> torch.dtype:
    """float32 or float64."""
    known = {"float32": torch.float32, "float64": torch.float64}
    chosen = known.get(name) if isinstance(name, str) else name
    if chosen not in known.values():
        raise errors.bad_choice("dtype", known, name)
    assert chosen is not None
    return chosen


__all__ = ["Run", "Training", "device_of", "dtype_of", "train"]
