"""Which weights of a run are the best, and when none better will come: held-out observations say so."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.learning.batches import Divided
from rpmodels.learning.convergence import LAST, RISING
from rpmodels.learning.loop import Objective, State, Values
from rpmodels.learning.trainable import copied

FIRST = 0
"""The step before all others: a start that was taught may be better than anything that follows."""


class HeldOut:
    """Scores validation observations, and as many training ones, every few steps; keeps the best weights.

    Weights are better when the same observations score higher by more than the standard error of the difference: what
    is less is noise of a few observations, and a fit that goes on for it learns its training data by heart.
    """

    def __init__(self, objective: Objective[Any], data: Divided, patience: int, batch_size: int | None) -> None:
        assert data.validation is not None
        self._objective = objective
        held_out = data.held_out
        training = _spread(data.index, len(held_out))
        # Side by side: one pass through the networks for both.
        self._scored = data.everything.subset(np.concatenate([training, held_out]))
        self._parts = np.split(np.arange(len(self._scored)), [len(training)])
        atoms = batch_size or len(data.training)
        everyone = np.arange(len(data.training))
        self._atoms = data.training if atoms >= len(everyone) else data.training.subset(_spread(everyone, atoms))
        self._every = max(1, patience // 10)
        self._patience = patience
        self._best: NDArray[np.float64] | None = None
        self._best_step = FIRST
        self._weights: dict[str, Any] = {}
        self.curve: list[dict[str, float]] = []

    @property
    def best(self) -> float:
        """The highest score so far."""
        return -math.inf if self._best is None else float(self._best.mean())

    def begin(self, step: int) -> None:
        """Look at where training begins, once."""
        if not self.curve:
            self._look(step)

    def __call__(self, state: State) -> None:
        """Score now and then; ask to stop once nothing better came for `patience` steps."""
        if state.step % self._every:
            return
        self._look(state.step)
        if state.step - self._best_step >= self._patience:
            state.stop_reason = f"held-out score no better than {self.best:.3f} nats at step {self._best_step}"

    def state(self) -> dict[str, Any]:
        """What it has seen, and the best weights."""
        best = None if self._best is None else self._best.tolist()
        return {"best": best, "step": self._best_step, "weights": self._weights, "curve": self.curve}

    def restore(self, state: Mapping[str, Any]) -> None:
        """As if it had seen that."""
        self._best = self.scores(state["best"])
        self._best_step, self._weights, self.curve = state["step"], state["weights"], list(state["curve"])

    @staticmethod
    def scores(best: Any) -> Values | None:
        """Of every held-out observation, as `state` keeps them."""
        return None if best is None else np.asarray(best, np.float64)

    @torch.no_grad()
    def _look(self, step: int) -> None:
        self._objective.eval()
        try:
            training, validation = self._objective.scored(self._scored, self._parts, self._atoms)
        except errors.NumericalError:  # weights of the moment, which nobody keeps
            training = validation = np.array([-math.inf])
        self._objective.train()
        self.curve.append({"step": step, "training": float(training.mean()), "validation": float(validation.mean())})
        if self._better(validation):
            self._best, self._best_step = validation, step
            self._weights = copied(self._objective.state_dict())

    def _better(self, values: NDArray[np.float64]) -> bool:
        if not np.isfinite(values).all():
            return False
        if self._best is None:
            return True
        gained = values - self._best
        return bool(gained.mean() > gained.std() / math.sqrt(max(1, len(gained) - 1)))

    @staticmethod
    def rises(curve: Sequence[Mapping[str, float]]) -> bool:
        """Whether held-out observations gained more than a little in the last fifth of the steps."""
        if len(curve) < 2:
            return False
        before = [row["validation"] for row in curve if row["step"] <= (1.0 - LAST) * curve[-1]["step"]]
        best = max(row["validation"] for row in curve)
        return best - max(before) > RISING * abs(best)

    def finish(self, step: int) -> bool:
        """One last look, then the weights of the best held-out score; whether they are those of the start."""
        if not self.curve or self.curve[-1]["step"] != step:
            self._look(step)
        if self._weights:
            self._objective.load_state_dict(self._weights)
        return bool(self._weights) and self._best_step == FIRST


def _spread(index: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """So many of them, at equal distances; all, where they are no more."""
    return index if count >= len(index) else index[np.arange(count) * (len(index) // count)]
