"""L-BFGS on the free energy of all observations at once."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Batch
from rpmodels.families import Gaussian
from rpmodels.learning.loop import GOAL
from rpmodels.learning.objective import OfRPM
from rpmodels.learning.trainable import copied
from rpmodels.observations import Observations

ITERATIONS = 20
"""Of L-BFGS in a round."""
LOWEST = -0.1
"""Free energy that any maximum is above: factors that say nothing have 0."""
MEMORY = 50
"""Steps that its curvature is read from."""
STILL = 1e-5
"""A round that gains less, relative to the free energy, is the last."""
OF_PRECISION = 10.0
"""Times the penalty: that a precision varies with the observation takes more rows to know than a mean does."""


@dataclass(frozen=True)
class Penalty:
    """½ strength Σ w² of the weights of networks, not of their constants, per observation: a normal prior."""

    strength: float

    def of(self, objective: OfRPM) -> Float[Tensor, ""]:
        """Nats per observation."""
        total = torch.zeros((), dtype=objective.model.dtype, device=objective.model.device)
        if self.strength == 0:
            return total
        # Of a network that several factors share, once.
        for recogniser in {id(each.network): each for _, each in objective.model.recognisers()}.values():
            family = recogniser.family
            first = family.latents if isinstance(family, Gaussian) else family.raw_size
            for layer in recogniser.network.modules():
                if isinstance(layer, nn.Linear):
                    squares = layer.weight.square().sum(1)
                    total = total + squares[:first].sum() + OF_PRECISION * squares[first:].sum()
        return 0.5 * self.strength / objective.n_observations * total

    @torch.no_grad()
    def value(self, objective: OfRPM) -> float:
        """The same as a number."""
        return float(self.of(objective))


@dataclass(frozen=True)
class Climbed:
    """From where to where."""

    gained: float
    """Nats per observation, without the penalty."""
    reached: float
    """The same of the free energy at the end."""
    value: float
    """What was maximised, there."""
    still: bool
    """Whether another round would gain next to nothing."""


def climb(
    objective: OfRPM, observations: Observations, penalty: Penalty, rounds: int, iterations: int = ITERATIONS
) -> Climbed:
    """Parameters are changed in place; `objective` is in evaluation mode.

    Tables that EM learns in closed form take part by gradient; what variational Bayes learns follows after every round.
    A round that ends lower, or nowhere, is undone.
    """
    index = np.arange(len(observations))
    batch = observations.batch(index, objective.model.dtype, objective.model.device)
    with torch.enable_grad(), objective.model.prior.by_gradient():
        before = value_of(objective, batch, Penalty(0.0))
        value = value_of(objective, batch, penalty)
        still = False
        # One for all rounds: what it has learnt of the curvature is what makes it fast.
        optimiser = lbfgs(objective, iterations)
        for _ in range(rounds):
            kept = copied(objective.state_dict())
            reached = _round(objective, batch, penalty, optimiser)
            # Below independence, or where numbers fail, nothing is a maximum.
            still = math.isfinite(reached) and reached - value < STILL * max(1.0, abs(value)) and value > LOWEST
            if not reached > value:
                objective.load_state_dict(kept)
                break
            value = reached
            if still:
                break
        reached = value_of(objective, batch, Penalty(0.0))
        return Climbed(reached - before, reached, value, still)


def _round(objective: OfRPM, batch: Batch, penalty: Penalty, optimiser: torch.optim.LBFGS) -> float:
    """The value that some iterations lead to; NaN where numbers fail."""

    def closure() -> Tensor:
        return loss_of(objective, batch, penalty)

    try:
        optimiser.step(closure)  # type: ignore[no-untyped-call]
        value_of(objective, batch, penalty)
        objective.after_step()
        return value_of(objective, batch, penalty)
    except errors.NumericalError:
        return math.nan


def lbfgs(objective: OfRPM, iterations: int = ITERATIONS) -> torch.optim.LBFGS:
    """On all parameters, so many iterations a round."""
    parameters = [each for each in objective.parameters() if each.requires_grad]
    return torch.optim.LBFGS(
        parameters, lr=1.0, max_iter=iterations, history_size=MEMORY, line_search_fn="strong_wolfe"
    )


def loss_of(objective: OfRPM, batch: Batch, penalty: Penalty) -> Tensor:
    """What is minimised, and its gradient in the parameters."""
    objective.zero_grad(set_to_none=True)
    loss: Tensor = penalty.of(objective) - objective(batch)[GOAL]
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


@torch.no_grad()
def value_of(objective: OfRPM, batch: Batch, penalty: Penalty) -> float:
    """What is maximised."""
    return float(objective(batch)[GOAL] - penalty.of(objective))
