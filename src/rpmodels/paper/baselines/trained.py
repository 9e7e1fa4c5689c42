"""What the trained baselines share: a module that the library's own runs and restarts can train."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn

from rpmodels.carriers import Batch
from rpmodels.learning import Attempt, Context, Objective, Plan, Run, Start, TrainingSettings, tournament
from rpmodels.learning.batches import divide
from rpmodels.learning.loop import Consumer
from rpmodels.observations import Observations
from rpmodels.recognition import reinitialise
from rpmodels.seeding import seeded, spawn


class BaselineModel(nn.Module, ABC):
    """A module with recognition networks and a training criterion of its own."""

    def __init__(self, recognition: nn.Module) -> None:
        super().__init__()
        self.recognition = recognition

    @abstractmethod
    def terms(self, batch: Batch, n_observations: float) -> Mapping[str, Tensor]:
        """Named scalar terms of a batch; `free_energy` is what is maximised, whatever else it may be called."""

    @abstractmethod
    def after_step(self) -> None:
        """What is learnt without gradients (a codebook of moving averages)."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""
        return next(self.parameters()).dtype

    @property
    def device(self) -> torch.device:
        """Where they are."""
        return next(self.parameters()).device

    def collect(self, observations: Observations) -> None:
        """Nothing is computed from all the data."""


class BaselineObjective(Objective[BaselineModel]):
    """The criterion of a baseline, for the loop."""

    def __init__(self, model: BaselineModel, observations: Observations) -> None:
        super().__init__()
        self.model = model
        self._n = float(observations.weights.sum())

    def forward(self, batch: Batch) -> Mapping[str, Tensor]:
        """The model's own terms."""
        return self.model.terms(batch, self._n)

    def after_step(self) -> None:
        """The model's own."""
        self.model.after_step()

    def fitted(self, observations: Observations) -> BaselineModel:
        """The model, with what it computes from all the data."""
        self.model.collect(observations)
        return self.model


class FreshStart(Start):
    """Every weight drawn anew, decoders too."""

    name = "random"

    def __call__(self, model: BaselineModel, observations: Observations, seed: int) -> None:
        """All that knows how to draw itself."""
        with seeded(seed):
            reinitialise(model)


Baseline = TypeVar("Baseline", bound=BaselineModel)


def fit_best(
    model: Baseline,
    observations: Observations,
    training: TrainingSettings,
    *,
    n_init: int,
    interval: int,
    random_state: int,
    callbacks: Sequence[Consumer] | None = None,
) -> tuple[Run[Baseline], list[Attempt]]:
    """The best of `n_init` random starts by the training criterion, as every RPM is chosen."""
    seeds = spawn(random_state, 2)
    data = divide(observations, training.validation_fraction, seeds[0])
    starts = [FreshStart() for _ in range(n_init)]
    plan = Plan(model, training, starts, interval, objective=BaselineObjective)
    return tournament(plan, data, Context(seeds[1], consumers=list(callbacks or ())))
