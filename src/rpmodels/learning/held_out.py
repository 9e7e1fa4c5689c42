"""Early stopping on a held-out score, both curves on the same number of atoms."""

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from rpmodels.learning.loop import GOAL, Objective, State
from rpmodels.observations import Observations


class HeldOut:
    """Scores validation observations, and as many training ones, every few steps; keeps the best weights.

    A mixture of n atoms costs a score about (K − 1)/2n nats a factor, so a fair pair of curves needs equal n.
    """

    def __init__(
        self, objective: Objective[Any], training: Observations, validation: Observations, patience: int
    ) -> None:
        self._objective = objective
        count = min(len(training), len(validation))
        self._pair = tuple(part.subset(np.arange(count) * (len(part) // count)) for part in (training, validation))
        self._every = max(1, patience // 10)
        self._patience = patience
        self._best = -np.inf
        self._best_step = 0
        self._weights: dict[str, Any] = copy.deepcopy(objective.state_dict())
        self.curve: list[dict[str, float]] = []

    def __call__(self, state: State) -> None:
        """Score now and then; ask to stop once nothing better came for `patience` steps."""
        if state.step % self._every:
            return
        self._look(state.step)
        if state.step - self._best_step >= self._patience:
            state.stop_reason = f"held-out score no better than {self._best:.3f} nats at step {self._best_step}"

    def state(self) -> dict[str, Any]:
        """What it has seen, and the best weights."""
        return {"best": self._best, "step": self._best_step, "weights": self._weights, "curve": self.curve}

    def restore(self, state: Mapping[str, Any]) -> None:
        """As if it had seen that."""
        self._best, self._best_step, self._weights = state["best"], state["step"], state["weights"]
        self.curve = list(state["curve"])

    def _look(self, step: int) -> None:
        training, validation = (self._score(part) for part in self._pair)
        self.curve.append({"step": step, "training": training, "validation": validation})
        if validation > self._best:
            self._best, self._best_step = validation, step
            self._weights = copy.deepcopy(self._objective.state_dict())

    @torch.no_grad()
    def _score(self, part: Observations) -> float:
        objective = self._objective
        objective.eval()
        batch = part.batch(np.arange(len(part)), objective.model.dtype, objective.model.device)
        score = float(objective(batch)[GOAL])
        objective.train()
        return score

    def finish(self, step: int) -> None:
        """One last look, then the weights of the best held-out score."""
        if not self.curve or self.curve[-1]["step"] != step:
            self._look(step)
        self._objective.load_state_dict(self._weights)
