"""log Σ_m exp(Φ(a_r + g_m) + w_m) of full Gaussians over all pairs of sites and atoms, and its gradient.

As in `diagonal_pairs`, with D = K + K(K+1)/2: h and the lower triangle of Λ, row by row, and Φ = ½ hᵀΛ⁻¹h − ½ log|Λ| + ½K log 2π.
Latent after latent is eliminated from many pairs at once (as in families/elimination), in a piece of memory that stays
in the processor's nearest cache.
"""

from typing import Any

import numpy as np

from rpmodels.kernels.arithmetic import exp, log, plain
from rpmodels.kernels.diagonal_pairs import HALF_LOG_2PI, add_exp, raise_to, summed_up, to_shares

CACHE = 2**18
"""Bytes for all numbers of the pairs at hand."""
MOST = 1024
"""Pairs at a time."""
STEP = 64
"""Their number is a multiple of it: what a vector loop leaves over it does one by one."""


@plain
def log_sums(a: Any, g: Any, weight: Any, total: Any) -> None:
    """Into total, [S, R]."""
    kinds, numbers, rows = a.shape
    latents = _latents(numbers)
    work, most = _workspace(latents, a)
    terms, summed = np.empty(most, a.dtype), np.empty(most, a.dtype)
    top, higher = np.empty(most, a.dtype), np.empty(most, a.dtype)
    for s in range(kinds):
        for begin in range(0, rows, most):
            width = min(most, rows - begin)
            atoms = most // width
            top[:] = np.finfo(a.dtype).min
            summed[:] = 0
            for first in range(0, g.shape[1], atoms):
                count = min(atoms, g.shape[1] - first)
                pairs = _fill(work, a[s], g[s, first : first + count], latents, begin, width)
                _eliminate(work, latents, pairs)
                _normaliser(work, latents, weight[s, first : first + count], terms, width, pairs)
                higher[:width] = top[:width]
                for m in range(count):
                    raise_to(higher, terms[m * width :], width)
                for r in range(width):
                    summed[r] *= exp(top[r] - higher[r])
                    top[r] = higher[r]
                for m in range(count):
                    add_exp(summed, terms[m * width :], top, width)
            for r in range(width):
                total[s, begin + r] = log(summed[r]) + top[r]


@plain
def pull(a: Any, g: Any, weight: Any, total: Any, grad: Any, by_a: Any, by_g: Any, by_weight: Any) -> None:
    """Adds to by_a [S, D, R], by_g [S, A, D] and by_weight [S, A] the derivative of Σ grad · total."""
    kinds, numbers, rows = a.shape
    latents = _latents(numbers)
    work, most = _workspace(latents, a)
    share = np.empty(most, a.dtype)
    for s in range(kinds):
        for begin in range(0, rows, most):
            width = min(most, rows - begin)
            atoms = most // width
            for first in range(0, g.shape[1], atoms):
                count = min(atoms, g.shape[1] - first)
                pairs = _fill(work, a[s], g[s, first : first + count], latents, begin, width)
                _eliminate(work, latents, pairs)
                _normaliser(work, latents, weight[s, first : first + count], share, width, pairs)
                for m in range(count):
                    by_weight[s, first + m] += to_shares(share[m * width :], total[s, begin:], grad[s, begin:], width)
                _invert(work, latents, pairs)
                _weigh(work, latents, share, pairs)
                for d in range(numbers):
                    for m in range(count):
                        each = work[d, m * width :]
                        by_g[s, first + m, d] += summed_up(each, width)
                        _add(by_a[s, d, begin:], each, width)


@plain
def _latents(numbers: int) -> int:
    latents = 1
    while latents + latents * (latents + 1) // 2 < numbers:
        latents += 1
    return latents


