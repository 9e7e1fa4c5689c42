"""The one optimiser, and the one schedule of its rate."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from rpmodels.recognition import gains

LOWEST = 0.01
"""Of the rate, at the last step."""


def adamw(recognition: nn.Module, parameters: Iterable[nn.Parameter], rate: float, decay: float = 0.0) -> Optimizer:
    """AdamW on these parameters, with the gains of the networks among them, and decay of their weight matrices only."""
    by_gain = gains(recognition)
    kinds: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for parameter in parameters:
        decays = parameter in by_gain and parameter.ndim > 1
        kinds.setdefault((decays, by_gain.get(parameter, 1.0)), []).append(parameter)
    groups: list[dict[str, Any]] = [
        {"params": each, "gain": gain, "decays": decays, "lr": rate * gain} for (decays, gain), each in kinds.items()
    ]
    # Fused: one call for all parameters, which matters when a step takes milliseconds.
    optimiser = torch.optim.AdamW(groups, lr=rate, fused=True)
    set_decay(optimiser, decay)
    return optimiser


def set_decay(optimiser: Optimizer, decay: float) -> None:
    """AdamW shrinks weights by rate × decay a step; a gain is for what is learnt, not for what decays.

    An optimiser of the user's own keeps its decay.
    """
    for group in optimiser.param_groups:
        if "decays" in group:
            group["weight_decay"] = decay / group["gain"] if group["decays"] else 0.0


def flat_then_cosine(optimiser: Optimizer, steps: int, low_rate: float) -> LRScheduler:
    """The full rate, then along a cosine to a hundredth of it over the last `low_rate` of the steps."""
    return LambdaLR(optimiser, _Share(steps, low_rate))


def shorten(scheduler: LRScheduler | None, steps: int) -> None:
    """The same for a fit that has so many steps after all; a schedule of the user's own stays as it is."""
    if isinstance(scheduler, LambdaLR):
        scheduler.lr_lambdas = [
            replace(each, steps=steps) if isinstance(each, _Share) else each for each in scheduler.lr_lambdas
        ]


@dataclass(frozen=True)
class _Share:
    """Of the rate, at every step: an object and no closure, as runs travel between processes."""

    steps: int
    low_rate: float

    def __call__(self, step: int) -> float:
        first = self.steps * (1.0 - self.low_rate)
        done = (step - first) / max(1.0, self.steps - first)
        return LOWEST + (1.0 - LOWEST) * 0.5 * (1.0 + math.cos(math.pi * min(1.0, max(0.0, done))))
