"""Early stopping on a held-out score, both curves on the same number of atoms."""

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels.learning.loop import State
from rpmodels.model import RPM
from rpmodels.observations import Observations


class HeldOut:
    """Scores validation observations, and as many training ones, every few steps; keeps the best weights.

    A mixture of n atoms costs a score about (K − 1)/2n nats a factor, so a fair pair of curves needs equal n.
    """

    def __init__(
        self,
        model: RPM,
        observations: Observations,
        training: NDArray[np.int64],
        validation: NDArray[np.int64],
        every: int,
        patience: int,
    ) -> None:
        self._model = model
        self._observations = observations
        self._pair = (training[:: max(1, len(training) // len(validation))][: len(validation)], validation)
        self._every = every
        self._patience = patience
        self._best = -np.inf
        self._best_step = 0
        self._weights: dict[str, Any] = copy.deepcopy(model.state_dict())
        self.curve: list[dict[str, float]] = []

    def __call__(self, state: State) -> None:
        """Score now and then; ask to stop once nothing better came for `patience` steps."""
        if state.step % self._every:
            return
        training, validation = (self._score(index) for index in self._pair)
        self.curve.append({"step": state.step, "training": training, "validation": validation})
        if validation > self._best:
            self._best, self._best_step = validation, state.step
            self._weights = copy.deepcopy(self._model.state_dict())
        elif state.step - self._best_step >= self._patience:
            state.stop_reason = (
                f"held-out score {validation:.3f} nats, no better than {self._best:.3f} at step {self._best_step}"
            )

    @torch.no_grad()
    def _score(self, index: NDArray[np.int64]) -> float:
        self._model.eval()
        batch = self._observations.batch(index, self._model.dtype, self._model.device)
        energy = self._model.evaluate(batch, float(self._observations.weights.sum())).energy
        self._model.train()
        return float(energy.means(batch.weights)["free_energy"])

    def restore_best(self) -> None:
        """The weights of the best held-out score."""
        self._model.load_state_dict(self._weights)
