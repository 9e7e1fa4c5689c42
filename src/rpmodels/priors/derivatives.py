"""log p(Z) of Markovian processes in O(T): where every latent is known, its derivatives are a chain of their own.

A step of the state s = (z, v) says of z_{t+1}, given v_t, N(A_zz z_t + A_zv v_t, Q_zz), which is a potential on v_t;
and of v_{t+1}, given z_{t+1} as well, a step of the chain of v.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rpmodels import linalg
from rpmodels.linalg import links
from rpmodels.priors.matern import Steps


def log_density(steps: Steps, z: Float[Tensor, "R N T K"], exists: Bool[Tensor, "N T"]) -> Float[Tensor, "R N"]:
    """Steps are [n, T, K, p, p] to each site from the one before; in the order of time, those that exist first."""
    A, Q = steps
    before = torch.cat([torch.zeros_like(z[..., :1, :]), z[..., :-1, :]], -2)
    off = z - A[..., 0, 0] * before
    variance = Q[..., 0, 0]
    counted = exists[..., None]
    each = -0.5 * (off.square() / variance + variance.log() + linalg.LOG_2PI)
    known = torch.where(counted, each, 0.0).sum((-2, -1))
    if A.shape[-1] == 1:
        return known
    row, counts = A[..., :1, 1:], counted[..., None, None]
    gain = Q[..., 1:, :1] / variance[..., None, None]
    surprise = off[..., None, None]
    said = links.Links(
        A[..., 1:, 1:] - gain @ row,
        A[..., 1:, :1] * before[..., None, None] + gain * surprise,
        Q[..., 1:, 1:] - gain @ Q[..., :1, 1:],
        torch.where(counts, row.mT * surprise / variance[..., None, None], 0.0),
        torch.where(counts, row.mT @ row / variance[..., None, None], 0.0),
    )
    chains = links.Links(*(_chains(each, off.shape) for each in said))
    log_z = links.reduced(chains, "the derivatives of Markovian processes").log_z
    return known + log_z.reshape(*off.shape[:2], -1).sum(-1)


def _chains(values: Float[Tensor, "*n T K a b"], shape: torch.Size) -> Float[Tensor, "T M a b"]:
    """Time first; draws, trials and latents in one axis."""
    return values.expand(*shape, *values.shape[-2:]).movedim(2, 0).flatten(1, 3)
