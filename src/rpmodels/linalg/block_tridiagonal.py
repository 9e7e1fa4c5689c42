"""Gaussian chains: marginals, neighbours' covariances and log det from a block-tridiagonal J.

q(x) ∝ exp(Σ_t h_tᵀx_t − ½ xᵀJx), where J couples neighbours alone. Two ways of eliminating the blocks: one after the
other (the Kalman filter and the Rauch–Tung–Striebel smoother in information form), or every second one at once, and
again among those left (cyclic reduction): some more work, in log₂ T rounds. Both ask of J only that it is positive
definite. The T blocks are the first axis here, so that slices of it are contiguous; N is how many chains there are.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from rpmodels import kernels
from rpmodels.linalg import compiled
from rpmodels.linalg.dense import cholesky, inverse_and_log_det

SHORT = 8
"""Up to here one block after the other is faster (measured forwards and backwards, N = 20, K = 2 … 4)."""

SEVERAL = 4
"""Chains: of fewer the compiled loops, which take one in every lane, gain nothing."""


class Chain(NamedTuple):
    """[J_tt | h_t] of every block, J_{t+1,t}, and what J is called when it fails."""

    blocks: Float[Tensor, "T N K K+1"]
    below: Float[Tensor, "T-1 N K K"]
    what: str


class Smoothed(NamedTuple):
    """Moments of every block and of its neighbour."""

    mean: Float[Tensor, "T N K"]
    covariance: Float[Tensor, "T N K K"]
    pairwise: Float[Tensor, "T-1 N K K"]
    """Cov(x_{t+1}, x_t)."""
    log_det: Float[Tensor, "N"]
    """Of J."""


def smoothed(chain: Chain) -> Smoothed:
    """By whichever way is faster for so many blocks: compiled, or in few calls of torch."""
    if chain.blocks.shape[1] >= SEVERAL and kernels.serve(chain.blocks, chain.below):
        found = compiled.smoothed(chain.blocks, chain.below)
        if found is not None:
            return Smoothed(*found)
    return in_order(chain) if len(chain.blocks) <= SHORT else by_halves(chain)


# ---- one block after the other ------------------------------------------------------------------------


def in_order(chain: Chain) -> Smoothed:
    """Eliminate the past, then walk back: T rounds each way."""
    size = chain.blocks.shape[-2]
    below = chain.below.unbind()
    inverses: list[Tensor] = []
    gains: list[Tensor] = []
    logs: list[Tensor] = []
    for t, now in enumerate(chain.blocks.unbind()):
        # [P | h]: J_tt and h_t once the past is integrated out.
        left = now - below[t - 1] @ gains[-1] if t else now
        inverse, log_det = inverse_and_log_det(left[..., :size], chain.what)
        # P⁻¹ [J_{t,t+1} | h]; the last block has no successor.
        right = torch.cat([below[t].mT, left[..., size:]], -1) if t < len(below) else left[..., size:]
        inverses.append(inverse)
        gains.append(inverse @ right)
        logs.append(log_det)
    return _walked_back(inverses, gains, torch.stack(logs).sum(0))


def _walked_back(inverses: list[Tensor], gains: list[Tensor], log_det: Tensor) -> Smoothed:
    """Σ_t = P⁻¹ + GΣ_{t+1}Gᵀ and m_t = P⁻¹h + Gm_{t+1}, with G = −P⁻¹J_{t,t+1}."""
    size = inverses[-1].shape[-1]
    moments = [torch.cat([inverses[-1], gains[-1]], -1)]  # [Σ | m]
    pairwise = []
    for inverse, gain in zip(inverses[-2::-1], gains[-2::-1], strict=True):
        after = gain[..., :size] @ moments[-1]
        covariance = inverse + after[..., :size] @ gain[..., :size].mT
        moments.append(torch.cat([covariance, gain[..., size:] - after[..., size:]], -1))
        pairwise.append(-after[..., :size].mT)
    every = torch.stack(moments[::-1])
    pairs = torch.stack(pairwise[::-1]) if pairwise else every[1:, ..., :size]
    return Smoothed(every[..., size], every[..., :size], pairs, log_det)


# ---- every second block at once -----------------------------------------------------------------------


def by_halves(chain: Chain) -> Smoothed:
    """Eliminate every second block, smooth the others in the same way, and come back to those eliminated."""
    size = chain.blocks.shape[-2]
    own, gone = chain.blocks[0::2], chain.blocks[1::2]
    inverse, log_det = inverse_and_log_det((gone if len(gone) else own)[..., :size], chain.what)
    if not len(gone):
        mean = (inverse @ own[..., size:])[..., 0]
        return Smoothed(mean, inverse, inverse[1:], log_det[0])
    # A last block without a successor gets one that it does not depend on.
    left, right = chain.below[0::2], _lengthened(chain.below[1::2], len(gone))
    sides = torch.cat([left, right.mT], -1)
    reduced = inverse @ torch.cat([left, gone[..., size:], right.mT], -1)
    rest = _smoothed_rest(own, sides.mT @ reduced, chain.what)
    gain = torch.cat([reduced[..., :size], reduced[..., size + 1 :]], -1)
    return _come_back(rest, inverse, gain, reduced[..., size], log_det.sum(0))


def _smoothed_rest(own: Float[Tensor, "R N K _"], schur: Float[Tensor, "G N _ _"], what: str) -> Smoothed:
    """The blocks that are left, less [L | h | Rᵀ]ᵀJ⁻¹[L | h | Rᵀ] of those between them."""
    size, last = own.shape[-2], len(own) - 1
    to_left, to_right = schur[..., :size, : size + 1], schur[:last, ..., size:, :]
    turned = torch.cat([to_right[..., size + 1 :], to_right[..., size : size + 1]], -1)
    blocks = own - _lengthened(to_left, len(own)) - pad(turned, (0, 0, 0, 0, 0, 0, 1, 0))
    return by_halves(Chain(blocks, -to_right[..., :size], what))


def _come_back(rest: Smoothed, inverse: Tensor, gain: Tensor, own: Tensor, log_det: Tensor) -> Smoothed:
    """The blocks between: Σ_e = J⁻¹ + GΣ_lrGᵀ, m_e = J⁻¹h − Gm_lr, given the joint moments of left and right."""
    count, size = len(inverse), inverse.shape[-1]
    pairs = _lengthened(rest.pairwise, count)
    moments = torch.cat([rest.covariance, rest.mean[..., None]], -1)
    left, right = moments[:count], _lengthened(moments[1:], count)
    top = torch.cat([left[..., :size], pairs.mT, left[..., size:]], -1)
    bottom = torch.cat([pairs, right], -1)
    across = gain @ torch.cat([top, bottom], -2)
    covariance = inverse + across[..., : 2 * size] @ gain.mT
    mean = own - across[..., -1]
    with_left, with_right = -across[..., :size], -across[..., size : 2 * size].mT
    every = len(rest.mean) + count
    return Smoothed(
        interleaved(rest.mean, mean),
        interleaved(rest.covariance, covariance),
        interleaved(with_left, with_right)[: every - 1],
        rest.log_det + log_det,
    )


def _lengthened(values: Float[Tensor, "a N k l"], count: int) -> Float[Tensor, "b N k l"]:
    """Zeros at the end, up to `count`; at most one is missing."""
    return values if len(values) >= count else pad(values, (0, 0, 0, 0, 0, 0, 0, count - len(values)))


def interleaved(even: Float[Tensor, "a N *k"], odd: Float[Tensor, "b N *k"]) -> Float[Tensor, "c N *k"]:
    """even₀, odd₀, even₁, odd₁, …; `even` may have one more."""
    both = torch.stack([even[: len(odd)], odd], 1).flatten(0, 1)
    return torch.cat([both, even[len(odd) :]]) if len(even) > len(odd) else both


# ---- draws and sums along a chain ----------------------------------------------------------------


def drawn(q: Smoothed, noise: Float[Tensor, "T N K"]) -> Float[Tensor, "T N K"]:
    """A joint draw from standard normal noise: every block given the one before it."""
    before = inverse_and_log_det(q.covariance[:-1], "a covariance of a chain")[0]
    gain = q.pairwise @ before
    spread = torch.cat([q.covariance[:1], q.covariance[1:] - gain @ q.pairwise.mT])
    own = (cholesky(spread, "a conditional covariance of a chain") @ noise[..., None]).unbind()
    around = [own[0]]
    for each, along in zip(own[1:], gain.unbind(), strict=True):
        around.append(along @ around[-1] + each)
    return q.mean + torch.stack(around)[..., 0]


def accumulated(A: Float[Tensor, "K K"], increments: Float[Tensor, "N T K"]) -> Float[Tensor, "N T K"]:
    """x_t = A x_{t−1} + increment_t from x_0 = 0, in log₂ T rounds: each doubles how far back a sum reaches."""
    x, power, reach = increments, A, 1
    while reach < x.shape[1]:
        x = x + pad(x[:, :-reach] @ power.mT, (0, 0, reach, 0))
        power, reach = power @ power, 2 * reach
    return x
