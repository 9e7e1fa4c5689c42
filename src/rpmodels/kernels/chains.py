"""Gaussian chains by their precision, eliminated from the first block to the last and walked back, with gradients.

J has blocks J_t on the diagonal and B_t = J_{t+1,t} below it; J is [T, K·K, N], B [T−1, K·K, N], h [T, K, N], a chain
in every lane. With P_t = J_t − B_{t−1}U_{t−1}, V_t = P_t⁻¹, U_t = V_t B_tᵀ and u_t = V_t (h_t − B_{t−1}u_{t−1}),

    Σ_t = V_t + U_t Σ_{t+1} U_tᵀ,   m_t = u_t − U_t m_{t+1},   Cov(x_{t+1}, x_t) = −Σ_{t+1}U_tᵀ,   log|J| = Σ log|P_t|.
"""

from typing import Any

import numpy as np

from rpmodels.kernels.arithmetic import log, plain
from rpmodels.kernels.lanes import (
    add,
    apply,
    eliminate,
    invert,
    is_positive,
    multiply,
    place,
    rows_of,
    symmetric,
    unpacked,
)


@plain
def smooth(J: Any, B: Any, h: Any, V: Any, U: Any, u: Any, S: Any, m: Any, C: Any, log_det: Any) -> bool:
    """Into V, U, u (for the way back), Σ, m, neighbours' covariances C and log|J|; whether all P were positive."""
    times, latents, count = h.shape
    work = np.empty((rows_of(latents), count), h.dtype)
    fine = True
    for t in range(times):
        work[:latents] = h[t]
        S[t] = J[t]  # a place to work in
        if t:
            multiply(S[t], B[t - 1], U[t - 1], latents, False, False, -1.0, count)
            apply(work, B[t - 1], u[t - 1], latents, False, -1.0, count)
        for i in range(latents):
            for j in range(i + 1):
                work[place(latents, i, j)] = S[t, i * latents + j]
        eliminate(work, latents, count)
        for k in range(latents):
            pivot = work[place(latents, k, k)]
            fine = fine and is_positive(pivot)
            for r in range(count):
                log_det[r] += log(pivot[r])
        invert(work, latents, count)
        u[t] = work[:latents]
        unpacked(V[t], work, latents, count)
        if t + 1 < times:
            U[t] = 0
            multiply(U[t], V[t], B[t], latents, False, True, 1.0, count)
    _walk_back(V, U, u, S, m, C)
    return fine


@plain
def _walk_back(V: Any, U: Any, u: Any, S: Any, m: Any, C: Any) -> None:
    times, latents, count = u.shape
    S[:] = V
    m[:] = u
    C[:] = 0
    for t in range(times - 2, -1, -1):
        multiply(C[t], S[t + 1], U[t], latents, False, True, -1.0, count)
        multiply(S[t], U[t], C[t], latents, False, False, -1.0, count)
        symmetric(S[t], latents, count)
        apply(m[t], U[t], m[t + 1], latents, False, -1.0, count)


@plain
def pull(B: Any, V: Any, U: Any, u: Any, S: Any, m: Any, of_S: Any, of_m: Any, of_C: Any, of_log_det: Any,
         by_J: Any, by_B: Any, by_h: Any) -> None:  # fmt: skip
    """From the derivatives by Σ, m, C (of no length where there are none) and log|J| to those by J, B and h.

    `of_S` is symmetric; it and `of_m` are written over.
    """
    times, latents, count = u.shape
    by_U = np.zeros_like(U)
    left, right = np.empty_like(V[0]), np.empty_like(V[0])
    for t in range(times - 1):
        left[:] = 0
        multiply(left, of_S[t], U[t], latents, False, False, 1.0, count)
        multiply(by_U[t], left, S[t + 1], latents, False, False, 2.0, count)
        multiply(of_S[t + 1], U[t], left, latents, True, False, 1.0, count)
        _outer(by_U[t], of_m[t], m[t + 1], latents, count)
        apply(of_m[t + 1], U[t], of_m[t], latents, True, -1.0, count)
        if len(of_C):
            multiply(by_U[t], of_C[t], S[t + 1], latents, True, False, -1.0, count)
            multiply(of_S[t + 1], of_C[t], U[t], latents, False, False, -1.0, count)
            symmetric(of_S[t + 1], latents, count)
    for t in range(times - 1, -1, -1):
        if t + 1 < times:
            multiply(by_U[t], B[t], by_J[t + 1], latents, True, False, -1.0, count)
            apply(of_m[t], B[t], by_h[t + 1], latents, True, -1.0, count)
            multiply(by_B[t], by_J[t + 1], U[t], latents, False, True, -1.0, count)
            _outer(by_B[t], by_h[t + 1], u[t], latents, count)
        apply(by_h[t], V[t], of_m[t], latents, False, 1.0, count)
        left[:] = 0
        multiply(left, V[t], of_S[t], latents, False, False, 1.0, count)
        multiply(by_J[t], left, V[t], latents, False, False, -1.0, count)
        if t + 1 < times:
            right[:] = 0
            multiply(right, V[t], by_U[t], latents, False, False, 1.0, count)
            multiply(by_J[t], right, U[t], latents, False, True, -1.0, count)
            for i in range(latents):
                for j in range(latents):
                    add(by_B[t, i * latents + j], right[j * latents + i], count)
        _outer(by_J[t], by_h[t], u[t], latents, count)
        for i in range(latents * latents):
            for r in range(count):
                by_J[t, i, r] += of_log_det[r] * V[t, i, r]
        symmetric(by_J[t], latents, count)


@plain
def _outer(out: Any, x: Any, y: Any, latents: int, count: int) -> None:
    """out − xyᵀ."""
    for i in range(latents):
        for j in range(latents):
            target = out[i * latents + j]
            for r in range(count):
                target[r] -= x[i, r] * y[j, r]
