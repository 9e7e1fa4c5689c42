"""q(Z) q(S) of linear dynamics that switch, found by exact block updates, and what is known by them.

With the averages of θ (`regimes`) under q(S) the latents are a Gaussian chain; with ⟨log p(z′ | z, s)⟩ under q(Z) as
potentials the states are a Markov chain. Each block is the best there is given the other, so that the bound on
log ∫ p(Z) exp(Σ potentials·t) rises with every one of them, and where they have settled it does not change with q.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import pad

from rpmodels import linalg
from rpmodels.carriers import Sites
from rpmodels.families import Gaussian
from rpmodels.linalg.block_tridiagonal import Chain, Smoothed, drawn, smoothed
from rpmodels.priors.kalman import noise_like
from rpmodels.priors.markov_chain import MarkovChainPrior
from rpmodels.priors.markov_chain_posterior import MarkovChainPosterior
from rpmodels.priors.regimes import Affine, Steps, expected, of_path
from rpmodels.priors.smoothed_posterior import SmoothedPosterior

WHAT = "the posterior precision of the switching dynamics"


@dataclass(frozen=True)
class Switching:
    """What blocks are found from: θ of every state, the chain of states, and what sites say."""

    theta: Float[Tensor, "M E"]
    chain: MarkovChainPrior
    h: Float[Tensor, "N T K"]
    W: Float[Tensor, "N T K K"]
    sites: Sites

    def take(self, index: Int[Tensor, "n"]) -> "Switching":
        """Of some observations."""
        return Switching(self.theta, self.chain, self.h[index], self.W[index], self.sites.take(index))

    @property
    def there(self) -> Bool[Tensor, "N S"]:
        """Which steps lead to sites that exist."""
        return self.sites.exists[:, 1:]

    def averaged(self, weights: Float[Tensor, "N S M"], theta: Float[Tensor, "M E"] | None = None) -> Steps:
        """θ of every step under q(S); nothing where there is no step."""
        mean = weights @ (self.theta if theta is None else theta)
        return Steps.of(torch.where(self.there[..., None], mean, 0.0), self.h.shape[-1])

    def latents(self, steps: Steps) -> tuple[Smoothed, Float[Tensor, "N"]]:
        """q(Z) by these steps, and log ∫ of what it is the normalised form of."""
        size, eye = self.h.shape[-1], torch.eye(self.h.shape[-1]).to(self.h)
        # Sites that do not exist are N(0, I) by themselves, as the first one is.
        alone = pad(~self.there, (1, 0), value=True)[..., None, None] * eye
        J = self.W + alone - 2.0 * (pad(steps.ends, (0, 0, 0, 0, 1, 0)) + pad(steps.begins, (0, 0, 0, 0, 0, 1)))
        h = self.h + pad(steps.end, (0, 0, 1, 0)) + pad(steps.begin, (0, 0, 0, 1))
        blocks = torch.cat([J, h[..., None]], -1).transpose(0, 1)
        q = smoothed(Chain(blocks, -steps.across.transpose(0, 1), WHAT))
        # Of the normalising constants of steps each is in θ; those of the sites that stand alone cancel.
        log_2pi = size * linalg.LOG_2PI * self.there.sum(1).to(h)
        quadratic = (h * q.mean.transpose(0, 1)).sum((1, 2))
        return q, 0.5 * (quadratic - q.log_det + log_2pi) + steps.constant.sum(1)

    def states(self, q: Smoothed) -> MarkovChainPosterior:
        """q(S) given q(Z); where an observation begins no step says anything."""
        said = torch.where(self.there[..., None], expected(q) @ self.theta.mT, 0.0)
        return self.by(pad(said, (0, 0, 1, 0)))

    def by(self, said: Float[Tensor, "N T M"]) -> MarkovChainPosterior:
        """q(S) from what is said of every state; the gradient of the bound by it is zero."""
        return self.chain.condition(said, self.sites).stationary()

    @torch.no_grad()
    def settled(self, overall: Affine, rounds: int, tol: float) -> MarkovChainPosterior:
        """q(S) after block updates that begin at what one state in the place of all would make of the latents.

        An observation is done when a round gains less than a share `tol` of its nats: q does not depend on the company.
        """
        one = self.h.new_ones(*self.there.shape, 1)
        q, _ = self.latents(self.averaged(one, overall.natural()))
        said = self.states(q).potentials
        moving = torch.arange(len(said), device=said.device)
        reached = self.h.new_full((len(said),), -torch.inf)
        for _ in range(rounds):
            part = self.take(moving)
            states = part.by(said[moving])
            q, value = part.latents(part.averaged(states.mu[:, 1:]))
            value = value - states.kl
            said[moving] = part.states(q).potentials
            going = value - reached[moving] > tol * (1.0 + value.abs())
            reached[moving] = value
            moving = moving[going]
            if not len(moving):
                break
        return self.by(said)


@dataclass(frozen=True)
class SwitchingPosterior(SmoothedPosterior):
    """q(Z) q(S): of latents marginals, covariances of neighbours and draws; of states probabilities and sequences."""

    family: Gaussian
    potentials: Float[Tensor, "N T D"]
    problem: Switching
    states: MarkovChainPosterior
    """q(S), held: gradients go through the latents alone."""

    @cached_property
    def _steps(self) -> Steps:
        return self.problem.averaged(self.states.mu[:, 1:])

    @cached_property
    def _found(self) -> tuple[Smoothed, Float[Tensor, "N"]]:
        return self.problem.latents(self._steps)

    @property
    def of_latents(self) -> Smoothed:
        """q(Z), time first, in double precision."""
        return self._found[0]

    @property
    def probabilities(self) -> Float[Tensor, "N T M"]:
        """q(s_t)."""
        return self._rounded(self.states.mu)

    @cached_property
    def bound(self) -> Float[Tensor, "N"]:
        """On log ∫ p(Z) exp(Σ potentials·t): the highest for this q(S)."""
        return self._found[1] - self.states.kl

    @cached_property
    def kl(self) -> Float[Tensor, "N"]:
        """KL(q(Z) q(S)‖p(Z, S)) = Σ_t potentials·μ_q − bound."""
        return self._rounded((self.potentials * self._mu).sum((1, 2)) - self.bound)

    def draw(self, generator: torch.Generator) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "N"]]:
        """Latents, jointly over the sites of every trial; p of log p/q is summed over all sequences of states."""
        problem, q = self.problem, self.of_latents
        z = drawn(q, noise_like(q.mean, generator)).transpose(0, 1)
        u = of_path(z)
        # log q = log N(z_1; 0, I) + Σ θ̄·u + Σ potentials·t − log ∫; of p the first term is the same.
        said = (self.potentials * self.family.statistic(z)).sum((1, 2))
        theta = torch.where(problem.there[..., None], self.states.mu[:, 1:] @ problem.theta, 0.0)
        log_q = (theta * u).sum((1, 2)) + said - self._found[1]
        return self._rounded(z), self._rounded(over_states(problem.theta, problem.chain, z, problem.sites) - log_q)

    def viterbi(self) -> Int[Tensor, "N T"]:
        """The most probable sequence of states."""
        return self.states.viterbi()


def over_states(
    theta: Float[Tensor, "M E"], chain: MarkovChainPrior, z: Float[Tensor, "N T K"], sites: Sites
) -> Float[Tensor, "N"]:
    """log p(z_2, … | z_1), summed over all sequences of states."""
    said = torch.where(sites.exists[:, 1:, None], of_path(z) @ theta.mT, 0.0)
    return chain.condition(pad(said, (0, 0, 1, 0)), sites).log_partition
