"""The deterministic end of a fit: all data, all atoms, no noise, until the free energy stands still.

Steps on batches leave a model near its optimum, and how near depends on their size and number. Where every number of a
model is close to a natural parameter (linear maps, tables, constants) L-BFGS goes the rest of the way: in double
precision, without dropout or decay, F_j over all atoms. Of networks with hidden layers the noise of the steps is the
regulariser, and they are left where it brought them (docs/results/optimum.md).
"""

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Batch
from rpmodels.learning.loop import GOAL, Objective
from rpmodels.learning.objective import RPMObjective
from rpmodels.mixtures import Empirical, Kind
from rpmodels.observations import Observations
from rpmodels.recognition import LookupTable

PAIRS = 2**24
"""Of sites and atoms, above which a pass over all of them is too long."""
NUMBERS = 2**25
"""Of all observations together, likewise."""
ROUNDS = 20
ITERATIONS = 20
"""Of L-BFGS in a round."""
STILL = 1e-5
"""A round that gains less, relative to the free energy, ends the fit."""
PLENTY = 50
"""Rows for every input channel, from which on the maximum of the likelihood is not one of noise."""
HELD_OUT = 5
"""One in so many observations judges whether the maximum is, where rows are fewer."""


@dataclass(frozen=True)
class Finished:
    """What became of it."""

    converged: bool
    gained: float
    """Nats per observation."""
    reason: str


class Finish(ABC):
    """What comes after the last step."""

    @abstractmethod
    def __call__(self, objective: Objective[Any], observations: Observations) -> Finished | None:
        """Change the objective's parameters in place for the better; None where there is nothing that it could do."""


class NoFinish(Finish):
    """The parameters of the last step."""

    def __call__(self, objective: Objective[Any], observations: Observations) -> Finished | None:
        """Nothing."""
        return None


class QuasiNewton(Finish):
    """L-BFGS on the free energy of all the data, for small models without hidden layers."""

    def __call__(self, objective: Objective[Any], observations: Observations) -> Finished | None:
        """Climb; where rows are few, only if what climbs on four fifths of them is better on the fifth."""
        if not isinstance(objective, RPMObjective) or not _is_direct(objective, observations):
            return None
        exact = copy.deepcopy(objective.alone()).to(torch.float64).eval()
        start = copy.deepcopy(exact.state_dict())
        if not _plenty(objective, observations) and not _pays(exact, observations):
            return Finished(True, 0.0, "L-BFGS would learn the noise of so few rows")
        exact.load_state_dict(start)
        before, after, still = climb(exact, _whole(exact, observations))
        objective.load_state_dict(exact.state_dict())
        return Finished(still, after - before, f"L-BFGS: {after - before:+.3g} nats")


def _is_direct(objective: RPMObjective, observations: Observations) -> bool:
    """Whether the free energy of all the data is a smooth function of few numbers, and what the fit maximises."""
    model = objective.model
    atoms = int(observations.exists.sum()) if model.atoms.shared else len(observations)
    pairs = len(model.names) * atoms * int(observations.exists.sum()) * model.expected_log_mixture.numbers_per_pair
    return (
        objective.group.size == 1
        and not objective.local_parameters()
        and isinstance(model.marginal, Empirical)
        and model.expected_log_mixture.kind is not Kind.ESTIMATE
        and all(_has_no_hidden_layer(each.network) for _, each in model.recognisers())
        and pairs <= PAIRS
        and sum(each.size for each in observations.values.values()) <= NUMBERS
    )


def _has_no_hidden_layer(network: nn.Module) -> bool:
    """Whether it is a table or one linear map, with or without constants beside it."""
    weights = [each for each in network.modules() if isinstance(each, nn.Linear | LookupTable)]
    known = {id(parameter) for each in weights for parameter in each.parameters()}
    others = [each for each in network.parameters() if id(each) not in known]
    return len(weights) == 1 and all(each.ndim == 1 for each in others) and _all_learn(network)


def _all_learn(network: nn.Module) -> bool:
    return all(parameter.requires_grad for parameter in network.parameters())


def _plenty(objective: RPMObjective, observations: Observations) -> bool:
    """Whether there are rows enough for the number of input channels."""
    widest = max(math.prod(spec.event_shape) for spec in observations.specs.values())
    return bool(observations.exists.sum() >= PLENTY * widest)


def _whole(objective: RPMObjective, observations: Observations) -> Batch:
    return observations.batch(np.arange(len(observations)), torch.float64, objective.model.device)


def _pays(objective: RPMObjective, observations: Observations) -> bool:
    """Whether climbing on most of the observations raises the free energy of the others."""
    order = np.random.default_rng(len(observations)).permutation(len(observations))
    parts = order[len(order) // HELD_OUT :], order[: len(order) // HELD_OUT]
    if min(len(part) for part in parts) < 2:
        return False
    training, others = (_whole(objective, observations.subset(np.sort(part))) for part in parts)
    with torch.no_grad():
        before = float(objective(others)[GOAL])
        climb(objective, training)
        return float(objective(others)[GOAL]) > before


def climb(objective: RPMObjective, batch: Batch) -> tuple[float, float, bool]:
    """Free energy of the batch before and after, and whether it stands still; parameters are changed in place.

    Tables that EM learns in closed form take part by gradient; what variational Bayes learns follows after every round.
    A round that ends lower, or nowhere, is undone.
    """
    prior = objective.model.prior
    with torch.enable_grad(), prior.by_gradient():
        parameters = [each for each in objective.parameters() if each.requires_grad]
        value = before = _value(objective, batch)
        still = False
        for _ in range(ROUNDS):
            kept = copy.deepcopy(objective.state_dict())
            try:
                _round(objective, batch, parameters)
                _value(objective, batch)
                objective.after_step()
                reached = _value(objective, batch)
            except errors.NumericalError:
                reached = math.nan
            if not reached > value:
                objective.load_state_dict(kept)
                still = True
                break
            gain, value = reached - value, reached
            if gain < STILL * max(1.0, abs(value)):
                still = True
                break
    return before, value, still


def _round(objective: RPMObjective, batch: Batch, parameters: list[nn.Parameter]) -> None:
    optimiser = torch.optim.LBFGS(
        parameters, lr=1.0, max_iter=ITERATIONS, history_size=ITERATIONS, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimiser.zero_grad(set_to_none=True)
        loss = -objective(batch)[GOAL]
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    optimiser.step(cast(Any, closure))


@torch.no_grad()
def _value(objective: RPMObjective, batch: Batch) -> float:
    return float(objective(batch)[GOAL])

