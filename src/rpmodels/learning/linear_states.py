"""A start at the states that linear networks find under a penalty that is taken away little by little.

Under a strong penalty the free energy of a linear model has fewer poor optima: a few directions that the factors
share most tell a few states apart. As the penalty weakens, states divide, each from where it was. Networks with a
linear map beside them begin there; others are taught the states, and go on to a higher free energy than from clusters
(docs/results/optimum.md).
"""

import copy
import math
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rpmodels import errors
from rpmodels.families import FiniteSupport
from rpmodels.fitted import FittedRPM
from rpmodels.learning.climbing import Penalty, climb
from rpmodels.learning.linear_start import begins_straight, straight, straighten
from rpmodels.learning.loop import GOAL
from rpmodels.learning.objective import RPMObjective
from rpmodels.learning.starts import Start
from rpmodels.learning.teaching import MANY, teach
from rpmodels.model import RPM
from rpmodels.observations import FactorSpec, Observations
from rpmodels.recognition import Linear, LookupTable, reinitialise
from rpmodels.seeding import seeded

NUMBERS = 2**21
"""Of all observations together, that the linear model is fitted to; more are recognised afterwards."""
STRENGTHS = (0.1, 0.03, 0.01)
"""Of the penalty, for every observation, one after the other; weaker ones at the end led to nothing better."""
ROUNDS = 2
"""Of L-BFGS under each."""
LEAST = 0.05
"""Free energy, in nats, below which a penalty has left nothing, and weights are drawn anew for the next."""


class LinearStates(Start):
    """Fresh weights, and what linear networks of the same factors find."""

    name = "linear states"
    taught = True

    def __init__(self, longest: int | None = None) -> None:
        self.longest = longest

    def __call__(self, model: RPM, observations: Observations, seed: int) -> int | None:
        """Fit the linear model; then it is the model, or teaches it. Where numbers fail, weights are random."""
        with seeded(seed):
            reinitialise(model.recognition)
        n_states = cast(FiniteSupport, model.prior.family).n_states
        numbers = sum(math.prod(spec.event_shape) for spec in observations.specs.values())
        part = observations.some(max(n_states, NUMBERS // max(1, numbers)))
        try:
            with seeded(seed):
                if begins_straight(model):
                    _begin(model, part)
                    return None
                twin = descend(_twin(model), part)
            observations = observations.some(MANY)
            found = _states(twin, part, observations)
        except errors.NumericalError:
            with seeded(seed):
                reinitialise(model.recognition)
            return None
        return teach(model, observations, found[:, None], seed, self.longest)


def _begin(model: RPM, observations: Observations) -> None:
    """The model is the linear one, but for its prior: how often a state is there is for the steps to say."""
    before = copy.deepcopy(model.prior.state_dict())
    with straight(model):
        descend(model, observations)
    straighten(model)
    model.prior.load_state_dict(before)


def descend(model: RPM, observations: Observations) -> RPM:
    """Draw linear networks anew and take them to the maximum under every penalty, from the strongest on."""
    objective = RPMObjective(model, observations).eval()
    reached = 0.0
    for strength in STRENGTHS:
        if reached < LEAST:
            reinitialise(model.recognition)
        climb(objective, observations, Penalty(strength * objective.n_observations), ROUNDS)
        reached = _value(objective, observations)
    return model


def _twin(model: RPM) -> RPM:
    """The same model with a linear map or a table in the place of every network; those that are shared stay shared."""
    twin = copy.deepcopy(model)
    made: dict[int, nn.Module] = {}
    for name, factor in twin.recognisers():
        if factor.is_generative:  # a table already, of another kind
            continue
        key = id(factor.network)
        if key not in made:
            made[key] = _plain(model.specs[name], factor.family.raw_size)
        factor.network = made[key]
    return twin.to(model.device, model.dtype)


def _plain(spec: FactorSpec, n_out: int) -> nn.Module:
    if spec.vocabulary is not None:
        return LookupTable(len(spec.vocabulary), n_out)
    return Linear(spec.event_shape, n_out)


@torch.no_grad()
def _value(objective: RPMObjective, observations: Observations) -> float:
    model = objective.model
    return float(objective(observations.batch(np.arange(len(observations)), model.dtype, model.device))[GOAL])


def _states(model: RPM, part: Observations, observations: Observations) -> NDArray[np.int64]:
    """The most probable ones of all observations, F_j over those that the model was fitted to."""
    fitted = FittedRPM.collected(model.eval(), part)
    found = [inferred.posterior.mu[:, 0].argmax(-1) for inferred in fitted.posterior(observations)]
    return np.asarray(torch.cat(found).cpu().numpy(), np.int64)
