"""Factorisations of small matrices in additions and products, for programs in ONNX, which knows no Cholesky.

They stand for PyTorch's own in recorded programs alone: loops over rows and columns are written out.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch.export import ExportedProgram


def cholesky(matrix: Tensor, upper: bool = False, **_: Any) -> tuple[Tensor, Tensor]:
    """Column by column; nothing is said of failures, which give NaN."""
    size = matrix.shape[-1]
    columns: list[Tensor] = []
    for k in range(size):
        left = matrix[..., :, k]
        for each in columns:
            left = left - each * each[..., k : k + 1]
        column = left / left[..., k : k + 1].sqrt()
        zero = torch.zeros_like(column[..., :k])
        columns.append(torch.cat([zero, column[..., k:]], -1))
    lower = torch.stack(columns, -1)
    info = torch.zeros(matrix.shape[:-2], dtype=torch.int32, device=matrix.device)
    return (lower.mT if upper else lower), info


def solve_triangular(
    factor: Tensor, right: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """Row by row."""
    if not left:
        turned = solve_triangular(factor.mT, right.mT, upper=not upper, unitriangular=unitriangular)
        return turned.mT
    size = factor.shape[-1]
    rows: dict[int, Tensor] = {}
    for k in range(size - 1, -1, -1) if upper else range(size):
        rest = right[..., k : k + 1, :]
        for j, each in rows.items():
            rest = rest - factor[..., k : k + 1, j : j + 1] * each
        rows[k] = rest if unitriangular else rest / factor[..., k : k + 1, k : k + 1]
    return torch.cat([rows[k] for k in range(size)], -2)


def cholesky_solve(right: Tensor, factor: Tensor, upper: bool = False) -> Tensor:
    """By both triangles."""
    lower = factor.mT if upper else factor
    return solve_triangular(lower.mT, solve_triangular(lower, right, upper=False), upper=True)


def cholesky_inverse(factor: Tensor, upper: bool = False) -> Tensor:
    """L⁻ᵀ L⁻¹."""
    lower = factor.mT if upper else factor
    eye = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    half = solve_triangular(lower, eye.expand_as(lower), upper=False)
    return half.mT @ half


def searchsorted(values: Tensor, x: Tensor, **options: Any) -> Tensor:
    """By counting: of how many values each is at least (right) or more (left)."""
    right = bool(options.get("right")) or options.get("side") == "right"
    wide, places = x[..., None], values[..., None, :]
    return ((places <= wide) if right else (places < wide)).sum(-1)


def copy(values: Tensor, _: Any) -> Tensor:
    """However it lies in memory."""
    return values.clone()


def without_factorisations(program: "ExportedProgram") -> "ExportedProgram":
    """The same program in operations that ONNX knows."""
    aten, prims = torch.ops.aten, torch.ops.prims
    ways: dict[Any, Callable[..., Any]] = {
        aten.linalg_cholesky_ex.default: cholesky,
        aten.linalg_solve_triangular.default: solve_triangular,
        aten.cholesky_solve.default: cholesky_solve,
        aten.cholesky_inverse.default: cholesky_inverse,
        aten.searchsorted.Tensor: searchsorted,
        prims.copy_strided.default: copy,
    }
    table = torch.export.default_decompositions()
    for operation, way in ways.items():
        table[operation] = way
    found: ExportedProgram = program.run_decompositions(table)
    return found
