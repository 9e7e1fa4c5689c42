"""The one training loop: a generator that yields after every step, and the little that consumers read.

`objective(batch) → named terms` is the whole contract, so a baseline trains here without knowing what
an RPM is. Stopping, rescue, progress, history and callbacks are consumers of `State`.
"""

import copy
import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from rpmodels.carriers import Batch
from rpmodels.communicator import ALONE, Communicator
from rpmodels.learning.trainable import Model
from rpmodels.observations import Observations
from rpmodels.seeding import seeded

Own = TypeVar("Own", bound="Objective[Any]")

Values = NDArray[np.float64]
"""A number for every observation."""
Parts = Sequence[NDArray[np.int64]]
"""Which observations belong to each of several parts."""
GOAL = "free_energy"
"""The term that is maximised."""


class Objective(nn.Module, ABC, Generic[Model]):
    """What is trained: a model, and whatever its steps need beside it. Its parameters are those that learn."""

    model: Model
    group: Communicator = ALONE
    """Whom it shares its batches with. Then its terms are this process's part of their sums."""
    shares: bool = False
    """Whether it can: one that cannot is given whole batches, the same in all processes."""
    beside: int = 0
    """Further observations that every batch must bring along."""

    @abstractmethod
    def forward(self, batch: Batch) -> Mapping[str, Tensor]:
        """Named scalar terms of a batch, `free_energy` among them."""

    @abstractmethod
    def after_step(self) -> None:
        """The closed-form part of the M-step, after the gradient step."""

    def take_last_steps(self, last: bool) -> None:
        """Whether the steps to come are the last ones, in which the rate falls."""

    def skip_step(self) -> None:
        """What a step that was not taken has left behind."""

    @abstractmethod
    def fitted(self, observations: Observations) -> Any:
        """What the training was for, from all the data, after the last step."""

    def scored(self, observations: Observations, parts: Parts, atoms: Observations) -> list[Values]:
        """What is maximised, of every observation of these parts; `atoms` is training data to compare them with.

        By default one number for a part.
        """
        model = self.model
        batches = [observations.batch(each, model.dtype, model.device) for each in parts]
        return [np.array([float(self(batch)[GOAL])]) for batch in batches]

    def is_direct(self) -> bool:
        """Whether the free energy of all the data is a smooth function of numbers near natural parameters."""
        return False

    def local_parameters(self) -> list[nn.Parameter]:
        """Parameters that belong to single observations."""
        return []

    def alone(self: Own) -> Own:
        """The same, with the same parameters, as one process by itself computes it."""
        single = copy.copy(self)
        single.group = ALONE
        return single


MakeObjective = Callable[[Any, Observations], Objective[Any]]
"""From a prepared model and the training observations to what is maximised."""


@dataclass
class State:
    """What a consumer sees after a step, and how it asks the loop to stop."""

    step: int
    terms: dict[str, float]
    finite: bool
    """False when the free energy or a gradient was not: then no step was taken."""
    learning_rate: float
    stop_reason: str | None = None
    model: Any = None
    """What is trained, in training mode: to be looked at, not changed."""


Consumer = Callable[[State], None]


def steps(
    objective: Objective[Any],
    batches: Iterable[tuple[Batch, int]],
    optimiser: Optimizer,
    scheduler: LRScheduler | None = None,
    max_gradient_norm: float | None = None,
    start: int = 0,
) -> Iterator[State]:
    """Gradient steps for as long as the caller asks, one per (batch, seed)."""
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    others = objective.group
    # Optimisers that search along a line (LBFGS) must evaluate the objective themselves.
    searches = inspect.signature(type(optimiser).step).parameters["closure"].default is inspect.Parameter.empty
    for step, (batch, seed) in enumerate(batches, start + 1):

        def forward_backward(batch: Batch = batch, seed: int = seed) -> tuple[Mapping[str, Tensor], Tensor]:
            optimiser.zero_grad(set_to_none=True)
            with seeded(seed + others.rank):  # dropout of its own in every process
                terms = objective(batch)
                (-terms[GOAL]).backward()
            summed = others.sum_gradients(parameters, torch.stack([each.detach() for each in terms.values()]))
            return dict(zip(terms, summed, strict=True)), _clipped(parameters, max_gradient_norm)

        terms, norm = forward_backward()
        values = dict(zip(terms, torch.stack([*terms.values()]).tolist(), strict=True))
        finite = math.isfinite(float(norm)) and math.isfinite(values[GOAL])
        rate = learning_rate(optimiser)
        if finite:
            if searches:
                optimiser.step(lambda: float(-forward_backward()[0][GOAL]))
            else:
                optimiser.step()
            objective.after_step()
            _advance(scheduler, values[GOAL])
        else:
            objective.skip_step()
        yield State(step, values, finite, rate)


def learning_rate(optimiser: Optimizer) -> float:
    """As the user gave it and the schedule left it: of a parameter whose gain is 1."""
    first = optimiser.param_groups[0]
    return float(first["lr"]) / float(first.get("gain", 1.0))


def _clipped(parameters: list[nn.Parameter], limit: float | None) -> Tensor:
    """The norm of the gradient, which then is no longer than the limit."""
    if limit is not None:
        return torch.nn.utils.clip_grad_norm_(parameters, limit)
    gradients = [each.grad for each in parameters if each.grad is not None]
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
    return norm


def _advance(scheduler: LRScheduler | None, goal: float) -> None:
    if isinstance(scheduler, ReduceLROnPlateau):
        scheduler.step(-goal)
    elif scheduler is not None:
        scheduler.step()
