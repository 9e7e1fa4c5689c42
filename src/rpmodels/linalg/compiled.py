"""The same by compiled loops (rpmodels.kernels), value and gradient, wherever these serve; None where a matrix fails.

Then the way in torch finds out which, adds a jitter, or says so.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpmodels import kernels

FEW, WIDE = 8, 16
"""Up to so many chains lanes stay as many; beyond, they are a multiple."""
SMALL, MANY = 16, 32
"""Of matrices: how large at most, and how many at least."""


def smoothed(blocks: Float[Tensor, "T N K K+1"], below: Float[Tensor, "T-1 N K K"]) -> tuple[Tensor, ...] | None:
    """Moments and log det of chains of Gaussians (`block_tridiagonal.Smoothed`)."""
    fine = [True]
    found = _Smoothed.apply(blocks, below, fine)  # type: ignore[no-untyped-call]
    return found if fine[0] else None


def inverse_and_log_det(matrix: Float[Tensor, "*b n n"]) -> tuple[Tensor, ...] | None:
    """Of many small symmetric matrices."""
    fine = [True]
    found = _Inverse.apply(matrix, fine)  # type: ignore[no-untyped-call]
    return found if fine[0] else None


def many_small(matrix: Float[Tensor, "*b n n"]) -> bool:
    """Whether compiled loops are the faster way for them."""
    size = matrix.shape[-1]
    return size <= SMALL and matrix.numel() >= MANY * size * size and kernels.serve(matrix)


class _Inverse(torch.autograd.Function):
    """A matrix in every lane."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, fine: list[bool]) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        size = matrix.shape[-1]
        flat = kernels.array(matrix).reshape(-1, size * size)
        inverted, log_det = np.empty_like(flat), np.zeros(len(flat), flat.dtype)
        fine[0] = kernels.loops("matrices").inverses(flat, size, inverted, log_det)
        ctx.inverted = inverted
        shape = matrix.shape
        return torch.from_numpy(inverted).view(shape), torch.from_numpy(log_det).view(shape[:-2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor, None]:
        inverted, given = ctx.inverted, next(each for each in grads if each is not None)
        size = round(inverted.shape[1] ** 0.5)
        shape = given.shape if grads[0] is not None else (*given.shape, size, size)
        zeros = np.zeros_like(inverted)
        of_inverse = zeros if grads[0] is None else kernels.array(grads[0]).reshape(zeros.shape)
        of_log_det = zeros[:, 0].copy() if grads[1] is None else kernels.array(grads[1]).reshape(-1)
        by = np.empty_like(inverted)
        kernels.loops("matrices").pull(inverted, size, of_inverse, of_log_det, by)
        return torch.from_numpy(by).view(shape), None


class _Smoothed(torch.autograd.Function):
    """A chain in every lane."""

    @staticmethod
    def forward(ctx: Any, blocks: Tensor, below: Tensor, fine: list[bool]) -> tuple[Tensor, ...]:
        count, size = blocks.shape[1:3]
        ctx.set_materialize_grads(False)
        ctx.count = count
        J, h, B = _lanes(blocks[..., :size]), _lanes(blocks[..., size]), _lanes(below)
        J[:, :: size + 1, count:] = 1.0  # chains of nothing
        V, U, u, S, m, C = (np.empty_like(each) for each in (J, B, h, J, h, B))
        log_det = np.zeros(h.shape[-1], h.dtype)
        fine[0] = kernels.loops("chains").smooth(J, B, h, V, U, u, S, m, C, log_det)
        ctx.parts = B, V, U, u, S, m
        return _vectors(m, count), _squares(S, count), _squares(C, count), torch.from_numpy(log_det)[:count]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        B, V, U, u, S, m = ctx.parts
        of_m = np.zeros_like(m) if grads[0] is None else _lanes(grads[0])
        of_S = np.zeros_like(S) if grads[1] is None else _lanes(0.5 * (grads[1] + grads[1].mT))
        of_C = np.empty((0, *B.shape[1:]), B.dtype) if grads[2] is None else _lanes(grads[2])
        of_log_det = np.zeros_like(m[0, 0]) if grads[3] is None else _lanes(grads[3][None])[0]
        by_J, by_B, by_h = by = [np.zeros_like(each) for each in (S, B, m)]
        kernels.loops("chains").pull(B, V, U, u, S, m, of_S, of_m, of_C, of_log_det, *by)
        by_blocks = torch.cat([_squares(by_J, ctx.count), _vectors(by_h, ctx.count)[..., None]], -1)
        return by_blocks, _squares(by_B, ctx.count), None


def _lanes(values: Float[Tensor, "T N *k"]) -> Any:
    """[T, k, N], with lanes of zeros up to a round number: what a vector loop leaves over it does one by one."""
    count = values.shape[1]
    width = count if count <= FEW else -(-count // WIDE) * WIDE
    flat = values.detach().flatten(2) if values.ndim > 2 else values.detach()[..., None]
    lanes = values.new_zeros(len(values), flat.shape[2], width)
    lanes[..., :count] = flat.mT
    numbers = lanes.numpy()
    return numbers[:, 0] if values.ndim == 2 else numbers


def _vectors(values: Any, count: int) -> Float[Tensor, "T N K"]:
    return torch.from_numpy(values)[..., :count].mT


def _squares(values: Any, count: int) -> Float[Tensor, "T N K K"]:
    matrices: Tensor = torch.from_numpy(values)[..., :count]
    size = round(matrices.shape[1] ** 0.5)
    return torch.unflatten(matrices, 1, (size, size)).permute(0, 3, 1, 2)
