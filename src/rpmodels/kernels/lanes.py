"""Small matrices, many at a time: every number of them is a row, [K·K, R], and loops run along rows.

Symmetric ones that are eliminated come as K numbers h and the lower triangle of Λ, row by row (`place`).
"""

from typing import Any

import numpy as np

from rpmodels.kernels.arithmetic import plain, summing


@plain
def place(latents: int, i: int, j: int) -> Any:
    """Of Λ_ij, j ≤ i."""
    return latents + i * (i + 1) // 2 + j


@plain
def rows_of(latents: int) -> Any:
    """How many rows an elimination takes: h, the triangle of Λ, 1/D of every latent, and some beside them."""
    return place(latents, latents, 0) + 2 * latents


@plain
def eliminate(work: Any, latents: int, count: int) -> None:
    """h becomes y and Λ becomes D and L, with Λ = LDLᵀ and y = L⁻¹h; beside them 1/D."""
    inverse = place(latents, latents, 0)
    one, share = work.dtype.type(1.0), work[inverse + 2 * latents - 1]
    for k in range(latents):
        pivot = work[place(latents, k, k)]
        for r in range(count):
            work[inverse + k, r] = one / pivot[r]
        for i in range(latents - 1, k, -1):  # rows above still need what Λ was
            row = work[place(latents, i, k)]
            for r in range(count):
                share[r] = row[r] * work[inverse + k, r]
            take(work[i], share, work[k], count)
            for j in range(k + 1, i + 1):
                take(work[place(latents, i, j)], share, work[place(latents, j, k)], count)
            row[:count] = share[:count]


@plain
def invert(work: Any, latents: int, count: int) -> None:
    """y, D and L become m and S = Λ⁻¹: S_ij = −Σ_k S_ik L_kj and S_jj = 1/D_j − Σ_k L_kj S_kj, k > j, from the last."""
    inverse = place(latents, latents, 0)
    spare = inverse + latents
    for j in range(latents - 1, -1, -1):
        mean, own = work[j], work[place(latents, j, j)]
        for r in range(count):
            mean[r] *= work[inverse + j, r]
            own[r] = work[inverse + j, r]
        for i in range(j + 1, latents):
            take(mean, work[place(latents, i, j)], work[i], count)
            column = work[spare + i]
            column[:count] = 0
            k = j + 1
            while k + 1 < latents:  # two at once: half as often there and back
                one, other = (
                    work[place(latents, max(i, k), min(i, k))],
                    work[place(latents, max(i, k + 1), min(i, k + 1))],
                )
                take_two(column, one, work[place(latents, k, j)], other, work[place(latents, k + 1, j)], count)
                k += 2
            if k < latents:
                take(column, work[place(latents, max(i, k), min(i, k))], work[place(latents, k, j)], count)
        for i in range(j + 1, latents):
            below = work[place(latents, i, j)]
            take(own, below, work[spare + i], count)
            below[:count] = work[spare + i, :count]


@plain
def take(target: Any, left: Any, right: Any, count: int) -> None:
    """target − left · right."""
    for r in range(count):
        target[r] -= left[r] * right[r]


@plain
def take_two(target: Any, left: Any, right: Any, more_left: Any, more_right: Any, count: int) -> None:
    """target − left · right − more_left · more_right."""
    for r in range(count):
        target[r] -= left[r] * right[r] + more_left[r] * more_right[r]


@summing
def add_and_sum(target: Any, values: Any, count: int) -> Any:
    """target + values, and what the values sum to."""
    total = values.dtype.type(0.0)
    for r in range(count):
        target[r] += values[r]
        total += values[r]
    return total


@plain
def add(target: Any, values: Any, count: int) -> None:
    """target + values."""
    for r in range(count):
        target[r] += values[r]


@plain
def multiply(out: Any, a: Any, b: Any, latents: int, turn_a: bool, turn_b: bool, factor: float, count: int) -> None:
    """out + factor · AB, with either turned over; four numbers of a sum in one loop."""
    size = latents
    times = out.dtype.type(factor)
    for i in range(size):
        for j in range(size):
            target, k = out[i * size + j], 0
            while k < size:
                p, q = a[_at(i, k, size, turn_a)], b[_at(k, j, size, turn_b)]
                if k + 3 < size:
                    p1, q1 = a[_at(i, k + 1, size, turn_a)], b[_at(k + 1, j, size, turn_b)]
                    p2, q2 = a[_at(i, k + 2, size, turn_a)], b[_at(k + 2, j, size, turn_b)]
                    p3, q3 = a[_at(i, k + 3, size, turn_a)], b[_at(k + 3, j, size, turn_b)]
                    for r in range(count):
                        target[r] += times * ((p[r] * q[r] + p1[r] * q1[r]) + (p2[r] * q2[r] + p3[r] * q3[r]))
                    k += 4
                elif k + 1 < size:
                    p1, q1 = a[_at(i, k + 1, size, turn_a)], b[_at(k + 1, j, size, turn_b)]
                    for r in range(count):
                        target[r] += times * (p[r] * q[r] + p1[r] * q1[r])
                    k += 2
                else:
                    for r in range(count):
                        target[r] += times * p[r] * q[r]
                    k += 1


@plain
def apply(out: Any, a: Any, x: Any, latents: int, turned: bool, factor: float, count: int) -> None:
    """out + factor · Ax, with A turned over or not."""
    times = out.dtype.type(factor)
    for i in range(latents):
        for k in range(latents):
            row = a[_at(i, k, latents, turned)]
            for r in range(count):
                out[i, r] += times * row[r] * x[k, r]


@plain
def _at(i: int, j: int, size: int, turned: bool) -> int:
    return j * size + i if turned else i * size + j


@plain
def unpacked(out: Any, work: Any, latents: int, count: int) -> None:
    """The whole of a symmetric matrix from its triangle."""
    for i in range(latents):
        for j in range(i + 1):
            row = work[place(latents, i, j)]
            out[i * latents + j, :count] = row[:count]
            if i != j:
                out[j * latents + i, :count] = row[:count]


@plain
def symmetric(out: Any, latents: int, count: int) -> None:
    """The mean of a matrix and the same turned over."""
    half = out.dtype.type(0.5)
    for i in range(latents):
        for j in range(i):
            upper, lower = out[j * latents + i], out[i * latents + j]
            for r in range(count):
                value = half * (upper[r] + lower[r])
                upper[r], lower[r] = value, value


@plain
def is_positive(values: Any) -> bool:
    """Every one of them, and none of them no number or infinite."""
    fine = True
    for each in values.flat:
        fine = fine and each > 0 and each < np.inf
    return fine
