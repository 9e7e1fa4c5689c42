"""Conditioning Gaussian processes on one grid of times, as one function with its own backward pass.

The default models spend their steps here. Taken apart for autograd, the same algebra is some sixty small operations
there and back; in one piece its derivatives share their factors. Latents come in groups: alone where they are
independent a posteriori, together where factors couple them. Everything that has two latents of a group is symmetric
in them, and is computed for i ≤ j alone.
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpmodels import linalg

WHAT = "the posterior precision of the inducing points"


class Conditioned(NamedTuple):
    """q(v) of every trial and group of B latents, Q = B·M numbers, and what the sites see of it."""

    mean: Float[Tensor, "N G Q"]
    covariance: Float[Tensor, "N G Q Q"]
    log_det: Float[Tensor, "N G"]
    """Of the covariance."""
    seen_mean: Float[Tensor, "N G B T"]
    """Aᵀμ."""
    seen_spread: Float[Tensor, "N G B B T"]
    """A_tᵀ Σ A_t."""
    kl: Float[Tensor, "N"]
    """KL(q(v)‖N(0, I)) = Σ ½ (tr Σ + μᵀμ − Q − log |Σ|)."""


def conditioned(
    a: Float[Tensor, "G B M T"], first: Float[Tensor, "N G B T"], weight: Float[Tensor, "N G B B T"]
) -> Conditioned:
    """Σ = (I + Σ_t A_t W_t A_tᵀ)⁻¹ and μ = Σ Σ_t A_t first_t; W_t is symmetric."""
    return Conditioned(*_Conditioned.apply(a, first, weight))  # type: ignore[no-untyped-call]


class _Pairs(NamedTuple):
    """Of latents i ≤ j of a group, P of them, and A_i A_j at every time for each pair of inducing variables."""

    i: Int[Tensor, "P"]
    j: Int[Tensor, "P"]
    products: Float[Tensor, "G P X T"]

    @staticmethod
    def of(a: Float[Tensor, "G B M T"]) -> "_Pairs":
        i, j = _indices(a)
        return _Pairs(i, j, (a[:, i, :, None] * a[:, j, None]).flatten(2, 3))

    def picked(self, values: Float[Tensor, "N G B B T"]) -> Float[Tensor, "G P N T"]:
        """Numbers of every pair, pairs first."""
        return values[:, :, self.i, self.j].permute(1, 2, 0, 3)

    def filled(self, values: Float[Tensor, "G P N T"], size: int) -> Float[Tensor, "N G B B T"]:
        """The same for i > j as for i < j."""
        groups, _, n, t = values.shape
        whole = values.new_empty(n, groups, size, size, t)
        by_trial = values.permute(2, 0, 1, 3)
        whole[:, :, self.i, self.j] = by_trial
        whole[:, :, self.j, self.i] = by_trial
        return whole

    def blocks(self, matrix: Float[Tensor, "G N Q Q"], size: int) -> Float[Tensor, "G P N X"]:
        """Those of every pair, flat."""
        groups, n, flat, _ = matrix.shape
        m = flat // size
        if size == 1:
            return matrix.reshape(groups, 1, n, m * m)
        apart = matrix.view(groups, n, size, m, size, m).permute(2, 4, 0, 1, 3, 5)
        return apart[self.i, self.j].permute(1, 0, 2, 3, 4).reshape(groups, len(self.i), n, m * m)

    def matrix(self, blocks: Float[Tensor, "G P N X"], size: int, m: int) -> Float[Tensor, "G N Q Q"]:
        """The symmetric matrix that has these blocks."""
        groups, pairs, n, _ = blocks.shape
        if size == 1:
            return blocks.reshape(groups, n, m, m)
        each = blocks.view(groups, pairs, n, m, m).movedim(1, 0)
        whole = blocks.new_empty(groups, n, size, m, size, m)
        apart = whole.permute(2, 4, 0, 1, 3, 5)
        apart[self.j, self.i] = each.mT
        apart[self.i, self.j] = each
        return whole.view(groups, n, size * m, size * m)


class _Conditioned(torch.autograd.Function):
    """Groups are the batch axis: [G, N, …] inside, so that sums over trials are matrix products."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, first: Tensor, weight: Tensor) -> tuple[Tensor, ...]:
        (groups, size, m), n = a.shape[:3], len(first)
        pairs = _Pairs.of(a)
        picked = pairs.picked(weight)
        precision = pairs.matrix(picked @ pairs.products.mT, size, m)
        precision.diagonal(dim1=-2, dim2=-1).add_(1.0)
        factor = linalg.cholesky(precision, WHAT)
        covariance = linalg.inverse(factor).mT.contiguous()  # symmetric; LAPACK writes by columns
        shift = (first.permute(1, 2, 0, 3) @ a.mT).transpose(1, 2).reshape(groups, n, size * m)
        mean = (covariance @ shift[..., None])[..., 0]
        ctx.save_for_backward(a, pairs.products, first, picked, mean, covariance)
        ctx.set_materialize_grads(False)  # training asks for the last three alone
        log_det = -linalg.log_det(factor)
        trace = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
        kl = (trace + mean.square().sum(-1) - log_det - size * m).sum(0).mul_(0.5)
        seen_mean = (_by_latent(mean, size) @ a).permute(2, 0, 1, 3)
        seen_spread = pairs.filled(pairs.blocks(covariance, size) @ pairs.products, size)
        return *(each.transpose(0, 1) for each in (mean, covariance, log_det)), seen_mean, seen_spread, kl

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        a, products, first, weight, mean, covariance = ctx.saved_tensors
        (groups, size, m), n = a.shape[:3], len(first)
        pairs = _Pairs(*_indices(a), products)
        of_mean, of_covariance, of_log_det = (_groups_first(each) for each in grads[:3])
        of_seen = torch.zeros_like(first) if grads[3] is None else grads[3]
        # The spread is symmetric in two latents, and so is what depends on it.
        of_spread = torch.zeros_like(weight) if grads[4] is None else pairs.picked(_symmetric(grads[4]))
        # Through the sites to q(v).
        by_covariance = pairs.matrix(of_spread @ products.mT, size, m)
        by_mean = (of_seen.permute(1, 2, 0, 3) @ a.mT).transpose(1, 2).reshape(groups, n, size * m)
        by_mean = by_mean if of_mean is None else by_mean + of_mean
        by_covariance = by_covariance if of_covariance is None else by_covariance + of_covariance
        by_log_det = covariance.new_zeros(()) if of_log_det is None else of_log_det[..., None, None]
        if grads[5] is not None:
            by_mean = torch.addcmul(by_mean, mean, grads[5][:, None])
            half_kl = 0.5 * grads[5][:, None]
            by_covariance.diagonal(dim1=-2, dim2=-1).add_(half_kl)
            by_log_det = by_log_det - half_kl[..., None]
        # Through q(v) to its shift and its precision, whose derivative is symmetric.
        shift = (covariance @ by_mean[..., None])[..., 0]
        half = covariance @ by_covariance @ covariance + shift[..., :, None] * mean[..., None, :]
        precision = pairs.blocks(-0.5 * (half + half.mT) - by_log_det * covariance, size)
        # Σ_n of the two quadratic forms in A, and of the two linear ones, each as one product.
        matrices = torch.cat([precision, pairs.blocks(covariance, size)], 2)
        quadratic = torch.unflatten(matrices.mT @ torch.cat([weight, of_spread], 2), 2, (m, m))
        sites = torch.cat([first.permute(1, 2, 0, 3), of_seen.permute(1, 2, 0, 3)], 2)
        by_a = torch.cat([_by_latent(shift, size), _by_latent(mean, size)], 2).mT @ sites
        by_a.index_add_(1, pairs.i, 2.0 * (quadratic * a[:, pairs.j, None]).sum(3))
        apart = (pairs.i != pairs.j).nonzero()[:, 0]
        if len(apart):
            other = (quadratic[:, apart] * a[:, pairs.i[apart], :, None]).sum(2)
            by_a.index_add_(1, pairs.j[apart], 2.0 * other)
        by_first = (_by_latent(shift, size) @ a).permute(2, 0, 1, 3)
        return by_a, by_first, pairs.filled(precision @ products, size)


def _indices(a: Float[Tensor, "G B M T"]) -> tuple[Int[Tensor, "P"], Int[Tensor, "P"]]:
    i, j = torch.triu_indices(a.shape[1], a.shape[1], device=a.device)
    return i, j


def _symmetric(spread: Float[Tensor, "N G B B T"]) -> Float[Tensor, "N G B B T"]:
    return spread if spread.shape[2] == 1 else 0.5 * (spread + spread.transpose(2, 3))


def _by_latent(mean: Float[Tensor, "G N Q"], size: int) -> Float[Tensor, "G B N M"]:
    return torch.unflatten(mean, -1, (size, -1)).transpose(1, 2)


def _groups_first(grad: Tensor | None) -> Tensor | None:
    return None if grad is None else grad.transpose(0, 1)
