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
    kl: Float[Tensor, "N"]
    """KL(q(v)‖N(0, I)) = Σ_k ½ (tr Σ + μᵀμ − M − log |Σ|)."""


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
        ctx.set_materialize_grads(False)  # training asks for the last three alone
        log_det = -linalg.log_det(factor)
        trace = covariance.view(k, n, m * m)[..., :: m + 1].sum(-1)
        kl = (trace + mean.square().sum(-1) - log_det - m).sum(0).mul_(0.5)
        seen = (mean @ a, covariance.view(k, n, m * m) @ products)
        return *(each.transpose(0, 1) for each in (mean, covariance, log_det, *seen)), kl

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        a, products, first, weight, mean, covariance = ctx.saved_tensors
        k, n, m = mean.shape
        of_mean, of_covariance, of_log_det, of_seen, of_variance = (_latents_first(each) for each in grads[:5])
        of_seen = torch.zeros_like(first) if of_seen is None else of_seen
        of_variance = torch.zeros_like(weight) if of_variance is None else of_variance
        # Through the sites to q(v).
        by_covariance = (of_variance @ products.mT).view(k, n, m, m)
        by_mean = of_seen @ a.mT
        by_mean = by_mean if of_mean is None else by_mean + of_mean
        by_covariance = by_covariance if of_covariance is None else by_covariance + of_covariance
        by_log_det = covariance.new_zeros(()) if of_log_det is None else of_log_det[..., None, None]
        if grads[5] is not None:
            by_mean = torch.addcmul(by_mean, mean, grads[5][:, None])
            half_kl = 0.5 * grads[5][:, None]
            by_covariance.view(k, n, m * m)[..., :: m + 1].add_(half_kl)
            by_log_det = by_log_det - half_kl[..., None]
        # Through q(v) to its shift and its precision, whose derivative is symmetric.
        shift = (covariance @ by_mean[..., None])[..., 0]
        half = covariance @ by_covariance @ covariance + shift[..., :, None] * mean[..., None, :]
        precision = -0.5 * (half + half.mT) - by_log_det * covariance
        flat = precision.view(k, n, m * m)
        # Σ_n of the two quadratic forms in A, and of the two linear ones, each as one product.
        matrices = torch.cat([flat, covariance.view(k, n, m * m)], 1)
        quadratic = (matrices.mT @ torch.cat([weight, of_variance], 1)).view(k, m, m, -1)
        linear = torch.cat([shift, mean], 1).mT @ torch.cat([first, of_seen], 1)
        by_a = linear + 2.0 * (quadratic * a[:, None]).sum(2)
        return by_a, (shift @ a).transpose(0, 1), (flat @ products).transpose(0, 1)


def _latents_first(grad: Tensor | None) -> Tensor | None:
    return None if grad is None else grad.transpose(0, 1)
