"""Products of small matrices and vectors for compiled loops; `dims` is as long as a side, and may be a tuple."""

from typing import Any

from rpmodels.kernels.arithmetic import plain


@plain
def dot(dims: Any, x: Any, y: Any) -> float:
    """xᵀy."""
    total = 0.0
    for i in range(len(dims)):
        total += x[i] * y[i]
    return total


@plain
def applied(dims: Any, X: Any, x: Any, out: Any) -> None:
    """X x."""
    for i in range(len(dims)):
        total = 0.0
        for j in range(len(dims)):
            total += X[i, j] * x[j]
        out[i] = total


@plain
def transposed_applied(dims: Any, X: Any, x: Any, out: Any) -> None:
    """Xᵀx."""
    for i in range(len(dims)):
        total = 0.0
        for j in range(len(dims)):
            total += X[j, i] * x[j]
        out[i] = total


@plain
def product(dims: Any, X: Any, Y: Any, out: Any) -> None:
    """X Y."""
    for i in range(len(dims)):
        for j in range(len(dims)):
            total = 0.0
            for q in range(len(dims)):
                total += X[i, q] * Y[q, j]
            out[i, j] = total


@plain
def with_transposed(dims: Any, X: Any, Y: Any, out: Any) -> None:
    """X Yᵀ, which is known to be symmetric."""
    for i in range(len(dims)):
        for j in range(i + 1):
            total = 0.0
            for q in range(len(dims)):
                total += X[i, q] * Y[j, q]
            out[i, j] = total
            out[j, i] = total


@plain
def transposed_product(dims: Any, X: Any, Y: Any, out: Any) -> None:
    """XᵀY, which is known to be symmetric."""
    for i in range(len(dims)):
        for j in range(i + 1):
            total = 0.0
            for q in range(len(dims)):
                total += X[q, i] * Y[q, j]
            out[i, j] = total
            out[j, i] = total


@plain
def added_outer(dims: Any, share: float, x: Any, y: Any, out: Any) -> None:
    """out + share x yᵀ."""
    for i in range(len(dims)):
        for j in range(len(dims)):
            out[i, j] += share * x[i] * y[j]
