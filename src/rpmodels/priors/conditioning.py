"""Conditioning independent GPs on one grid of times, as one function with its own backward pass.

The default model spends its steps here. Taken apart for autograd, the same algebra is some sixty small operations
there and back; in one piece its derivatives share their factors.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpmodels import linalg

WHAT = "the posterior precision of the inducing points"


class Conditioned(NamedTuple):
    """q(v) of every trial and latent, and what the sites see of it."""

    mean: Float[Tensor, "N K M"]
    covariance: Float[Tensor, "N K M M"]
    log_det: Float[Tensor, "N K"]
    """Of the covariance."""
    seen_mean: Float[Tensor, "N K T"]
    """Aᵀμ."""
    seen_variance: Float[Tensor, "N K T"]
    """diag AᵀΣA."""


def conditioned(
    a: Float[Tensor, "K M T"], first: Float[Tensor, "N K T"], weight: Float[Tensor, "N K T"]
) -> Conditioned:
    """Σ = (I + A diag(weight) Aᵀ)⁻¹ and μ = Σ A first."""
    return Conditioned(*_Conditioned.apply(a, first, weight))  # type: ignore[no-untyped-call]


class _Conditioned(torch.autograd.Function):
    """Latents are the batch axis: [K, N, …] inside, so that sums over trials are matrix products."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, first: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        k, m, t = a.shape
        n = len(first)
        products = (a[:, :, None] * a[:, None]).view(k, m * m, t)
        first, weight = first.transpose(0, 1), weight.transpose(0, 1)
        precision = (weight @ products.mT).view(k, n, m, m)
        precision.diagonal(dim1=-2, dim2=-1).add_(1.0)
        factor = linalg.cholesky(precision, WHAT)
        covariance = linalg.inverse(factor).mT.contiguous()  # symmetric; LAPACK writes by columns
        mean = (covariance @ (first @ a.mT)[..., None])[..., 0]
        ctx.save_for_backward(a, products, first, weight, mean, covariance)
        seen = (mean @ a, covariance.view(k, n, m * m) @ products)
        return tuple(each.transpose(0, 1) for each in (mean, covariance, -linalg.log_det(factor), *seen))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        a, products, first, weight, mean, covariance = ctx.saved_tensors
        k, n, m = mean.shape
        of_mean, of_covariance, of_log_det, of_seen, of_variance = (each.transpose(0, 1) for each in grads)
        # Through the sites to q(v).
        of_covariance = of_covariance + (of_variance @ products.mT).view(k, n, m, m)
        of_mean = of_mean + of_seen @ a.mT
        # Through q(v) to its shift and its precision, whose derivative is symmetric.
        shift = (covariance @ of_mean[..., None])[..., 0]
        half = covariance @ of_covariance @ covariance + shift[..., :, None] * mean[..., None, :]
        precision = -0.5 * (half + half.mT) - of_log_det[..., None, None] * covariance
        flat = precision.reshape(k, n, m * m)
        # Σ_n of the two quadratic forms in A, and of the two linear ones, each as one product.
        matrices = torch.cat([flat, covariance.view(k, n, m * m)], 1)
        quadratic = (matrices.mT @ torch.cat([weight, of_variance], 1)).view(k, m, m, -1)
        linear = torch.cat([shift, mean], 1).mT @ torch.cat([first, of_seen], 1)
        by_a = linear + 2.0 * (quadratic * a[:, None]).sum(2)
        return by_a, (shift @ a).transpose(0, 1), (flat @ products).transpose(0, 1)
