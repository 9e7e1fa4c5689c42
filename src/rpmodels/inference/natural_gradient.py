"""The E-step refined by natural gradients: potentials λ at the stationary point of the free energy.

At fixed θ the optimum satisfies λ = Σ_j (g_j − ∂⟨log F_j/r⟩/∂μ_q), a fixed point that is iterated with damping
from the amortised start (conjugate-computation variational inference). An iterate is kept only where it raises
the free energy of its observation; elsewhere the step is halved, so refinement never lowers it. An observation that
is done stays where it is, and one without a way forward holds up no other: q does not depend on the batch.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rpmodels import checks, errors
from rpmodels.carriers import Factor, SiteMarginal, Sites
from rpmodels.families import Gaussian
from rpmodels.free_energy import free_energy
from rpmodels.inference.e_step import EStep, summed_potentials
from rpmodels.local_parameters import LocalParameters
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior, Prior
from rpmodels.step import Step

SMALLEST = 0.01
"""Where a step that did not raise the free energy is not halved again."""


class NaturalGradient(EStep[Prior[Gaussian]]):
    """A few damped steps towards the best q there is.

    Args:
        steps: at most this many
        rho: the first step's size; the whole step (1) can oscillate for ever
        tol: an observation is done when a step gains fewer nats than this

    """

    def __init__(self, steps: int = 10, rho: float = 0.5, tol: float = 1e-5) -> None:
        self.steps = checks.integer("steps", steps, 1)
        self.rho = checks.number("rho", rho, above=0.0, below=1.0 + 1e-9)
        self.tol = checks.number("tol", tol, least=0.0)

    @property
    def passes(self) -> int:
        """A slope and a value for every step."""
        return 1 + 2 * self.steps

    def check(self, prior: Prior, mixture: Mixture, relative: bool) -> None:
        """Gaussian latents: the slope by μ goes through mean and spread."""
        if not isinstance(prior.family, Gaussian):
            raise errors.needs_gaussian("the natural-gradient E-step", type(prior.family).__name__)

    def __call__(self, step: Step[Prior[Gaussian]], approximation: ExpectedLogMixture) -> Posterior:
        """The prior conditioned on λ. In training θ is reached through the amortised part of λ as well."""
        start = summed_potentials(step.factors)
        with torch.no_grad():
            problem = _Problem(replace(step, local=LocalParameters()), approximation.for_new_data())
            refined = self._refined(problem, start.detach())
        return step.prior.condition(refined + (start - start.detach()), step.sites)

    def _refined(self, problem: "_Problem", start: Float[Tensor, "N T D"]) -> Float[Tensor, "N T D"]:
        potentials, posterior = start, problem.attempted(start)
        if posterior is None:
            raise errors.no_start_for_refinement()
        reached = problem.value(posterior)
        rho = torch.full_like(reached, self.rho)
        moving = torch.ones_like(reached, dtype=torch.bool)
        for _ in range(self.steps):
            share = rho[:, None, None]
            step = (1.0 - share) * potentials + share * problem.target(posterior)
            candidate = torch.where(moving[:, None, None], step, potentials)
            there, possible = problem.attempted(candidate), moving
            if there is None:
                possible = moving & problem.possible(candidate)
                candidate = torch.where(possible[:, None, None], candidate, potentials)
                there = problem.posterior(candidate)
            value = problem.value(there)
            better = possible & (value > reached)
            done = torch.where(better, value - reached < self.tol, rho < SMALLEST)
            potentials = torch.where(better[:, None, None], candidate, potentials)
            reached = torch.where(better, value, reached)
            rho = torch.where(better, rho, 0.5 * rho)
            moving = moving & ~done
            if not bool(moving.any()):
                break
            posterior = problem.posterior(potentials)
        return potentials


@dataclass(frozen=True)
class _Problem:
    """One batch at fixed θ: the free energy as a function of the potentials."""

    step: Step
    approximation: ExpectedLogMixture

    def posterior(self, potentials: Float[Tensor, "N T D"]) -> Posterior:
        """q, where it is known that there is one."""
        return self.step.prior.condition(potentials, self.step.sites)

    def attempted(self, potentials: Float[Tensor, "N T D"]) -> Posterior | None:
        """q, or None where the potentials leave the prior no positive precision."""
        return _conditioned(self.step.prior, potentials, self.step.sites)

    def possible(self, potentials: Float[Tensor, "N T D"]) -> Bool[Tensor, "N"]:
        """Which observations' potentials leave the prior a positive precision: each tried alone."""
        alone = [
            _conditioned(self.step.prior, potentials[n : n + 1], self.step.sites.take(slice(n, n + 1))) is not None
            for n in range(len(potentials))
        ]
        return torch.tensor(alone, device=potentials.device)

    def value(self, posterior: Posterior) -> Float[Tensor, "N"]:
        """F per observation; −∞ where it is not a number."""
        ones = torch.ones_like(posterior.kl)
        try:
            energy = free_energy(self.step, posterior, self.approximation, ones, math.inf)
        except errors.NumericalError:
            return torch.full_like(ones, -math.inf)
        return torch.nan_to_num(energy.total, nan=-math.inf)

    def target(self, posterior: Posterior) -> Float[Tensor, "N T D"]:
        """Σ_j (g_j − ∂⟨log F_j/r⟩/∂μ_q)."""
        factors, mixtures = self.step.factors, self.step.mixtures
        slopes = {name: self._slope(posterior, factor, mixtures[name]) for name, factor in factors.items()}
        return summed_potentials({name: replace(each, g=each.g - slopes[name]) for name, each in factors.items()})

    def _slope(self, posterior: Posterior, factor: Factor, mixture: Mixture) -> Float[Tensor, "N T d"]:
        """∂⟨log F_j/r⟩/∂μ_q, through mean and spread."""
        family = mixture.family
        assert isinstance(family, Gaussian)
        eta = factor.targets.natural(posterior.eta)
        mean, spread = (each.detach().requires_grad_() for each in family.moments(eta))
        with torch.enable_grad():
            q = SiteMarginal(lambda: family.natural(mean, spread), lambda: family.mean_parameter(mean, spread))
            expected = mixture.expected_log(factor, q, self.approximation, {})
            slopes = torch.autograd.grad(factor.masked(expected).sum(), (mean, spread))
        return family.slope(mean.detach(), *slopes)


def _conditioned(prior: Prior, potentials: Float[Tensor, "N T D"], sites: Sites) -> Posterior | None:
    try:
        posterior = prior.condition(potentials, sites)
        _ = posterior.kl  # where sites are independent, nothing is factorised before a number is asked for
    except errors.NumericalError:
        return None
    return posterior
