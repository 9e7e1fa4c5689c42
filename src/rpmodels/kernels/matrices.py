"""Inverses and log determinants of many small symmetric matrices, [R, n·n], by lanes, and their derivatives."""

from typing import Any

import numpy as np

from rpmodels.kernels.arithmetic import log, plain
from rpmodels.kernels.lanes import eliminate, invert, is_positive, multiply, place, rows_of, symmetric

LANES = 256
"""Matrices at a time; those that are missing are the unit matrix."""


@plain
def inverses(matrices: Any, size: int, inverted: Any, log_det: Any) -> bool:
    """Whether all were positive definite; the lower triangles are read."""
    work = np.empty((rows_of(size), LANES), matrices.dtype)
    fine = True
    for begin in range(0, len(matrices), LANES):
        count = min(LANES, len(matrices) - begin)
        work[:size] = 0
        for i in range(size):
            for j in range(i + 1):
                row = work[place(size, i, j)]
                row[:] = 1 if i == j else 0
                for r in range(count):
                    row[r] = matrices[begin + r, i * size + j]
        eliminate(work, size, LANES)
        for k in range(size):
            fine = fine and is_positive(work[place(size, k, k)])
            for r in range(count):
                log_det[begin + r] += log(work[place(size, k, k), r])
        invert(work, size, LANES)
        for i in range(size):
            for j in range(size):
                row = work[place(size, max(i, j), min(i, j))]
                for r in range(count):
                    inverted[begin + r, i * size + j] = row[r]
    return fine


@plain
def pull(inverted: Any, size: int, of_inverse: Any, of_log_det: Any, by: Any) -> None:
    """∂ by the matrices: of_log_det · A⁻¹ − A⁻¹ GA⁻¹, made symmetric."""
    S, G = np.zeros((size * size, LANES), by.dtype), np.zeros((size * size, LANES), by.dtype)
    half, out = np.empty_like(S), np.empty_like(S)
    for begin in range(0, len(inverted), LANES):
        count = min(LANES, len(inverted) - begin)
        for d in range(size * size):
            for r in range(count):
                S[d, r] = inverted[begin + r, d]
                G[d, r] = of_inverse[begin + r, d]
                out[d, r] = of_log_det[begin + r] * S[d, r]
        symmetric(G, size, LANES)
        half[:] = 0
        multiply(half, S, G, size, False, False, 1.0, LANES)
        multiply(out, half, S, size, False, False, -1.0, LANES)
        for d in range(size * size):
            for r in range(count):
                by[begin + r, d] = out[d, r]
