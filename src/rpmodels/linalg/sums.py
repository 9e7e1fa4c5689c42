"""log Σ exp, where sums may be empty."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def log_sum_exp(values: Float[Tensor, "..."], dim: int | tuple[int, ...] = -1) -> Float[Tensor, "..."]:
    """log Σ exp with −∞ for an empty sum, and a zero (not NaN) gradient there."""
    total: Tensor = _LogSumExp.apply(values, dim)  # type: ignore[no-untyped-call]
    return total


class _LogSumExp(torch.autograd.Function):
    """With a backward pass of its own: torch's gives NaN for an empty sum, and takes every exponential twice."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, dim: int | tuple[int, ...]) -> Tensor:
        limits = torch.finfo(values.dtype)
        highest = values.amax(dim, keepdim=True).clamp_(limits.min, limits.max)  # ∞ − ∞ would be NaN
        terms = (values - highest).exp_()
        total = terms.sum(dim, keepdim=True)
        ctx.save_for_backward(terms, total)
        ctx.dim = dim
        return total.log().add_(highest).squeeze_(dim)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        terms, total = ctx.saved_tensors
        # The highest term is one, so the total is at least that, or the sum is empty.
        return terms * (grads[0].reshape(total.shape) / total.clamp_min(1.0)), None
