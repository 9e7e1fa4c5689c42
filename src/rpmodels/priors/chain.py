"""Sums and maxima over paths of a chain, in log space, batched: site after site, or by an associative scan.

Elements are log-matrices: steps[t]_ij is log p(z_{t+1} = j | z_t = i) plus what site t + 1 says of j. The scan joins
neighbouring matrices, solves the chain of half the length, and fills in the rest: log₂ T rounds instead of T.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

SCAN_UP_TO = 4_000
"""N·K³ numbers: with more of them, joining two matrices costs more than the step it saves (benchmarks/chains.py)."""


def forward(start: Float[Tensor, "N K"], steps: Float[Tensor, "N L K K"]) -> Float[Tensor, "N T K"]:
    """log Σ over the pasts of every state: α_1 = start, α_{t+1}(j) = log Σ_i exp(α_t(i) + steps_ij)."""
    if steps.shape[1] == 0:
        return start[:, None]
    n, k = start.shape
    later = _scanned(start, steps) if n * k**3 <= SCAN_UP_TO else _in_turn(start, steps)
    return torch.cat([start[:, None], later], 1)


def backward(steps: Float[Tensor, "N L K K"]) -> Float[Tensor, "N T K"]:
    """log Σ over the futures of every state: β_T = 0, β_t(i) = log Σ_j exp(steps_ij + β_{t+1}(j))."""
    n, _, k, _ = steps.shape
    return forward(steps.new_zeros(n, k), steps.flip(1).mT).flip(1)


def _in_turn(start: Float[Tensor, "N K"], steps: Float[Tensor, "N L K K"]) -> Float[Tensor, "N L K"]:
    messages = [start]
    for step in steps.unbind(1):
        messages.append(_after(messages[-1], step))
    return torch.stack(messages[1:], 1)


def _scanned(start: Float[Tensor, "N K"], steps: Float[Tensor, "N L K K"]) -> Float[Tensor, "N L K"]:
    length = steps.shape[1]
    if length == 1:
        return _after(start, steps[:, 0])[:, None]
    half = length // 2
    first, second = steps[:, 0 : 2 * half : 2], steps[:, 1 : 2 * half : 2]
    joined = torch.logsumexp(first[..., :, :, None] + second[..., None, :, :], -2)
    odd = _scanned(start, joined)  # after the second, the fourth, … step
    before = torch.cat([start[:, None], odd], 1)
    even = _after(before[:, : (length + 1) // 2], steps[:, ::2])
    woven = torch.stack([even[:, :half], odd], 2).flatten(1, 2)
    return torch.cat([woven, even[:, half:]], 1)


def _after(message: Float[Tensor, "*b K"], step: Float[Tensor, "*b K K"]) -> Float[Tensor, "*b K"]:
    return torch.logsumexp(message[..., :, None] + step, -2)


def viterbi(start: Float[Tensor, "N K"], steps: Float[Tensor, "N L K K"]) -> Int[Tensor, "N T"]:
    """The path of the highest sum."""
    best, came_from = start, []
    for step in steps.unbind(1):
        best, origin = (best[:, :, None] + step).max(1)
        came_from.append(origin)
    path = [best.argmax(-1)]
    for origin in reversed(came_from):
        path.append(origin.gather(-1, path[-1][:, None])[:, 0])
    return torch.stack(path[::-1], 1)