@plain
def _workspace(latents: int, like: Any) -> Any:
    """h, the triangle of Λ, 1/D of every latent, and some beside them; and how many pairs there is room for."""
    rows = latents + latents * (latents + 1) // 2 + 2 * latents
    most = max(STEP, min(MOST, CACHE // (rows * like.itemsize) // STEP * STEP))
    return np.empty((rows, most), like.dtype), most


@plain
def _place(latents: int, i: int, j: int) -> int:
    """Of Λ_ij, j ≤ i."""
    return latents + i * (i + 1) // 2 + j


@plain
def _fill(work: Any, a: Any, g: Any, latents: int, begin: int, width: int) -> int:
    """h and Λ, atom by atom, up to a round number of pairs, the last ones standard normal."""
    count = len(g) * width
    pairs = (count + STEP - 1) // STEP * STEP
    for d in range(len(a)):
        for m in range(len(g)):
            each, of_site, row = g[m, d], a[d, begin:], work[d, m * width :]
            for r in range(width):
                row[r] = of_site[r] + each
        work[d, count:pairs] = 0
    for k in range(latents):
        work[_place(latents, k, k), count:pairs] = 1
    return pairs


@plain
def _eliminate(work: Any, latents: int, pairs: int) -> None:
    """h becomes y and Λ becomes D and L, with Λ = LDLᵀ and y = L⁻¹h; beside them 1/D."""
    inverse = _place(latents, latents, 0)
    one, share = work.dtype.type(1.0), work[len(work) - 1]
    for k in range(latents):
        pivot = work[_place(latents, k, k)]
        for r in range(pairs):
            work[inverse + k, r] = one / pivot[r]
        for i in range(latents - 1, k, -1):  # rows above still need what Λ was
            row = work[_place(latents, i, k)]
            for r in range(pairs):
                share[r] = row[r] * work[inverse + k, r]
            _take(work[i], share, work[k], pairs)
            for j in range(k + 1, i + 1):
                _take(work[_place(latents, i, j)], share, work[_place(latents, j, k)], pairs)
            row[:pairs] = share[:pairs]


@plain
def _normaliser(work: Any, latents: int, weight: Any, terms: Any, width: int, pairs: int) -> None:
    """½ Σ y²/D − ½ log D + weight; one logarithm for two, of more the product might overflow."""
    inverse, half = _place(latents, latents, 0), work.dtype.type(0.5)
    terms[:pairs] = 0
    for m in range(len(weight)):
        terms[m * width : (m + 1) * width] = weight[m] + work.dtype.type(latents * HALF_LOG_2PI)
    for k in range(latents):
        for r in range(pairs):
            terms[r] += half * work[k, r] * work[k, r] * work[inverse + k, r]
    for k in range(0, latents, 2):
        first, second = work[inverse + k], work[inverse + min(k + 1, latents - 1)]
        if k + 1 < latents:
            for r in range(pairs):
                terms[r] += half * log(first[r] * second[r])
        else:
            for r in range(pairs):
                terms[r] += half * log(first[r])


@plain
def _invert(work: Any, latents: int, pairs: int) -> None:
    """y, D and L become m and S = Λ⁻¹: S_ij = −Σ_k S_ik L_kj and S_jj = 1/D_j − Σ_k L_kj S_kj, k > j, from the last."""
    inverse = _place(latents, latents, 0)
    spare = inverse + latents
    for j in range(latents - 1, -1, -1):
        mean, own = work[j], work[_place(latents, j, j)]
        for r in range(pairs):
            mean[r] *= work[inverse + j, r]
            own[r] = work[inverse + j, r]
        for i in range(j + 1, latents):
            _take(mean, work[_place(latents, i, j)], work[i], pairs)
            column = work[spare + i]
            column[:pairs] = 0
            for k in range(j + 1, latents):
                _take(column, work[_place(latents, max(i, k), min(i, k))], work[_place(latents, k, j)], pairs)
        for i in range(j + 1, latents):
            below = work[_place(latents, i, j)]
            _take(own, below, work[spare + i], pairs)
            below[:pairs] = work[spare + i, :pairs]


@plain
def _weigh(work: Any, latents: int, share: Any, pairs: int) -> None:
    """Shares times ∂Φ/∂h = m and ∂Φ/∂Λ = −½ (S + mmᵀ), both halves of what is off the diagonal."""
    half, one = work.dtype.type(-0.5), work.dtype.type(-1.0)
    for i in range(latents):
        for j in range(i + 1):
            factor, row = half if i == j else one, work[_place(latents, i, j)]
            for r in range(pairs):
                row[r] = factor * share[r] * (row[r] + work[i, r] * work[j, r])
    for k in range(latents):
        for r in range(pairs):
            work[k, r] *= share[r]


@plain
def _take(target: Any, left: Any, right: Any, count: int) -> None:
    for r in range(count):
        target[r] -= left[r] * right[r]


@plain
def _add(target: Any, values: Any, count: int) -> None:
    for r in range(count):
        target[r] += values[r]
