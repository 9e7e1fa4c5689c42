"""The phases of a fit: strong regularisation while it searches, the usual one for the rest, more atoms at its end.

Where networks learn their observations by heart, every partition of them scores well and the free energy cannot tell
a good start from a poor one. Dropout and decay that are too strong for the end of a fit make it tell; they are relaxed
for the last steps (docs/results/optimum.md).

Few atoms in a step leave a bias that no number of steps removes, and cost little: they are for the way there.
"""

from typing import Any

from torch.optim import Optimizer

from rpmodels.learning.loop import Consumer, Objective, State
from rpmodels.learning.optimisers import set_decay
from rpmodels.learning.settings import TrainingSettings
from rpmodels.recognition import Dropout, RecognitionFactor

HIGHEST = 0.5
"""Dropout is never stronger."""


class Relaxing:
    """Consumer that multiplies dropout, input dropout and decay for the first share of the steps."""

    def __init__(self, objective: Objective[Any], optimiser: Optimizer, training: TrainingSettings, step: int) -> None:
        self._objective, self._optimiser, self._training = objective, optimiser, training
        self._set(step)

    def __call__(self, state: State) -> None:
        """At the step from which on the usual strength is enough."""
        if state.step == self._last:
            self._set(state.step)

    @property
    def _last(self) -> int:
        strong = self._training.strong
        return 0 if strong is None else round(strong.share * self._training.max_iter)

    def _set(self, step: int) -> None:
        strong = self._training.strong
        if strong is None:
            return
        on = step < self._last
        inputs = {id(m.input_dropout) for m in self._objective.modules() if isinstance(m, RecognitionFactor)}
        for module in self._objective.modules():
            if isinstance(module, Dropout):
                times = strong.input_dropout if id(module) in inputs else strong.dropout
                module.p = min(max(HIGHEST, module.usual), times * module.usual) if on else module.usual
        set_decay(self._optimiser, self._training.weight_decay * (strong.weight_decay if on else 1.0))


class LastSteps:
    """Consumer that tells the objective when the last steps begin."""

    def __init__(self, objective: Objective[Any], first: int, step: int) -> None:
        self._objective, self._first = objective, first
        objective.take_last_steps(step >= first)

    def __call__(self, state: State) -> None:
        """At the first of them."""
        if state.step == self._first:
            self._objective.take_last_steps(True)


def phases(
    objective: Objective[Any], optimiser: Optimizer, training: TrainingSettings, step: int, longest: int
) -> list[Consumer]:
    """What changes on the way, for a run that is at this step and has so many."""
    found: list[Consumer] = [LastSteps(objective, round((1.0 - training.low_rate) * longest), step)]
    if training.strong is not None:
        found.append(Relaxing(objective, optimiser, training, step))
    return found
