"""Sums over the values of channels, one value after the other, with backward passes of their own.

Values are few: sums along a short last axis take four times as long, forward and backward.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpmodels import kernels

SMALL = 2**17
"""Numbers that are one sum: fewer take less time than being sent for, value by value."""


def log_terms(
    u: Float[Tensor, "N T Q C"], a: Float[Tensor, "C A"], b: Float[Tensor, "C A"], log_values: Float[Tensor, "S C A"]
) -> Float[Tensor, "N T Q C A"]:
    """ℓ_x + a_x u − ½ b_x u² of every value x, ℓ being `log_values`."""
    wide = u[..., None]
    return torch.addcmul(log_values[:, None], wide, a - 0.5 * b * wide)


def log_sums(
    u: Float[Tensor, "N T Q C"], a: Float[Tensor, "C A"], b: Float[Tensor, "C A"], log_values: Float[Tensor, "S C A"]
) -> Float[Tensor, "N T Q C"]:
    """L(u) = log Σ_x exp(ℓ_x + a_x u − ½ b_x u²)."""
    if kernels.serve(u, a, b, log_values):
        return _compiled(u, a, b, log_values)[0]
    total: Tensor = _LogSum.apply(u, a, b, log_values)  # type: ignore[no-untyped-call]
    return total


def slopes(
    u: Float[Tensor, "N T Q C"], a: Float[Tensor, "C A"], b: Float[Tensor, "C A"], log_values: Float[Tensor, "S C A"]
) -> Float[Tensor, "N T Q C"]:
    """L'(u) = Σ_x π_x(u) (a_x − b_x u), π the shares of the values in the sum; it can be differentiated once more."""
    if kernels.serve(u, a, b, log_values):
        return _compiled(u, a, b, log_values)[1]
    if u.numel() * a.shape[1] <= SMALL and not torch.is_grad_enabled():
        shares = torch.softmax(log_terms(u, a, b, log_values), -1)
        return (shares * (a - b * u[..., None])).sum(-1)
    total: Tensor = _Slope.apply(u, a, b, log_values)  # type: ignore[no-untyped-call]
    return total


def _compiled(u: Tensor, a: Tensor, b: Tensor, log_values: Tensor) -> tuple[Tensor, Tensor]:
    """L and L' by compiled loops, which want channels as the last axis."""
    both: tuple[Tensor, Tensor] = _Compiled.apply(u, a.mT, b.mT, log_values.mT)  # type: ignore[no-untyped-call]
    return both


class _Compiled(torch.autograd.Function):
    """Both of them; the shares of the values are computed again on the way back."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, a: Tensor, b: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        given = [kernels.array(each) for each in (u, a, b, values)]
        found = np.empty_like(given[0]), np.empty_like(given[0])
        kernels.loops("channel_values").sums(*given, *found)
        ctx.parts = *given, *found
        return torch.from_numpy(found[0]), torch.from_numpy(found[1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        by = [np.zeros_like(each) for each in ctx.parts[:4]]
        kernels.loops("channel_values").pull(*ctx.parts, *(kernels.array(each) for each in grads), *by)
        return tuple(torch.from_numpy(each) for each in by)


def _shares(u: Tensor, a: Tensor, b: Tensor, log_values: Tensor) -> tuple[list[Tensor], Tensor, Tensor]:
    """exp(term − highest) of every value, their sum, and the highest."""
    bent = -0.5 * b
    terms = [
        torch.addcmul(log_values[:, None, :, i], u, torch.addcmul(a[:, i], u, bent[:, i])) for i in range(a.shape[1])
    ]
    highest = terms[0].clone()
    for each in terms[1:]:
        torch.maximum(highest, each, out=highest)
    total = torch.zeros_like(u)
    for each in terms:
        total += each.sub_(highest).exp_()
    return terms, total, highest


class _LogSum(torch.autograd.Function):
    """L."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, a: Tensor, b: Tensor, log_values: Tensor) -> Tensor:
        terms, total, highest = _shares(u, a, b, log_values)
        ctx.save_for_backward(u, a, b, total, *terms)
        ctx.n_references = log_values.shape[0]
        return highest.add_(total.log())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        u, a, b, total, *terms = ctx.saved_tensors
        weight = grads[0] / total
        by_u, by_a, by_b = torch.zeros_like(u), torch.empty_like(a), torch.empty_like(b)
        by_value = a.new_empty(ctx.n_references, *a.shape)
        for i, term in enumerate(terms):
            share = weight * term
            seen = share * u
            by_value[..., i] = share.sum((0, 2)).sum_to_size(ctx.n_references, len(a))
            by_a[:, i] = seen.sum((0, 1, 2))
            by_b[:, i] = -0.5 * (seen * u).sum((0, 1, 2))
            by_u += share * a[:, i] - seen * b[:, i]
        return by_u, by_a, by_b, by_value


class _Slope(torch.autograd.Function):
    """L', with d_x = a_x − b_x u and ∂π_x = π_x (∂term_x − Σ_y π_y ∂term_y)."""

    @staticmethod
    def forward(ctx: Any, u: Tensor, a: Tensor, b: Tensor, log_values: Tensor) -> Tensor:
        terms, total, _ = _shares(u, a, b, log_values)
        slope = torch.zeros_like(u)
        for i, term in enumerate(terms):
            slope += term.div_(total) * torch.addcmul(a[:, i], u, b[:, i], value=-1.0)
        ctx.save_for_backward(u, a, b, slope, *terms)
        ctx.n_references = log_values.shape[0]
        return slope

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        u, a, b, slope, *shares = ctx.saved_tensors
        by_u, by_a, by_b = torch.zeros_like(u), torch.empty_like(a), torch.empty_like(b)
        by_value = a.new_empty(ctx.n_references, *a.shape)
        for i, pi in enumerate(shares):
            share = grads[0] * pi
            d = torch.addcmul(a[:, i], u, b[:, i], value=-1.0)
            moved = share * (d - slope)
            along = moved * u
            by_value[..., i] = moved.sum((0, 2)).sum_to_size(ctx.n_references, len(a))
            by_a[:, i] = (share + along).sum((0, 1, 2))
            by_b[:, i] = -(share * u).addcmul_(along, u, value=0.5).sum((0, 1, 2))
            by_u += moved * d - share * b[:, i]
        return by_u, by_a, by_b, by_value
