"""What is known of a Markov chain given potentials at its sites: marginals, pairs, the best sequence, draws."""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rpmodels.carriers import Sites
from rpmodels.families import Categorical
from rpmodels.priors import chain
from rpmodels.priors.prior import Posterior


@dataclass(frozen=True)
class MarkovChainPosterior(Posterior):
    """q(Z) of a batch of chains."""

    family: Categorical
    potentials: Float[Tensor, "N T K"]
    sites: Sites
    log_initial: Float[Tensor, "K"]
    log_transition: Float[Tensor, "K K"]
    at_maximum: bool = False
    """Whether F is stationary in q: then only the log-partition has a gradient."""

    def stationary(self) -> "MarkovChainPosterior":
        """By messages without gradients."""
        return replace(self, at_maximum=True)

    # ---- messages ---------------------------------------------------------------------------

    @cached_property
    def messages(self) -> chain.Messages:
        """As probabilities, without gradients."""
        return chain.Messages.passed(self.log_initial, self.log_transition, self.potentials, self.sites.exists)

    @cached_property
    def _known(self) -> Float[Tensor, "N T K"]:
        return torch.where(self.sites.exists[..., None], self.potentials, 0.0)

    @cached_property
    def _start(self) -> Float[Tensor, "N K"]:
        """log π + potential of the first site."""
        flat = -math.log(len(self.log_initial))
        return torch.where(self.sites.exists[:, :1], self.log_initial, flat) + self._known[:, 0]

    @cached_property
    def _steps(self) -> Float[Tensor, "N L K K"]:
        """log A + potential of every site after the first, L = T − 1.

        Beyond the end of a trial every row is uniform: it sums to one whatever came before, so nothing is said.
        """
        there = self.sites.exists[:, 1:, None, None]
        flat = -math.log(len(self.log_initial))
        return torch.where(there, self.log_transition, flat) + self._known[:, 1:, None, :]

    @cached_property
    def _alpha(self) -> Float[Tensor, "N T K"]:
        return chain.forward(self._start, self._steps)

    @cached_property
    def _beta(self) -> Float[Tensor, "N T K"]:
        return chain.backward(self._steps)

    # ---- what they say ----------------------------------------------------------------------

    @cached_property
    def log_partition(self) -> Float[Tensor, "N"]:
        """log Σ_Z p(Z) exp(Σ potentials): with the exact potentials, log W (eq 4)."""
        if not self.at_maximum:
            return torch.logsumexp(self._alpha[:, -1], -1)
        given = (self.potentials, self.log_initial, self.log_transition)
        found: Tensor = chain.LogPartition.apply(*given, self.messages, self.mu)  # type: ignore[no-untyped-call]
        return found

    @cached_property
    def eta(self) -> Float[Tensor, "N T D"]:
        """log q(z_t)."""
        if not self.at_maximum:
            return self._alpha + self._beta - self.log_partition[:, None, None]
        marginals = self.messages.marginals
        return marginals.clamp_min(torch.finfo(marginals.dtype).tiny).log().to(self.potentials.dtype)

    @cached_property
    def mu(self) -> Float[Tensor, "N T D"]:
        """q(z_t)."""
        if not self.at_maximum:
            return torch.softmax(self.eta, -1)
        return self.messages.marginals.to(self.potentials.dtype)

    @property
    def filtered(self) -> Float[Tensor, "N T K"]:
        """p(z_t | what was seen until t): the forward messages alone."""
        return self.messages.past.to(self.potentials.dtype)

    @cached_property
    def pairwise(self) -> Float[Tensor, "N L K K"]:
        """q(z_t, z_{t+1})."""
        joint = self._alpha[:, :-1, :, None] + self._steps + self._beta[:, 1:, None, :]
        return (joint - torch.logsumexp(self._alpha[:, -1], -1)[:, None, None, None]).exp()

    @cached_property
    def kl(self) -> Float[Tensor, "N"]:
        """Σ_t potentials·μ_q − log partition."""
        said = (self.potentials * self.mu).sum(-1)
        return torch.where(self.sites.exists, said, 0.0).sum(-1) - self.log_partition

    @torch.no_grad()
    def viterbi(self) -> Int[Tensor, "N T"]:
        """The most probable sequence of states."""
        return chain.viterbi(self._start, self.log_transition, self._known, self.sites.exists)

    def draw(self, generator: torch.Generator) -> tuple[Int[Tensor, "N T"], Float[Tensor, "N"]]:
        """Backwards from the last site; log p/q = log partition − Σ potentials·t(z)."""
        past = self.messages.past.clamp_min(torch.finfo(self.messages.past.dtype).tiny).log()
        z = [self.family.sample(past[:, -1], generator)]
        for t in range(past.shape[1] - 2, -1, -1):
            # Beyond the end of a trial what comes after says nothing of what was before.
            into = torch.where(self.sites.exists[:, t + 1, None], self.log_transition.T[z[-1]], 0.0)
            z.append(self.family.sample(past[:, t] + into, generator))
        states = torch.stack(z[::-1], 1)
        picked = self.potentials.gather(-1, states[..., None])[..., 0]
        return states, self.log_partition - torch.where(self.sites.exists, picked, 0.0).sum(-1)
