"""Functions of the eigenvalues of symmetric matrices, differentiable where eigenvalues coincide."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from rpmodels.linalg.dense import spectrum


def soft_threshold(values: Float[Tensor, "*b"], least: float) -> Float[Tensor, "*b"]:
    """least + log(1 + exp(x − least)): above `least`, and x itself far above it."""
    return least + softplus(values - least)


def before_threshold(values: Float[Tensor, "*b"], least: float) -> Float[Tensor, "*b"]:
    """The inverse; what is not above `least` becomes as good as that."""
    above = (values - least).clamp_min(least)
    return values.clamp_min(2.0 * least) + torch.log(-torch.expm1(-above))


class _OfEigenvalues(torch.autograd.Function):
    """V diag f(λ) Vᵀ. Its derivative has divided differences of f, which are slopes where eigenvalues coincide."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, least: float) -> Tensor:
        values, vectors = spectrum(0.5 * (matrix + matrix.mT))
        ctx.save_for_backward(values, vectors)
        ctx.least = least
        changed: Tensor = (vectors * soft_threshold(values, least)[..., None, :]) @ vectors.mT
        return changed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        values, vectors = ctx.saved_tensors
        apart = values[..., :, None] - values[..., None, :]
        changed = soft_threshold(values, ctx.least)
        close = apart.abs() < torch.finfo(values.dtype).eps ** 0.5 * (1.0 + values.abs().amax(-1)[..., None, None])
        slope = torch.sigmoid(0.5 * (values[..., :, None] + values[..., None, :]) - ctx.least)
        divided = (changed[..., :, None] - changed[..., None, :]) / torch.where(close, 1.0, apart)
        inner = vectors.mT @ (0.5 * (grads[0] + grads[0].mT)) @ vectors
        return vectors @ (torch.where(close, slope, divided) * inner) @ vectors.mT, None


def eigenvalues_above(matrix: Float[Tensor, "*b n n"], least: float) -> Float[Tensor, "*b n n"]:
    """The symmetric part of a matrix, its eigenvalues soft-thresholded at `least`."""
    found: Tensor = _OfEigenvalues.apply(matrix, least)  # type: ignore[no-untyped-call]
    return found


def before_eigenvalues_above(matrix: Float[Tensor, "*b n n"], least: float) -> Float[Tensor, "*b n n"]:
    """The inverse, for matrices that are positive definite; no gradient goes through it."""
    values, vectors = spectrum(matrix.detach())
    found: Tensor = (vectors * before_threshold(values, least)[..., None, :]) @ vectors.mT
    return found
