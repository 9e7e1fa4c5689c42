"""The one Cholesky, the one jitter, and what follows from them.

Nothing else in the library factorises a matrix. A matrix that is positive definite is factorised as
it is; only when that fails is a jitter added, growing from `jitter(dtype)`, and when even that fails
the caller gets a sentence that says which matrix it was and what to do.
"""

import math
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rpmodels import errors
from rpmodels.linalg import compiled
from rpmodels.tracing import recording

_JITTER = {torch.float32: 1e-6, torch.float64: 1e-12}
_KERNEL_JITTER = {torch.float32: 1e-4, torch.float64: 1e-9}
_ATTEMPTS = 4
LOG_2PI = math.log(2.0 * math.pi)


def jitter(dtype: torch.dtype) -> float:
    """The smallest diagonal, relative to the mean diagonal, that is ever added in this precision."""
    return _JITTER.get(dtype, 1e-6)


def cholesky(matrix: Float[Tensor, "*b n n"], what: str) -> Float[Tensor, "*b n n"]:
    """Lower L with L Lᵀ = matrix; `what` names the matrix in the failure text."""
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    if recording() or not bool(info.any()):
        return factor
    scale = matrix.diagonal(dim1=-2, dim2=-1).mean(-1).clamp_min(torch.finfo(matrix.dtype).tiny)
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    bad = (info != 0).to(matrix.dtype)  # the others stay as they are, whatever is in the batch with them
    for attempt in range(_ATTEMPTS):
        added = jitter(matrix.dtype) * 10.0**attempt
        factor, info = torch.linalg.cholesky_ex(matrix + (added * bad * scale)[..., None, None] * eye)
        if not bool(info.any()):
            return factor
    raise errors.not_positive_definite(what, int((info != 0).sum()), info.numel(), added)


def kernel_cholesky(matrix: Float[Tensor, "*b n n"], what: str) -> Float[Tensor, "*b n n"]:
    """L of a kernel matrix, which is as good as singular whenever length scales are long: jitter from the start."""
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    scale = matrix.detach().diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None]
    return cholesky(matrix + _KERNEL_JITTER.get(matrix.dtype, 1e-4) * scale * eye, what)


def root(matrix: Float[Tensor, "*b n n"]) -> Float[Tensor, "*b n n"]:
    """R with R Rᵀ = matrix for positive semi-definite matrices, rank-deficient ones included."""
    values, vectors = spectrum(matrix)
    scaled: Tensor = vectors * values.clamp_min(0.0).sqrt()[..., None, :]
    return scaled


def spectrum(matrix: Float[Tensor, "*b n n"]) -> tuple[Float[Tensor, "*b n"], Float[Tensor, "*b n n"]]:
    """Eigenvalues, from the smallest, and eigenvectors of symmetric matrices."""
    values, vectors = torch.linalg.eigh(matrix)
    return values, vectors


def is_positive_definite(matrix: Float[Tensor, "*b n n"]) -> Bool[Tensor, "*b"]:
    """Where a matrix is positive definite as it stands, without any jitter."""
    clean = torch.nan_to_num(matrix, nan=-1.0)
    fine: Tensor = torch.linalg.cholesky_ex(clean)[1] == 0
    return fine


class _InverseAndLogDet(torch.autograd.Function):
    """The backward pass in the inverse itself: a third of the work of going back through the Cholesky factor."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, what: str) -> tuple[Tensor, Tensor]:
        factor = cholesky(matrix, what)
        inverted = inverse(factor)
        ctx.save_for_backward(inverted)
        return inverted, log_det(factor)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (inverted,) = ctx.saved_tensors
        by_inverse = inverted @ grads[0] @ inverted
        return grads[1][..., None, None] * inverted - 0.5 * (by_inverse + by_inverse.mT), None


def inverse_and_log_det(
    matrix: Float[Tensor, "*b n n"], what: str
) -> tuple[Float[Tensor, "*b n n"], Float[Tensor, "*b"]]:
    """matrix⁻¹ and log |matrix| of symmetric positive definite matrices, differentiable together."""
    if compiled.many_small(matrix):
        found = compiled.inverse_and_log_det(matrix)
        if found is not None:
            return found[0], found[1]
    inverted, logs = _InverseAndLogDet.apply(matrix, what)  # type: ignore[no-untyped-call]
    return inverted, logs


def solve(factor: Float[Tensor, "*b n n"], right: Float[Tensor, "*b n"]) -> Float[Tensor, "*b n"]:
    """(L Lᵀ)⁻¹ right."""
    return torch.cholesky_solve(right[..., None], factor)[..., 0]


def inverse(factor: Float[Tensor, "*b n n"]) -> Float[Tensor, "*b n n"]:
    """(L Lᵀ)⁻¹, for the few places that need the matrix itself (a covariance handed to the user)."""
    return torch.cholesky_inverse(factor)


def log_det(factor: Float[Tensor, "*b n n"]) -> Float[Tensor, "*b"]:
    """log |L Lᵀ|."""
    return 2.0 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def normal_log_density(
    x: Float[Tensor, "*x n"], covariance: Float[Tensor, "*b n n"], counted: Bool[Tensor, "*c n"], what: str
) -> Float[Tensor, "..."]:
    """log N(x; 0, covariance) of the numbers that count, the others integrated out; leading axes broadcast."""
    both = counted[..., :, None] & counted[..., None, :]
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    factor = cholesky(torch.where(both, covariance, eye), what)
    known = torch.where(counted, x, 0.0)
    white: Tensor = torch.linalg.solve_triangular(factor, known[..., None], upper=False)[..., 0]
    return -0.5 * (white.square().sum(-1) + log_det(factor) + LOG_2PI * counted.sum(-1))
