"""L-BFGS where one pass over all pairs of sites and atoms takes seconds: a part of the data shows the way.

What L-BFGS needs many passes for is the curvature, and some observations among their own atoms have nearly that of all.
So it climbs on a part first, whose free energy is tilted: where the climb begins its gradient is that of all the data,
and what it arrives at is off by what the curvatures differ, no longer by what the maxima do. It goes on with all
observations and all atoms, its memory kept, until nothing is left to gain: a dozen passes instead of forty
(docs/results/optimum.md). What it ends at is the maximum of all the data; the part costs time, or saves it.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np
import torch
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import Batch
from rpmodels.learning.climbing import LOWEST, STILL, Climbed, Penalty, lbfgs, loss_of, value_of
from rpmodels.learning.objective import RPMObjective
from rpmodels.learning.trainable import copied
from rpmodels.observations import Observations

ITERATIONS = 30
"""On the part."""
PATIENCE = 5
"""Passes that together gain next to nothing are the last."""


class _EndedError(Exception):
    """Ends a climb from within."""

    def __init__(self, still: bool) -> None:
        super().__init__()
        self.still = still


class _Watch:
    """The highest value of all passes and where that was; ends a climb whose passes gain next to nothing."""

    def __init__(self, objective: RPMObjective, value: float) -> None:
        self._objective = objective
        self._highest = [value]
        self._kept = copied(objective.state_dict())

    @property
    def passes(self) -> int:
        """How many there were."""
        return len(self._highest) - 1

    @property
    def highest(self) -> float:
        """Of all."""
        return self._highest[-1]

    def see(self, value: float) -> None:
        """The value where the objective is now."""
        highest = self.highest
        if value > highest:
            self._kept, highest = copied(self._objective.state_dict()), value
        self._highest.append(highest)
        if not math.isfinite(value):
            raise _EndedError(still=False)
        if self.passes > PATIENCE and highest - self._highest[-1 - PATIENCE] < STILL * max(1.0, abs(highest)):
            raise _EndedError(still=True)

    def go_back(self) -> None:
        """To the highest, and begin to count anew."""
        self._objective.load_state_dict(self._kept)
        self._highest = self._highest[-1:]


def climb_long(
    objective: RPMObjective, observations: Observations, penalty: Penalty, part: int, passes: int
) -> Climbed:
    """As `climb`: on so many observations first, and then by so many passes over all of them, at most."""
    model = objective.model
    everyone = np.arange(len(observations))
    some = np.sort(np.random.default_rng(0).choice(everyone, min(part, len(everyone)), replace=False))
    batch, ahead = (observations.batch(index, model.dtype, model.device) for index in (everyone, some))
    with torch.enable_grad(), model.prior.by_gradient():
        start = -float(loss_of(objective, batch, penalty).detach())
        before = start + penalty.value(objective)
        begin, watch = copied(objective.state_dict()), _Watch(objective, start)
        optimiser, shown = lbfgs(objective), -math.inf
        with suppress(errors.NumericalError):
            _climb_part(objective, ahead, penalty, optimiser)
            shown = value_of(objective, batch, penalty)
        if not shown > start:
            watch.go_back()
            optimiser = lbfgs(objective)

        def loss() -> Tensor:
            total = loss_of(objective, batch, penalty)
            watch.see(-float(total.detach()))
            return total

        still = _climb_whole(optimiser, loss, passes)
        if shown > start and not watch.highest > shown + STILL * max(1.0, abs(shown)):
            # Nothing higher than where the part led: it may be the maximum, or a memory that misleads.
            watch.go_back()
            still = _climb_whole(lbfgs(objective), loss, passes)
        still = still and watch.passes < passes
        watch.go_back()
        value = _settled(objective, batch, penalty)
        if not value >= start:
            objective.load_state_dict(begin)
            return Climbed(0.0, before, start, False)
        reached = value + penalty.value(objective)
        return Climbed(reached - before, reached, value, still and value > LOWEST)


def _climb_part(objective: RPMObjective, part: Batch, penalty: Penalty, optimiser: torch.optim.LBFGS) -> None:
    """Up the free energy of the part, tilted so that where it begins its gradient is the present one."""
    parameters = list(optimiser.param_groups[0]["params"])
    wanted, begin = _gradients(parameters), [each.detach().clone() for each in parameters]
    loss_of(objective, part, penalty)
    tilts = [one - other for one, other in zip(wanted, _gradients(parameters), strict=True)]

    def tilted() -> Tensor:
        total = loss_of(objective, part, penalty)
        for parameter, own, tilt, at in zip(parameters, _gradients(parameters), tilts, begin, strict=True):
            parameter.grad = own + tilt
            total = total + (tilt * (parameter.detach() - at)).sum()
        return total

    group = optimiser.param_groups[0]
    group["max_iter"], group["max_eval"] = ITERATIONS, 2 * ITERATIONS
    optimiser.step(tilted)  # type: ignore[no-untyped-call]
    # Its last step is one of another function, and must not be taken for curvature.
    optimiser.state[group["params"][0]]["t"] = 0.0


def _gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    return [torch.zeros_like(each) if each.grad is None else each.grad.clone() for each in parameters]


def _climb_whole(optimiser: torch.optim.LBFGS, loss: Callable[[], Tensor], passes: int) -> bool:
    """Until nothing is left to gain, or all passes are taken; False where numbers fail."""
    group = optimiser.param_groups[0]
    group["max_iter"] = group["max_eval"] = passes
    try:
        optimiser.step(loss)  # type: ignore[no-untyped-call]
    except _EndedError as end:
        return end.still
    except errors.NumericalError:
        return False
    return True


def _settled(objective: RPMObjective, batch: Batch, penalty: Penalty) -> float:
    """The value once what variational Bayes learns has followed."""
    value = value_of(objective, batch, penalty)
    before = copied(objective.state_dict())
    objective.after_step()
    same = all(torch.equal(before[name], each) for name, each in objective.state_dict().items())
    return value if same else value_of(objective, batch, penalty)
