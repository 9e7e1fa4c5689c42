"""Sums and maxima over paths of a chain, in log space, batched: site after site, or by an associative scan.

Elements are log-matrices: steps[t]_ij is log p(z_{t+1} = j | z_t = i) plus what site t + 1 says of j. The scan joins
neighbouring matrices, solves the chain of half the length, and fills in the rest: log₂ T rounds instead of T.

Where only log W has a gradient, which is q, messages need none: `Messages` are vectors of probabilities times one
matrix, in double precision, without a matrix for every site.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpmodels import kernels

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


def viterbi(
    start: Float[Tensor, "N K"],
    log_transition: Float[Tensor, "K K"],
    said: Float[Tensor, "N T K"],
    there: Bool[Tensor, "N T"],
) -> Int[Tensor, "N T"]:
    """The path of the highest sum; what is said of the first site is in `start` already."""
    best, came_from = start, []
    for t in range(1, said.shape[1]):
        step = torch.where(there[:, t, None, None], log_transition, 0.0)
        best, origin = (best[:, :, None] + step).max(1)
        best = best + said[:, t]
        came_from.append(origin)
    path = [best.argmax(-1)]
    for origin in reversed(came_from):
        path.append(origin.gather(-1, path[-1][:, None])[:, 0])
    return torch.stack(path[::-1], 1)


@dataclass(frozen=True)
class Messages:
    """Both directions of a chain as probabilities; every site's are scaled to sum to one."""

    past: Float[Tensor, "N T K"]
    """p(z_t | what was seen until t)."""
    future: Float[Tensor, "N T K"]
    """∝ p(what is seen from t on | z_t): what site t says among it."""
    after: Float[Tensor, "N T K"]
    """∝ p(what is seen after t | z_t)."""
    log_partition: Float[Tensor, "N"]
    transition: Float[Tensor, "K K"]
    there: Bool[Tensor, "N T"]

    @staticmethod
    @torch.no_grad()
    def passed(
        log_initial: Float[Tensor, "K"],
        log_transition: Float[Tensor, "K K"],
        potentials: Float[Tensor, "N T K"],
        there: Bool[Tensor, "N T"],
    ) -> "Messages":
        """Both at once: the future is the past of the reversed chain under the transposed matrix."""
        dtype = torch.float32 if potentials.device.type == "mps" else torch.float64
        said = torch.where(there[..., None], potentials, 0.0).to(dtype)
        if kernels.serve(said):
            return _passed(log_initial.to(dtype).exp(), log_transition.to(dtype).exp(), said, there)
        highest = said.amax(-1, keepdim=True)
        weights = (said - highest).exp()
        transition = log_transition.to(dtype).exp()
        both = torch.stack([transition, transition.mT])
        towards = torch.stack([weights, weights.flip(1)]).permute(2, 0, 1, 3).contiguous()
        padding = None if bool(there.all()) else ~torch.stack([there, there.flip(1)]).permute(2, 0, 1)[..., None]
        arriving = torch.stack([log_initial.to(dtype).exp().expand_as(weights[:, 0]), torch.ones_like(weights[:, 0])])
        found, totals = [], []
        for t, now in enumerate(towards):
            state = arriving * now
            if padding is not None:  # beyond the end nothing is said, whatever came before
                state = torch.where(padding[t], 1.0 / state.shape[-1], state)
            total = state.sum(-1, keepdim=True)
            state = state / total
            found.append(state)
            totals.append(total[0])
            arriving = state @ both
        past, reverse = torch.stack(found, 2)
        future = reverse.flip(1)
        ends = torch.full_like(future[:, :1], 1.0)
        after = torch.cat([future[:, 1:] @ transition.mT, ends], 1)
        if padding is not None:
            seen_next = torch.cat([there[:, 1:], torch.zeros_like(there[:, :1])], 1)
            after = torch.where(seen_next[..., None], after, 1.0)
        value = (torch.stack(totals, 1).log() + highest)[..., 0]
        log_partition = torch.where(there, value, 0.0).sum(-1)
        return Messages(past, future, after, log_partition, transition, there)

    @property
    def marginals(self) -> Float[Tensor, "N T K"]:
        """q(z_t)."""
        joint = self.past * self.after
        return joint / joint.sum(-1, keepdim=True)

    def pairs(self, weights: Float[Tensor, "N"]) -> Float[Tensor, "K K"]:
        """Σ weights Σ_t q(z_t, z_{t+1}), over the steps to sites that exist."""
        past, after = self.past[:, :-1], self.after[:, :-1]
        scale = weights.to(past.dtype)[:, None] * self.there[:, 1:] / (past * after).sum(-1)
        return self.transition * ((scale[..., None] * past).flatten(0, 1).mT @ self.future[:, 1:].flatten(0, 1))


def _passed(
    initial: Float[Tensor, "K"],
    transition: Float[Tensor, "K K"],
    said: Float[Tensor, "N T K"],
    there: Bool[Tensor, "N T"],
) -> Messages:
    """By compiled loops."""
    past, future, after = (torch.empty_like(said) for _ in range(3))
    log_partition = said.new_zeros(len(said))
    given = [kernels.array(each) for each in (initial, transition, said, there)]
    kernels.loops("messages").pass_both(*given, *(each.numpy() for each in (past, future, after, log_partition)))
    return Messages(past, future, after, log_partition, transition, there)


class LogPartition(torch.autograd.Function):
    """log W, whose gradient by the potentials is q, by log π the first marginal, and by log A the expected steps."""

    @staticmethod
    def forward(
        ctx: Any, potentials: Tensor, log_initial: Tensor, log_transition: Tensor, found: Messages, mu: Tensor
    ) -> Tensor:
        """As it was found."""
        ctx.found, ctx.dtypes = found, (log_initial.dtype, log_transition.dtype)
        ctx.save_for_backward(mu)
        return found.log_partition.to(potentials.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        """Those of them that are asked for."""
        (mu,), found, dtypes, by = ctx.saved_tensors, ctx.found, ctx.dtypes, grads[0]
        there = found.there
        first = by * there[:, 0]
        return (
            torch.where(there[..., None], by[:, None, None] * mu, 0.0) if ctx.needs_input_grad[0] else None,
            (first[:, None] * mu[:, 0]).sum(0).to(dtypes[0]) if ctx.needs_input_grad[1] else None,
            found.pairs(by).to(dtypes[1]) if ctx.needs_input_grad[2] else None,
            None,
            None,
        )
