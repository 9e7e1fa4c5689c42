"""Switching dynamics as time goes by: a probability and a normal for every state (interacting multiple models).

What is known exactly is a mixture with a normal for every sequence of states. Before each step those that lead to the
same state become one normal with their moments, so that a step costs the same for ever.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import linalg
from rpmodels.families import Gaussian
from rpmodels.priors.driving import wide
from rpmodels.priors.filters import Filter, Filtered, State, said
from rpmodels.priors.kalman import LatentState
from rpmodels.priors.markov_chain import MarkovChainPrior
from rpmodels.priors.regimes import Affine


class SwitchingState(NamedTuple):
    """Σ_s p(s) N(means_s, covariances_s) of the latents, at one time or at many."""

    means: Float[Tensor, "*b M K"]
    covariances: Float[Tensor, "*b M K K"]
    probabilities: Float[Tensor, "*b M"]

    @property
    def mean(self) -> Float[Tensor, "*b K"]:
        """Of the mixture."""
        return (self.probabilities[..., None] * self.means).sum(-2)

    @property
    def covariance(self) -> Float[Tensor, "*b K K"]:
        """Within and between the states."""
        off = self.means - self.mean[..., None, :]
        whole = self.covariances + off[..., :, None] * off[..., None, :]
        return (self.probabilities[..., None, None] * whole).sum(-3)

    def to(self, dtype: torch.dtype) -> "SwitchingState":
        """In another precision."""
        return SwitchingState(*(each.to(dtype) for each in self))

    @staticmethod
    def stacked(states: "Sequence[SwitchingState]") -> "SwitchingState":
        """States of one time each, [N, …], as one of all times, [N, T, …]."""
        return SwitchingState(*(torch.stack(each, 1) for each in zip(*states, strict=True)))


class SwitchingFilter(Filter):
    """z′ = A_s z + b_s + w, and the chain of s; steps have no length."""

    names = ("means", "covariances", "probabilities", "begun")
    shown_names = ("mean", "covariance", "probabilities")
    A: Tensor
    b: Tensor
    Q: Tensor
    initial: Tensor
    transition: Tensor

    @torch.no_grad()
    def __init__(self, family: Gaussian, chain: MarkovChainPrior, dynamics: Affine) -> None:
        super().__init__()
        self._family = family
        for name, each in dynamics._asdict().items():
            self.register_buffer(name, each.clone())
        self.register_buffer("initial", wide(chain.probabilities).clone())
        self.register_buffer("transition", wide(chain.transitions).clone())

    def begin(self, n: int) -> State:
        """Not begun."""
        eye = torch.eye(self.b.shape[1]).to(self.b)
        means, covariances = self.b.new_zeros(n, *self.b.shape), eye.repeat(n, len(self.b), 1, 1)
        return means, covariances, self.initial.repeat(n, 1), self.b.new_zeros(n)

    def continued(self, state: SwitchingState) -> State:
        """From what is known at some time."""
        means, covariances, probabilities = (wide(each) for each in state)
        return means, covariances, probabilities, means.new_ones(len(means))

    def moved(self, state: State, *along: Tensor) -> State:
        """States of the next time, each with the moments of those that may lead to it, one step later."""
        means, covariances, probabilities, begun = state
        pairs = probabilities[:, :, None] * self.transition
        into = pairs.sum(1)
        share = (pairs / into.clamp_min(torch.finfo(into.dtype).tiny)[:, None]).mT[..., None]  # (N, to, from, 1)
        mean = (share * means[:, None]).sum(2)
        off = means[:, None] - mean[:, :, None]
        whole = covariances[:, None] + off[..., :, None] * off[..., None, :]
        covariance = (share[..., None] * whole).sum(2)
        ahead = (self.A @ mean[..., None])[..., 0] + self.b, self.A @ covariance @ self.A.mT + self.Q, into
        started = begun > 0
        now = tuple(
            torch.where(started.reshape(-1, *[1] * (one.ndim - 1)), one, other)
            for one, other in zip(ahead, state[:3], strict=True)
        )
        return (*now, torch.ones_like(begun))

    def heard(self, state: State, potential: Float[Tensor, "N D"]) -> State:
        """Every state by itself, and weighed anew by what it has expected of the potential."""
        means, covariances, probabilities, begun = state
        h, W = said(self._family, potential)
        root = linalg.cholesky(covariances, "a predicted covariance")
        eye = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
        inner = linalg.cholesky(eye + root.mT @ W @ root, "a filtered precision")
        half: Tensor = torch.linalg.solve_triangular(inner, root.mT, upper=False)
        known = half.mT @ half
        seen = (W @ means[..., None])[..., 0]
        off = h - seen
        moved = (known @ off[..., None])[..., 0]
        # log ∫ N(z; m, S) exp(hᵀz − ½ zᵀWz).
        log_weight = ((h - 0.5 * seen) * means).sum(-1) + 0.5 * (off * moved).sum(-1) - 0.5 * linalg.log_det(inner)
        tiny = torch.finfo(probabilities.dtype).tiny
        weighed = torch.softmax(probabilities.clamp_min(tiny).log() + log_weight, -1)
        return means + moved, known, weighed, begun

    def filtered(self, state: State, dtype: torch.dtype) -> Filtered:
        """By the moments of the mixture."""
        whole = SwitchingState(*state[:3])
        return Filtered.of(self._family, LatentState(whole.mean[:, None], whole.covariance[:, None]), dtype)

    def shown(self, state: State) -> State:
        """Mean and covariance of the mixture, and probabilities of the states."""
        whole = SwitchingState(*state[:3])
        return whole.mean, whole.covariance, whole.probabilities
