"""One step of linear dynamics at a time: what a step says of its two ends, and the Kalman filter in covariances."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from rpmodels import linalg
from rpmodels.linalg.block_tridiagonal import Chain

WHAT = "the posterior precision of the linear dynamics"


class LatentState(NamedTuple):
    """N(mean, covariance) of the latents, at one time or at many."""

    mean: Float[Tensor, "*b K"]
    covariance: Float[Tensor, "*b K K"]

    def to(self, dtype: torch.dtype) -> "LatentState":
        """In another precision."""
        return LatentState(self.mean.to(dtype), self.covariance.to(dtype))


class Transition(NamedTuple):
    """z_{t+1} = A z_t + w with w ~ N(0, Q), and what follows from them; the stationary covariance is I."""

    A: Float[Tensor, "K K"]
    Q: Float[Tensor, "K K"]
    precision: Float[Tensor, "K K"]
    """Q⁻¹."""
    forward: Float[Tensor, "K K"]
    """Q⁻¹A."""
    squared: Float[Tensor, "K K"]
    """AᵀQ⁻¹A."""
    log_det: Float[Tensor, ""]
    """log |Q⁻¹|."""


def chained(step: Transition, h: Float[Tensor, "N T K"], W: Float[Tensor, "N T K K"]) -> Chain:
    """J of the dynamics plus W at every site: each step adds Q⁻¹ where it ends and AᵀQ⁻¹A where it begins."""
    (trials, count, size), eye = h.shape, torch.eye(h.shape[-1], dtype=h.dtype, device=h.device)
    ends = torch.cat([eye[None], step.precision.expand(count - 1, -1, -1)])
    begins = pad(step.squared.expand(count - 1, -1, -1), (0, 0, 0, 0, 0, 1))
    sites = torch.cat([W + (ends + begins), h[..., None]], -1).transpose(0, 1)
    return Chain(sites, (-step.forward).expand(count - 1, trials, size, size), WHAT)


def moved(step: Transition, state: LatentState, push: Float[Tensor, "N K"] | None = None) -> LatentState:
    """One step later, pushed by so much, with nothing seen there: in covariances, where nothing cancels."""
    mean = (step.A @ state.mean[..., None])[..., 0]
    return LatentState(mean if push is None else mean + push, step.A @ state.covariance @ step.A.mT + step.Q)


def updated(state: LatentState, h: Float[Tensor, "*#b K"], W: Float[Tensor, "*#b K K"]) -> LatentState:
    """Times exp(hᵀz − ½ zᵀWz)."""
    precision, _ = linalg.inverse_and_log_det(state.covariance, "a predicted covariance")
    covariance, _ = linalg.inverse_and_log_det(precision + W, "a filtered precision")
    shift = (precision @ state.mean[..., None])[..., 0] + h
    return LatentState((covariance @ shift[..., None])[..., 0], covariance)


def stacked(states: Sequence[LatentState]) -> LatentState:
    """States of one time each, [N, …], as one of all times, [N, T, …]."""
    return LatentState(
        torch.stack([each.mean for each in states], 1), torch.stack([each.covariance for each in states], 1)
    )


def ahead(
    step: Transition, B: Float[Tensor, "K U"], now: LatentState, steps: int, u: Float[Tensor, "N steps U"] | None
) -> LatentState:
    """The next `steps` times, [N, steps, K] and [N, steps, K, K], driven by u from now on."""
    states = [now]
    for t in range(steps):
        states.append(moved(step, states[-1], None if u is None else u[:, t] @ B.mT))
    return stacked(states[1:])


def mixed(states: Sequence[LatentState]) -> LatentState:
    """Mean and covariance of the mixture of these normals, in equal parts."""
    mean = torch.stack([each.mean for each in states]).mean(0)
    within = torch.stack([each.covariance for each in states]).mean(0)
    if len(states) == 1:
        return LatentState(mean, within)
    off = torch.stack([each.mean - mean for each in states])
    return LatentState(mean, within + torch.einsum("s...i,s...j->...ij", off, off) / len(states))


def noise_like(values: Float[Tensor, "*b"], generator: torch.Generator) -> Float[Tensor, "*b"]:
    """Standard normal numbers."""
    return torch.randn(values.shape, generator=generator, dtype=values.dtype, device=values.device)
