"""Latents given past and present alone: of whole series at once, and one time after the other.

A filter is an E-step with what is known from past and present in the place of the posterior. Where potentials are
refined (populations), each pass has a filter of its own, and refines near what the one before knew at that time. So the
last time of a series is refined as `posterior` refines it; those before it were refined without what came later.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Factors, Sites
from rpmodels.fitted import FittedRPM
from rpmodels.inference import EStep
from rpmodels.observations import Observations
from rpmodels.priors import LatentState, LinearDynamicsPrior, SwitchingDynamicsPrior
from rpmodels.priors.filters import Filter, Filtered, HasFilter, State
from rpmodels.priors.process import ProcessPrior
from rpmodels.priors.switching_filter import SwitchingState
from rpmodels.step import Step

Moments = LatentState | SwitchingState
"""What is known of latents: a normal, or one for every state that their dynamics may be in."""
States = tuple[State, ...]
"""What is known at one time: a state for every pass."""


def e_step_of(model: FittedRPM) -> EStep:
    """For new data, populations being believed as far as `temperature` says."""
    chosen = model.pattern.e_step.for_new_data()
    return chosen if model.temperature == 1.0 else chosen.tempered(model.temperature)


def filtered(model: FittedRPM, observations: Observations) -> Iterator[Moments]:
    """Moments of latents at every site given those before it, batch by batch."""
    e_step = e_step_of(model)
    for batch, factors in model.pattern.recognised(observations, model.verbose):
        with torch.no_grad():
            given = model.mixtures_of(factors, model.pattern.references(batch.sites)) if e_step.hears_mixtures else {}
            step = Step(model.prior, batch.sites, factors, given)
            found = e_step.in_passes(step, partial(_past, step))
        yield found.state


@dataclass(frozen=True)
class Past(Filtered):
    """Marginals of whole series."""

    state: Moments


def _past(step: Step, _: int, potentials: Float[Tensor, "N T D"]) -> Past:
    """By the filter of the prior."""
    prior = cast("LinearDynamicsPrior | ProcessPrior | SwitchingDynamicsPrior", step.prior)
    state = prior.filter(potentials, step.sites)
    found = Filtered.of(prior.family, LatentState(state.mean, state.covariance), potentials.dtype)
    return Past(found.make_eta, found.make_mu, state)


class Filtering(nn.Module):
    """A fitted model as time goes by, everything that is constant computed once: tensors in, tensors out.

    Args:
        model: whose prior has a filter

    """

    def __init__(self, model: FittedRPM) -> None:
        super().__init__()
        if not isinstance(model.prior, HasFilter):
            raise errors.no_filter(type(model.prior).__name__)
        self._model = [model]  # in a list: a program for elsewhere needs no atoms
        self.filter: Filter = model.prior.filtering()
        self.e_step = e_step_of(model)
        self._site = Sites.single(1, model.device)
        self._references = {name: each.detach() for name, each in model.pattern.references(self._site).items()}
        self.eval()

    @property
    def model(self) -> FittedRPM:
        """As it was fitted."""
        return self._model[0]

    def begin(self, n: int) -> States:
        """Of n series, before their first time."""
        return tuple(self.filter.begin(n) for _ in range(1 + self.e_step.refinements))

    def forward(self, factors: Factors, states: States, along: State) -> States:
        """At the next time, with what factors (N, 1, …) say there; those that are missing need not be named."""
        new: list[State] = []

        def conditioned(number: int, potentials: Tensor) -> Filtered:
            there = self.filter.moved(states[number], *along)
            new.append(self.filter.heard(there, potentials[:, 0]))
            return self.filter.filtered(new[-1], potentials.dtype)

        if not factors:
            nothing = self._nothing(len(states[0][0]))
            return tuple(self.filter.heard(self.filter.moved(each, *along), nothing) for each in states)
        mixtures = self.model.mixtures_of(factors, self._references) if self.e_step.hears_mixtures else {}
        self.e_step.in_passes(Step(self.model.prior, self._site, factors, mixtures), conditioned)
        return tuple(new)

    def _nothing(self, n: int) -> Float[Tensor, "N D"]:
        family = self.model.prior.family
        return torch.zeros(n, family.natural_size, dtype=self.model.dtype, device=self.model.device)

    def shown(self, states: States) -> State:
        """What the user is told, in the model's precision."""
        return tuple(each.to(self.model.dtype) for each in self.filter.shown(states[-1]))
