"""p(Z) learned anew on other observations, everything else as a fit left it: a population has shifted.

What a latent does to an observation is p(x_j|z) = p₀(x_j) f_j(z|x_j)/F_j(z) (eq 1–2), whatever p(Z) is: F_j is a sum
over the observations of the fit, not over those of the shifted population, and so the model stays normalised when p(Z)
alone is another. Of new observations, whatever factors they have,

    log W(x) = log ∫ p(Z) ∏_j f_j(Z|x_j)/F_j(Z) dZ,

so that p(Z) is a mixing distribution behind known likelihoods, and no labels are needed. Three things must stay:

* *F_j.* Made of the new observations it would be that of another model, whose p(x_j|z) had followed the shift.
* *What f_j is relative to.* Where it is the prior's marginal, f_j must not move with p(Z): what is learned here is what
  the reference does not depend on (probabilities, length scales, dynamics of unit variance; no mean, no scale).
* *The own atom.* A new x has p₀ = 0 among the N atoms of a fit; as in every score it is added to them,
  F⁺ = (N F + f)/(N + 1). With ρ = f/F that is f/F⁺ = ρ (N + 1)/(N + ρ): as good as ρ while ρ ≪ N, and never above
  N + 1, which no observation can be worth. It has no p(Z) in it, so the sum over observations of log W is that of a
  mixture of known components, concave in the probabilities of a categorical prior, with one maximum.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import Batch
from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import FreeEnergy, free_energy
from rpmodels.inference import ExactEStep
from rpmodels.learning.climbing import Penalty, climb
from rpmodels.learning.objective import OfRPM
from rpmodels.linalg import log_sum_exp
from rpmodels.observations import Observations
from rpmodels.priors import Posterior
from rpmodels.priors.prior import HasOptimum

EM_STEPS, ROUNDS = 20, 20
"""Of tables; then of L-BFGS, which has them among its parameters."""
FEWEST = 4
"""Observations that can be halved and tested."""
SEED = 0


@dataclass(frozen=True)
class Shift:
    """What another p(Z) is worth on the observations that it was learned from, and whether that is more than chance."""

    gain: float
    """Nats per observation, on the observations themselves."""
    held_out: float
    """The same for either half of them, p(Z) learned from the other; NaN of too few."""
    error: float
    """Its standard error."""
    p_value: float
    """Of no shift: of such a gain on the other half, were the prior of the fit the true one. NaN of too few."""
    n_observations: int

    def __str__(self) -> str:
        return (
            f"{self.gain:+.4f} nats per observation by another prior ({self.held_out:+.4f} ± {self.error:.2g} held "
            f"out, {self.n_observations} observations), p = {self.p_value:.2g} of no shift"
        )


def adapted(model: FittedRPM, observations: Observations) -> FittedRPM:
    """The model with p(Z) of the highest free energy on these observations; the given one is left alone."""
    wide = copy.deepcopy(model)
    if wide.device.type != "mps":
        wide = wide.to(torch.float64)
    wide.pattern.prior = wide.prior.freed()
    _freeze(wide, observations)
    usable = observations.subset(observations.usable())
    objective = PriorObjective(wide, usable)
    if not objective.is_free:
        raise errors.nothing_to_adapt(type(model.prior).__name__)
    _learn(objective, usable)
    found = copy.deepcopy(model)
    found.pattern.prior = copy.deepcopy(wide.prior).to(model.dtype)
    found.prior.requires_grad_(True)
    if float(found.prior.parameter_kl()) > 0:  # a belief, of which every observation that taught it has a share
        found.n_observations = objective.n_observations
    return found


def shift_of(model: FittedRPM, found: FittedRPM, observations: Observations) -> Shift:
    """Is it more than chance? By the split likelihood ratio, of either half given p(Z) learned from the other.

    Were the prior of the fit the true one, W_new/W_old of a half would have mean one, because W_new is a density that
    this half had no part in; so by Markov P(mean of the two ratios ≥ 1/α) ≤ α, whatever the number of observations and
    wherever the prior is; 2 Δ log W against χ² fails at probabilities of zero and where states are alike. It costs some
    power: log 1/α nats in all are needed. Of bounds in the place of log W it compares the bounds.
    """
    usable = observations.usable()
    gain = _ratios(model, found, observations.subset(usable))
    if len(usable) < FEWEST:
        return Shift(float(gain.mean()), math.nan, math.nan, math.nan, len(usable))
    halves = np.array_split(np.random.default_rng(SEED).permutation(usable), 2)
    parts = [observations.subset(np.sort(each)) for each in halves]
    each = [_ratios(model, adapted(model, a), b) for a, b in (parts, parts[::-1])]
    both = np.concatenate(each)
    evidence = float(log_sum_exp(torch.tensor([ratios.sum() for ratios in each]))) - math.log(2)
    error = float(both.std(ddof=1) / math.sqrt(len(both)))
    return Shift(float(gain.mean()), float(both.mean()), error, float(math.exp(min(0.0, -evidence))), len(usable))


def _ratios(before: FittedRPM, after: FittedRPM, observations: Observations) -> NDArray[np.float64]:
    """log W by the one prior less that by the other, of every observation."""
    return after.free_energies(observations).values - before.free_energies(observations).values


def _freeze(model: FittedRPM, observations: Observations) -> None:
    """Keep everything but those parameters of p(Z) that what factors are relative to does not depend on."""
    parameters = list(model.prior.parameters())
    model.requires_grad_(False)
    model.prior.requires_grad_(True)
    with torch.enable_grad():
        reference = model.prior.reference(observations.sites(model.device), model.pattern.atoms.shared)
        if not reference.requires_grad:
            return
        some = torch.linspace(1.0, 2.0, reference.numel(), dtype=reference.dtype, device=reference.device)
        seen: Sequence[Tensor | None] = torch.autograd.grad(
            (reference.flatten() * some).sum(), parameters, allow_unused=True
        )
    for each, moves in zip(parameters, seen, strict=True):
        each.requires_grad_(moves is None or not bool(moves.any()))


def _learn(objective: "PriorObjective", observations: Observations) -> None:
    """Whole, where the prior has one maximum that it can find; else EM of its tables, then L-BFGS on all of it."""
    prior, e_step = objective.model.prior, objective.model.e_step
    if isinstance(prior, HasOptimum) and isinstance(e_step, ExactEStep):
        prior.maximise([(e_step.potentials(step), step.sites, weights) for step, weights in objective.steps])
        return
    with torch.no_grad():
        for _ in range(EM_STEPS if objective.has_tables else 0):
            objective.learn(objective.evaluate())
    climb(objective, observations, Penalty(0.0), ROUNDS)


class PriorObjective(OfRPM):
    """The free energy of observations as a function of p(Z): f_j and F_j are found once, and stay.

    Args:
        fitted: in evaluation mode; its prior is learned in place
        observations: new ones, each against the atoms of the fit plus itself

    """

    def __init__(self, fitted: FittedRPM, observations: Observations) -> None:
        super().__init__()
        self.model = fitted.pattern
        found = list(fitted.posterior(observations))
        self.steps = [(each.step, each.batch.weights) for each in found]
        self.n_observations = float(observations.weights.sum())
        self._last: list[Posterior] = []
        prior = self.model.prior
        self.has_tables = bool(prior.sums(found[0].posterior, found[0].batch.weights))
        with prior.by_gradient():
            self.is_free = any(each.requires_grad for each in prior.parameters())

    def evaluate(self) -> list[Posterior]:
        """q of every batch."""
        e_step, approximation = self.model.e_step.for_new_data(), self.model.expected_log_mixture.for_new_data()
        return [e_step(step, approximation) for step, _ in self.steps]

    def forward(self, batch: Batch) -> Mapping[str, Tensor]:
        """Named terms of F, weighted means over all observations; the batch brings nothing new."""
        self._last, parts = self.evaluate(), []
        approximation = self.model.expected_log_mixture.for_new_data()
        for (step, weights), posterior in zip(self.steps, self._last, strict=True):
            parts.append(free_energy(step, posterior, approximation, torch.ones_like(weights), self.n_observations))
        return FreeEnergy.joined(parts).means(torch.cat([weights for _, weights in self.steps]))

    @torch.no_grad()
    def after_step(self) -> None:
        """What has a closed form."""
        self.learn(self._last)

    def learn(self, posteriors: Sequence[Posterior]) -> None:
        """prior.update from these, which are those of all observations."""
        prior = self.model.prior
        every = [prior.sums(q, weights) for (_, weights), q in zip(self.steps, posteriors, strict=True)]
        if every[0]:
            names = {name for each in every for name in each}
            prior.update({n: torch.stack([each[n] for each in every if n in each]).sum(0) for n in names}, 1.0)

    def fitted(self, observations: Observations) -> None:
        """Nothing beside the prior, which is the model's."""
