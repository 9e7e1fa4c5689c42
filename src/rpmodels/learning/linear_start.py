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
"""Of the steps of a fit that linear maps may take, where L-BFGS cannot."""
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

    def __call__(self, model: RPM, observations: Observations, seed: int) -> None:
        """Teach, climb, and straighten the networks."""
        networks = [factor.network for _, factor in model.recognisers()]
        wrapped = [each for network in networks for each in network.modules() if isinstance(each, WithLinear)]
        if not wrapped or not all(_has_linear_part(network) for network in networks):
            self.start(model, observations, seed)
            return
        lesson = self.start.find(model, observations, seed)
        with seeded(seed):
            reinitialise(model.recognition)
        before = copied(model.state_dict())
        with _straight(model):
            learnt = self._learnt(model, lesson, observations, seed)
        if not learnt:
            model.load_state_dict(before)
            self.start.begin(model, lesson, seed)
            return
        for each in wrapped:
            each.straighten()

    def _learnt(self, model: RPM, lesson: Lesson | None, observations: Observations, seed: int) -> bool:
        """Bring the linear model to its end; whether that was worth it."""
        try:
            self.start.begin(model, lesson, seed)
            objective = RPMObjective(model, observations)
            # Parameters of single observations would be learnt here and forgotten.
            if objective.local_parameters() or _free_energy(objective, observations) < self.enough:
                return False
            if self.training.finish(objective, observations) is None:
                self._walk(model, observations, seed)
        except errors.NumericalError:
            return False
        return True

    def settle(self, model: RPM, observations: Observations) -> None:
        """The deterministic end of the linear maps once more, with all observations."""
        if self._is_straight(model):
            with _straight(model), suppress(errors.NumericalError):
                self.training.finish(RPMObjective(model, observations), observations)

    def _is_straight(self, model: RPM) -> bool:
        wrapped = [each for each in model.recognition.modules() if isinstance(each, WithLinear)]
        return bool(wrapped) and all(each.is_straight() for each in wrapped)

    def _walk(self, model: RPM, observations: Observations, seed: int) -> None:
        """Some steps, where data are too many for a deterministic end."""
        steps = math.ceil(SHARE * self.training.max_iter)
        training = replace(self.training, max_iter=steps, validation_fraction=0.0, finish=NoFinish())
        run = Run.start(model, Divided.undivided(observations), training, seed)
        run.advance(observations, steps)


@torch.no_grad()
def _free_energy(objective: RPMObjective, observations: Observations) -> float:
    """Of some observations."""
    model = objective.eval().model
    some = observations.some(MANY)
    return float(objective(some.batch(np.arange(len(some)), model.dtype, model.device))[GOAL])


@contextmanager
def _straight(model: RPM) -> Iterator[None]:
    """Inside, every network is its linear map: the same numbers, so that what they learn stays."""
    whole = [(factor, factor.network) for _, factor in model.recognisers()]
    straight = {id(network): _linear_part(network) for _, network in whole}
    for factor, network in whole:
        factor.network = straight[id(network)]
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
