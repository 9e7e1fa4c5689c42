"""Φ(a + g_m) of Gaussians summed over atoms by compiled loops (rpmodels.kernels), which want sites as the last axis."""

from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpmodels import kernels
from rpmodels.families.family import InPlacePairs


def log_sum_normalisers(
    family: InPlacePairs, a: Float[Tensor, "N T D"], g: Float[Tensor, "S A D"], log_weight: Float[Tensor, "S A"]
) -> Float[Tensor, "N T"]:
    """log Σ_m exp(Φ(a + g_m) + w_m) at every site; S is T, or 1 where all sites have the same atoms."""
    total: Tensor = _LogSum.apply(family, a, g, log_weight)  # type: ignore[no-untyped-call]
    return total


def log_normalisers(family: InPlacePairs, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b"]:
    """Φ(η). Not a number where Λ is not positive definite."""
    value: Tensor = _LogNormalisers.apply(family, eta)  # type: ignore[no-untyped-call]
    return value


class _LogNormalisers(torch.autograd.Function):
    """Φ and, where a gradient will be asked for, μ, in one pass."""

    @staticmethod
    def forward(ctx: Any, family: InPlacePairs, eta: Tensor) -> Tensor:
        rows = kernels.array(eta).reshape(-1, eta.shape[-1])
        value, mean = np.empty_like(rows[:, 0]), np.empty_like(rows if ctx.needs_input_grad[1] else rows[:0])
        kernels.loops(family.loops).normalisers(rows, family.latents, value, mean)
        ctx.save_for_backward(eta)
        ctx.family, ctx.mean = family, mean
        return torch.from_numpy(value).view(eta.shape[:-1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        (eta,) = ctx.saved_tensors
        # Whoever wants second derivatives goes on from here.
        mean = ctx.family.mean(eta) if torch.is_grad_enabled() else torch.from_numpy(ctx.mean).view(eta.shape)
        return None, mean * grads[0][..., None]


class _LogSum(torch.autograd.Function):
    """Forward by running maxima, backward by the shares of the atoms; nothing as large as the pairs is kept."""

    @staticmethod
    def forward(ctx: Any, family: InPlacePairs, a: Tensor, g: Tensor, log_weight: Tensor) -> Tensor:
        form = _precision_form(family, a.dtype)
        sites = _sites_last(a @ form, len(g))
        parts = [kernels.array(each) for each in (sites, g @ form, log_weight)]
        total = a.new_empty(sites.shape[0], sites.shape[2])
        kernels.loops(family.loops).log_sums(*parts, total.numpy())
        ctx.family, ctx.parts, ctx.form, ctx.total, ctx.shape = family, parts, form, total.numpy(), a.shape[:2]
        return _sites_first(total[:, None], ctx.shape)[..., 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor, Tensor]:
        grad = kernels.array(_sites_last(grads[0][..., None], len(ctx.parts[1]))[:, 0])
        by = [np.zeros_like(each) for each in ctx.parts]
        kernels.loops(ctx.family.loops).pull(*ctx.parts, ctx.total, grad, *by)
        by_a, by_g, by_weight = (torch.from_numpy(each) for each in by)
        return None, _sites_first(by_a, ctx.shape) @ ctx.form.mT, by_g @ ctx.form.mT, by_weight


@cache
def _precision_form(family: InPlacePairs, dtype: torch.dtype) -> Float[Tensor, "D E"]:
    return family.precision_form().to(dtype)


def _sites_last(values: Float[Tensor, "N T E"], kinds: int) -> Float[Tensor, "S E R"]:
    """By kinds of sites that share their atoms: those of every time, or all."""
    return values.permute(1, 2, 0) if kinds > 1 else values.flatten(0, 1).mT[None]


def _sites_first(values: Float[Tensor, "S E R"], shape: torch.Size) -> Float[Tensor, "N T E"]:
    if len(values) > 1:
        return values.permute(2, 0, 1)
    return torch.unflatten(values[0].mT, 0, shape)
