"""The one Cholesky, the one jitter, and what follows from them.

Nothing else in the library factorises a matrix. A matrix that is positive definite is factorised as
it is; only when that fails is a jitter added, growing from `jitter(dtype)`, and when even that fails
the caller gets a sentence that says which matrix it was and what to do.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import errors

_JITTER = {torch.float32: 1e-6, torch.float64: 1e-12}
_ATTEMPTS = 4


def jitter(dtype: torch.dtype) -> float:
    """The smallest diagonal, relative to the mean diagonal, that is ever added in this precision."""
    return _JITTER.get(dtype, 1e-6)


def cholesky(matrix: Float[Tensor, "*b n n"], what: str) -> Float[Tensor, "*b n n"]:
    """Lower L with L Lᵀ = matrix; `what` names the matrix in the failure text."""
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(matrix)
    if not bool(info.any()):
        return factor
    scale = matrix.diagonal(dim1=-2, dim2=-1).mean(-1).clamp_min(torch.finfo(matrix.dtype).tiny)
    eye = torch.eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device)
    for attempt in range(_ATTEMPTS):
        added = jitter(matrix.dtype) * 10.0**attempt
        factor, info = torch.linalg.cholesky_ex(matrix + added * scale[..., None, None] * eye)
        if not bool(info.any()):
            return factor
    raise errors.not_positive_definite(what, int((info != 0).sum()), info.numel(), added)


def solve(factor: Float[Tensor, "*b n n"], right: Float[Tensor, "*b n"]) -> Float[Tensor, "*b n"]:
    """(L Lᵀ)⁻¹ right."""
    return torch.cholesky_solve(right[..., None], factor)[..., 0]


def inverse(factor: Float[Tensor, "*b n n"]) -> Float[Tensor, "*b n n"]:
    """(L Lᵀ)⁻¹, for the few places that need the matrix itself (a covariance handed to the user)."""
    return torch.cholesky_inverse(factor)


def log_det(factor: Float[Tensor, "*b n n"]) -> Float[Tensor, "*b"]:
    """log |L Lᵀ|."""
    return 2.0 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


LOG_2PI = math.log(2.0 * math.pi)
