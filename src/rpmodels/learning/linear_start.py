"""A start at the best linear model: networks that have a linear map beside them begin as nothing but that.

Where observations are linear in the latents, no network can do better, and one that tries learns its data by heart;
where they are not, the network goes on from there. Held-out observations say which (learning/held_out.py).
"""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from rpmodels import errors
from rpmodels.learning.batches import Divided
from rpmodels.learning.finish import NoFinish
from rpmodels.learning.loop import GOAL
from rpmodels.learning.objective import RPMObjective
from rpmodels.learning.run import Run
from rpmodels.learning.settings import TrainingSettings
from rpmodels.learning.starts import Lesson, Start, TaughtStart
from rpmodels.learning.trainable import copied
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.recognition import ConstantPrecision, WithLinear, has_no_hidden_layer, reinitialise
from rpmodels.seeding import seeded

SHARE = 0.5
"""Of the steps of a fit that linear maps may take with their lesson, where L-BFGS cannot."""
MANY = 100
"""Observations that tell whether a lesson was worth something."""


class LinearStart(Start):
    """Another taught start of the linear maps alone, then their deterministic end; after it networks begin at zero.

    Where some network has no linear map beside it, or the lesson was worth less than `enough` nats an observation, that
    other start and nothing else.
    """

    taught = True

    def __init__(self, start: TaughtStart, training: TrainingSettings, enough: float = -math.inf) -> None:
        self.start, self.training, self.enough = start, training, enough
        self.name = start.name

    def __call__(self, model: RPM, observations: Observations, seed: int) -> int | None:
        """Teach, climb, and straighten the networks."""
        if not begins_straight(model):
            return self.start(model, observations, seed)
        lesson = self.start.find(model, observations, seed)
        with seeded(seed):
            reinitialise(model.recognition)
        before = copied(model.state_dict())
        with straight(model):
            taken = self._learnt(model, lesson, observations, seed)
        if taken is None:
            model.load_state_dict(before)
            return self.start.begin(model, lesson, seed)
        straighten(model)
        return taken

    def _learnt(self, model: RPM, lesson: Lesson | None, observations: Observations, seed: int) -> int | None:
        """Bring the linear model to its end; the steps that it took, or None where that was not worth it."""
        try:
            taken = self.start.begin(model, lesson, seed) or 0
            objective = RPMObjective(model, observations)
            # Parameters of single observations would be learnt here and forgotten.
            if objective.local_parameters() or _free_energy(objective, observations) < self.enough:
                return None
            finish = self.training.finish
            if not finish.is_short(objective, observations) or finish(objective, observations) is None:
                taken += self._walk(model, observations, seed, taken)
        except errors.NumericalError:
            return None
        return taken

    def settle(self, model: RPM, observations: Observations) -> None:
        """The deterministic end of the linear maps once more, with all observations."""
        if _is_straight(model):
            with straight(model), suppress(errors.NumericalError):
                self.training.finish(RPMObjective(model, observations), observations)

    def _walk(self, model: RPM, observations: Observations, seed: int, taken: int) -> int:
        """Some steps, where data are too many for a deterministic end."""
        steps = max(1, math.ceil(SHARE * self.training.max_iter) - taken)
        training = replace(self.training, max_iter=steps, validation_fraction=0.0, finish=NoFinish())
        run = Run.start(model, Divided.undivided(observations), training, seed)
        run.advance(observations, steps)
        return steps


@torch.no_grad()
def _free_energy(objective: RPMObjective, observations: Observations) -> float:
    """Of some observations."""
    model = objective.eval().model
    some = observations.some(MANY)
    return float(objective(some.batch(np.arange(len(some)), model.dtype, model.device))[GOAL])


def begins_straight(model: RPM) -> bool:
    """Whether some networks have a linear map beside them, and all others are linear themselves."""
    networks = [factor.network for _, factor in model.recognisers()]
    return bool(_wrapped(model)) and all(_has_linear_part(network) for network in networks)


def straighten(model: RPM) -> None:
    """Networks that have a linear map beside them are nothing but that, and learn to be more."""
    for each in _wrapped(model):
        each.straighten()


def _is_straight(model: RPM) -> bool:
    return bool(_wrapped(model)) and all(each.is_straight() for each in _wrapped(model))


def _wrapped(model: RPM) -> list[WithLinear]:
    return [each for each in model.recognition.modules() if isinstance(each, WithLinear)]


@contextmanager
def straight(model: RPM) -> Iterator[None]:
    """Inside, every network is its linear map: the same numbers, so that what they learn stays."""
    whole = [(factor, factor.network) for _, factor in model.recognisers()]
    parts = {id(network): _linear_part(network) for _, network in whole}
    for factor, network in whole:
        factor.network = parts[id(network)]
    try:
        yield
    finally:
        for factor, network in whole:
            factor.network = network


def _has_linear_part(network: nn.Module) -> bool:
    if isinstance(network, ConstantPrecision):
        return _has_linear_part(network.network)
    return isinstance(network, WithLinear) or has_no_hidden_layer(network)


def _linear_part(network: nn.Module) -> nn.Module:
    if isinstance(network, WithLinear):
        return network.linear
    if not isinstance(network, ConstantPrecision):
        return network
    part = copy.copy(network)
    part._modules = {"network": _linear_part(network.network)}
    return part
