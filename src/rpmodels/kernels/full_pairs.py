"""log Σ_m exp(Φ(a_r + g_m) + w_m) of full Gaussians over all pairs of sites and atoms, and its gradient.

As in `diagonal_pairs`, with D = K + K(K+1)/2: h and the lower triangle of Λ, row by row, and
Φ = ½ hᵀΛ⁻¹h − ½ log|Λ| + ½K log 2π. Latent after latent is eliminated from many pairs at once (as in
families/elimination), in memory that stays in the processor's caches.
"""

from typing import Any

import numpy as np

from rpmodels.kernels.arithmetic import exp, log, plain
from rpmodels.kernels.diagonal_pairs import HALF_LOG_2PI, add_exp, raise_to, to_shares
from rpmodels.kernels.lanes import add_and_sum, eliminate, invert, place, rows_of

CACHE = 2**18
"""Bytes for all numbers of the pairs at hand."""
MOST = 1024
"""Pairs at a time."""
LANES = 256
"""Rows at a time, where there are no pairs."""
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
                eliminate(work, latents, pairs)
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
                eliminate(work, latents, pairs)
                _normaliser(work, latents, weight[s, first : first + count], share, width, pairs)
                for m in range(count):
                    by_weight[s, first + m] += to_shares(share[m * width :], total[s, begin:], grad[s, begin:], width)
                invert(work, latents, pairs)
                _weigh(work, latents, share, pairs)
                for d in range(numbers):
                    for m in range(count):
                        by_g[s, first + m, d] += add_and_sum(by_a[s, d, begin:], work[d, m * width :], width)


@plain
def normalisers(eta: Any, latents: int, value: Any, mean: Any) -> None:
    """Φ of every row [h, vec −½ Λ], and μ = ∂Φ/∂η where there is room for it; not a number where Λ is not positive."""
    half, inverse = eta.dtype.type(0.5), place(latents, latents, 0)
    work, summed = np.empty((rows_of(latents), LANES), eta.dtype), np.empty(LANES, eta.dtype)
    for begin in range(0, len(eta), LANES):
        count = min(LANES, len(eta) - begin)
        _load(work, eta[begin : begin + count], latents)
        eliminate(work, latents, LANES)
        summed[:] = eta.dtype.type(latents * HALF_LOG_2PI)
        for k in range(latents):
            y, own, pivot = work[k], work[inverse + k], work[place(latents, k, k)]
            for r in range(LANES):
                summed[r] += half * (y[r] * y[r] * own[r] - log(pivot[r]))
        value[begin : begin + count] = summed[:count]
        if len(mean):
            invert(work, latents, LANES)
            _store(work, latents, mean[begin : begin + count])


@plain
def _load(work: Any, eta: Any, latents: int) -> None:
    """h and Λ of these rows; lanes beyond them are standard normal."""
    for k in range(latents):
        work[k] = 0
        for r in range(len(eta)):
            work[k, r] = eta[r, k]
    for i in range(latents):
        for j in range(i + 1):
            row, one, other = work[place(latents, i, j)], latents * (i + 1) + j, latents * (j + 1) + i
            row[:] = 1 if i == j else 0
            for r in range(len(eta)):
                row[r] = -eta[r, one] - eta[r, other]


@plain
def _store(work: Any, latents: int, mean: Any) -> None:
    """[m, vec S + mmᵀ]."""
    for i in range(latents):
        for r in range(len(mean)):
            mean[r, i] = work[i, r]
        for j in range(i + 1):
            row, one, other = work[place(latents, i, j)], latents * (i + 1) + j, latents * (j + 1) + i
            for r in range(len(mean)):
                second = row[r] + work[i, r] * work[j, r]
                mean[r, one] = second
                mean[r, other] = second


@plain
def _latents(numbers: int) -> int:
    latents = 1
    while latents + latents * (latents + 1) // 2 < numbers:
        latents += 1
    return latents


@plain
def _workspace(latents: int, like: Any) -> Any:
    """For an elimination, and how many pairs there is room for."""
    rows = rows_of(latents)
    most = max(STEP, min(MOST, CACHE // (rows * like.itemsize) // STEP * STEP))
    return np.empty((rows, most), like.dtype), most


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
        work[place(latents, k, k), count:pairs] = 1
    return pairs


@plain
def _normaliser(work: Any, latents: int, weight: Any, terms: Any, width: int, pairs: int) -> None:
    """½ Σ y²/D − ½ log D + weight; one logarithm for two, of more the product might overflow."""
    inverse, half = place(latents, latents, 0), work.dtype.type(0.5)
    terms[:pairs] = 0
    for m in range(len(weight)):
        terms[m * width : (m + 1) * width] = weight[m] + work.dtype.type(latents * HALF_LOG_2PI)
    for k in range(latents):
        for r in range(pairs):
            terms[r] += half * work[k, r] * work[k, r] * work[inverse + k, r]
    for k in range(0, latents, 2):
        first, second = work[inverse + k], work[inverse + min(k + 1, latents - 1)]
        if k + 1 < latents:
            for r in range(pairs):  # two that are negative make a positive product
                terms[r] += half * log(first[r] * second[r] if first[r] > 0 else first[r])
        else:
            for r in range(pairs):
                terms[r] += half * log(first[r])


@plain
def _weigh(work: Any, latents: int, share: Any, pairs: int) -> None:
    """Shares times ∂Φ/∂h = m and ∂Φ/∂Λ = −½ (S + mmᵀ), both halves of what is off the diagonal."""
    half, one = work.dtype.type(-0.5), work.dtype.type(-1.0)
    for i in range(latents):
        for j in range(i + 1):
            factor, row = half if i == j else one, work[place(latents, i, j)]
            for r in range(pairs):
                row[r] = factor * share[r] * (row[r] + work[i, r] * work[j, r])
    for k in range(latents):
        for r in range(pairs):
            work[k, r] *= share[r]
