"""Levels: how sure every factor is, as observations want it that its weights have not seen.

A penalty turns the weights of a linear map away from noise, and makes them shorter as well: factors then say less than
they know. How much they should say are two numbers for every factor, which held-out observations can tell: a slope of
what is linear in the observation, and for Gaussians a constant beside their precision. (One number, a power of every
factor, leaves precisions too low; two for every latent follow the noise of few trials: docs/results/optimum.md.)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.func import functional_call

from rpmodels import errors
from rpmodels.carriers import Batch
from rpmodels.families import Gaussian
from rpmodels.learning.objective import RPMObjective
from rpmodels.model import RPM
from rpmodels.recognition import ConstantPrecision, Recogniser

ITERATIONS = 40
"""Of L-BFGS, which stops by itself before that."""
UNIT = 10.0
"""In which constants are counted while they are learnt: precisions of tens, beside logarithms of slopes."""


@dataclass(frozen=True)
class Levels:
    """Of every network with a linear map, in the order of the factors."""

    slopes: Float[Tensor, "J"]
    """Logarithms of what the linear part is multiplied with."""
    constants: Float[Tensor, "J"]
    """What is added to the raw precisions of a Gaussian; of other families nothing."""

    @staticmethod
    def neutral(model: RPM) -> "Levels":
        """Slopes 1, constants 0."""
        zeros = torch.zeros(len(_penalised(model)), dtype=model.dtype, device=model.device)
        return Levels(zeros, zeros.clone())

    def of(self, model: RPM) -> dict[int, Tensor]:
        """What parameters are at these levels, by their identity."""
        found: dict[int, Tensor] = {}
        for recogniser, slope, constant in zip(_penalised(model), self.slopes.exp(), self.constants, strict=True):
            layer, network = _layer(recogniser), recogniser.network
            first, precisions = (each.to(slope.device) for each in _numbers(recogniser))
            times, added = torch.where(first, slope, 1.0), torch.where(precisions, constant, 0.0)
            rows = layer.out_features
            found[id(layer.weight)] = layer.weight.detach() * times[:rows, None]
            if layer.bias is not None:
                found[id(layer.bias)] = layer.bias.detach() * times[:rows] + added[:rows]
            if isinstance(network, ConstantPrecision):
                found[id(network.rest)] = network.rest.detach() + added[rows:]
        return found

    @torch.no_grad()
    def bring(self, model: RPM) -> None:
        """The model's parameters to these levels, in place."""
        found = self.of(model)
        for parameter in model.parameters():
            if id(parameter) in found:
                parameter.copy_(found[id(parameter)])


@dataclass(frozen=True)
class Fold:
    """A model, and which observations it has not seen."""

    objective: RPMObjective
    held_out: Int[Tensor, "n"]


def fitted_levels(folds: Sequence[Fold], batch: Batch, start: Levels) -> tuple[Levels, float]:
    """The levels at which held-out observations have the highest free energy together, and that: nats per observation.

    Atoms are those of all observations, which the batch holds. Neutral levels, where others are better by no more than
    the standard error of the difference, observation by observation: what is less is noise.
    """
    slopes, tens = start.slopes.clone().requires_grad_(), (start.constants / UNIT).requires_grad_()
    optimiser = torch.optim.LBFGS([slopes, tens], lr=1.0, max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimiser.zero_grad(set_to_none=True)
        loss = -_mean(_held_out(folds, batch, Levels(slopes, UNIT * tens)), folds, batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    try:
        with torch.enable_grad():
            optimiser.step(closure)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            found = Levels(slopes.detach(), UNIT * tens.detach())
            neutral = Levels.neutral(folds[0].objective.model)
            values, plain = _held_out(folds, batch, found), _held_out(folds, batch, neutral)
    except errors.NumericalError:
        return start, -math.inf
    gained = values - plain
    if not float(gained.mean()) > float(gained.std()) / math.sqrt(len(gained)):
        found, values = neutral, plain
    reached = float(_mean(values, folds, batch))
    return (found, reached) if math.isfinite(reached) else (start, -math.inf)


class _Some(nn.Module):
    """F of some observations of a batch: a module, so that it can be asked with other parameters."""

    def __init__(self, objective: RPMObjective) -> None:
        super().__init__()
        self.objective = objective

    def forward(self, batch: Batch, rows: Int[Tensor, "n"]) -> Float[Tensor, "n"]:
        """Nats of each."""
        return self.objective.evaluate(batch).energy.total[rows]


def _held_out(folds: Sequence[Fold], batch: Batch, levels: Levels) -> Float[Tensor, "n"]:
    """F of the held-out observations, fold after fold."""
    values = []
    for fold in folds:
        some = _Some(fold.objective)
        found = levels.of(fold.objective.model)
        changed = {name: found[id(each)] for name, each in some.named_parameters() if id(each) in found}
        values.append(functional_call(some, changed, (batch, fold.held_out)))
    return torch.cat(values)


def _mean(values: Float[Tensor, "n"], folds: Sequence[Fold], batch: Batch) -> Float[Tensor, ""]:
    weights = batch.weights[torch.cat([fold.held_out for fold in folds])]
    return values @ (weights / weights.sum())


def _penalised(model: RPM) -> list[Recogniser]:
    """Factors whose network holds a linear map; of several that share one, one."""
    distinct = {id(each.network): each for _, each in model.recognisers()}
    return [each for each in distinct.values() if any(isinstance(part, nn.Linear) for part in each.network.modules())]


def _layer(recogniser: Recogniser) -> nn.Linear:
    return next(each for each in recogniser.network.modules() if isinstance(each, nn.Linear))


def _numbers(recogniser: Recogniser) -> tuple[Bool[Tensor, "R"], Bool[Tensor, "R"]]:
    """Which raw numbers have the slope, and which the constant: the diagonal of a Gaussian's precision."""
    family = recogniser.family
    if not isinstance(family, Gaussian):
        return torch.ones(family.raw_size, dtype=torch.bool), torch.zeros(family.raw_size, dtype=torch.bool)
    first = torch.arange(family.raw_size) < family.latents
    # Raw numbers of the unit precision: off its diagonal, zero.
    unit = family.natural(torch.zeros(family.latents), family.spread(_unit_blocks(family)))
    return first, ~first & (family.to_raw(unit) != 0)


def _unit_blocks(family: Gaussian) -> Float[Tensor, "groups k k"]:
    size = family.latents // family.groups
    return torch.eye(size).expand(family.groups, size, size)
