"""Rescue after a NaN: back to the last good state, with half the step."""

import warnings
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from rpmodels import errors
from rpmodels.learning.loop import State, learning_rate
from rpmodels.learning.trainable import copied

EVERY = 25
LIMIT = 5


class Rescue:
    """Keeps a copy of the last good state; a non-finite step brings it back and halves the learning rate."""

    def __init__(
        self, module: nn.Module, optimiser: Optimizer, scheduler: LRScheduler | None, step: int = 0, rescues: int = 0
    ) -> None:
        self._module = module
        self._optimiser = optimiser
        self._scheduler = scheduler
        self.rescues = rescues
        self._good = self._snapshot(step)

    def _snapshot(self, step: int) -> tuple[int, dict[str, Any], dict[str, Any]]:
        return step, copied(self._module.state_dict()), copied(self._optimiser.state_dict())

    @property
    def step(self) -> int:
        """Of the last good state."""
        return self._good[0]

    def __call__(self, state: State) -> None:
        """Keep a good state now and then; bring it back after a bad one."""
        if not state.finite:
            self._go_back(state.step)
        # The free energy was finite before the step; the weights must be so after it.
        elif state.step % EVERY == 0 and self._is_finite():
            self._good = self._snapshot(state.step)

    def end(self, step: int) -> None:
        """The last step has no next one to notice it: whenever a run pauses or ends, its numbers are finite."""
        if self._is_finite():
            return
        if self.step == 0:
            self._go_back(step)
            raise errors.never_finite(step)
        self._go_back(step)

    def _is_finite(self) -> bool:
        """Of parameters, and of what a closed-form M-step has written."""
        finite = all(bool(torch.isfinite(each).all()) for each in self._module.parameters())
        return finite and not any(bool(torch.isnan(each).any()) for each in self._module.buffers())  # bounds may be ∞

    def _go_back(self, now: int) -> None:
        step, weights, moments = self._good
        # Rates stay where the schedule has brought them by now, halved: those of the copy may be higher. So does decay.
        rates = [group["lr"] for group in self._optimiser.param_groups]
        decays = [group.get("weight_decay") for group in self._optimiser.param_groups]
        self._module.load_state_dict(weights)
        self._optimiser.load_state_dict(moments)
        self.rescues += 1
        if self.rescues > LIMIT:
            raise errors.diverged(now, LIMIT)
        for group, rate, decay in zip(self._optimiser.param_groups, rates, decays, strict=True):
            group["lr"] = 0.5 * rate
            if decay is not None:
                group["weight_decay"] = decay
        if self._scheduler is not None:  # a schedule that computes from its base goes on from the lowered one
            self._scheduler.base_lrs = [rate * 0.5 for rate in self._scheduler.base_lrs]
        warnings.warn(errors.rescued(now, step, learning_rate(self._optimiser)), stacklevel=2)
