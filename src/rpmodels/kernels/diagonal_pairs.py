"""log Σ_m exp(Φ(a_r + g_m) + w_m) over all pairs of sites and atoms where latents are independent, and its gradient.

Sites are the last axis, so that every number of many pairs is a vector: a is [S, D, R] and g [S, A, D], with S kinds of
sites (those of one time) that have atoms of their own. D = 2K: h and λ of every latent, with Φ = Σ ½ h²/λ − ½ log λ
+ ½ log 2π.
"""

from typing import Any

import numpy as np

from rpmodels.kernels.arithmetic import exp, log, plain, summing

HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
ROWS = 256
"""Sites at a time."""
ATOMS = 32
"""Atoms at a time."""


@plain
def log_sums(a: Any, g: Any, weight: Any, total: Any) -> None:
    """Into total, [S, R]."""
    kinds, _, rows = a.shape
    terms, product = np.empty((ATOMS, ROWS), a.dtype), np.empty(ROWS, a.dtype)
    top, higher, summed = np.empty(ROWS, a.dtype), np.empty(ROWS, a.dtype), np.empty(ROWS, a.dtype)
    for s in range(kinds):
        for begin in range(0, rows, ROWS):
            width = min(ROWS, rows - begin)
            top[:] = np.finfo(a.dtype).min
            summed[:] = 0
            for first in range(0, g.shape[1], ATOMS):
                count = min(ATOMS, g.shape[1] - first)
                higher[:] = top
                for m in range(count):
                    _terms(a[s], g[s, first + m], weight[s, first + m], terms[m], product, begin, width)
                    raise_to(higher, terms[m], width)
                for r in range(width):
                    summed[r] *= exp(top[r] - higher[r])
                    top[r] = higher[r]
                for m in range(count):
                    add_exp(summed, terms[m], top, width)
            for r in range(width):
                total[s, begin + r] = log(summed[r]) + top[r]


@plain
def pull(a: Any, g: Any, weight: Any, total: Any, grad: Any, by_a: Any, by_g: Any, by_weight: Any) -> None:
    """Adds to by_a [S, D, R], by_g [S, A, D] and by_weight [S, A] the derivative of Σ grad · total."""
    kinds, numbers, rows = a.shape
    share, product = np.empty(ROWS, a.dtype), np.empty(ROWS, a.dtype)
    for s in range(kinds):
        for begin in range(0, rows, ROWS):
            width = min(ROWS, rows - begin)
            for m in range(g.shape[1]):
                _terms(a[s], g[s, m], weight[s, m], share, product, begin, width)
                by_weight[s, m] += to_shares(share, total[s, begin:], grad[s, begin:], width)
                for k in range(numbers // 2):
                    _pull(a[s], g[s, m], k, share, by_a[s], by_g[s, m], begin, width)


@plain
def normalisers(eta: Any, latents: int, value: Any, mean: Any) -> None:
    """Φ of every row [h, −½ λ], and μ = ∂Φ/∂η where there is room for it; not a number where λ < 0."""
    half, dtype = eta.dtype.type(0.5), eta.dtype
    h, variance, summed = np.zeros(ROWS, dtype), np.ones(ROWS, dtype), np.empty(ROWS, dtype)
    for begin in range(0, len(eta), ROWS):
        width = min(ROWS, len(eta) - begin)
        summed[:] = dtype.type(latents * HALF_LOG_2PI)
        for k in range(latents):
            for r in range(width):
                h[r], variance[r] = eta[begin + r, k], eta[begin + r, latents + k]
            for r in range(ROWS):  # of all, as what a vector loop leaves over might be rounded otherwise
                variance[r] = -half / variance[r]
                summed[r] += half * (h[r] * h[r] * variance[r] + log(variance[r]))
            if len(mean):
                for r in range(width):
                    m = h[r] * variance[r]
                    mean[begin + r, k], mean[begin + r, latents + k] = m, m * m + variance[r]
        for r in range(width):
            value[begin + r] = summed[r]


@plain
def _terms(a: Any, g: Any, weight: Any, terms: Any, product: Any, begin: int, width: int) -> None:
    """One logarithm for two latents: of more the product might overflow."""
    latents, half, one = len(a) // 2, a.dtype.type(0.5), a.dtype.type(1.0)
    terms[:width] = weight + a.dtype.type(latents * HALF_LOG_2PI)
    for k in range(latents):
        of_h, of_precision = a[k, begin:], a[latents + k, begin:]
        h, precision = g[k], g[latents + k]
        if k % 2 == 0:
            product[:width] = one
        for r in range(width):
            inverse = one / (of_precision[r] + precision)
            terms[r] += half * (of_h[r] + h) * (of_h[r] + h) * inverse
            product[r] *= inverse if product[r] > 0 else one  # two that are negative make a positive product
        if k % 2 or k + 1 == latents:
            for r in range(width):
                terms[r] += half * log(product[r])


@summing
def _pull(a: Any, g: Any, k: int, share: Any, by_a: Any, by_g: Any, begin: int, width: int) -> None:
    """Shares times m = h/λ and −½ (m² + 1/λ)."""
    latents, half, one = len(a) // 2, a.dtype.type(-0.5), a.dtype.type(1.0)
    of_h, of_precision = a[k, begin:], a[latents + k, begin:]
    to_h, to_precision = by_a[k, begin:], by_a[latents + k, begin:]
    h, precision = g[k], g[latents + k]
    first, second = a.dtype.type(0.0), a.dtype.type(0.0)
    for r in range(width):
        inverse = one / (of_precision[r] + precision)
        mean = (of_h[r] + h) * inverse
        by_h = share[r] * mean
        by_precision = half * (by_h * mean + share[r] * inverse)
        to_h[r] += by_h
        to_precision[r] += by_precision
        first += by_h
        second += by_precision
    by_g[k] += first
    by_g[latents + k] += second


@plain
def raise_to(top: Any, terms: Any, width: int) -> None:
    """The larger of both, though never infinite."""
    most = np.finfo(top.dtype).max
    for r in range(width):
        value = terms[r] if terms[r] < most else most  # ∞ − ∞ would be no number
        top[r] = value if value > top[r] else top[r]


@plain
def add_exp(summed: Any, terms: Any, top: Any, width: int) -> None:
    """Σ exp(terms − top)."""
    for r in range(width):
        summed[r] += exp(terms[r] - top[r])


@plain
def to_shares(terms: Any, total: Any, grad: Any, width: int) -> Any:
    """Terms become shares of the total times the gradient; what they sum to."""
    lowest = np.finfo(terms.dtype).min
    for r in range(width):
        terms[r] = exp(terms[r] - max(total[r], lowest)) * grad[r]
    return summed_up(terms, width)


@summing
def summed_up(values: Any, width: int) -> Any:
    """Of the first ones."""
    total = values.dtype.type(0.0)
    for r in range(width):
        total += values[r]
    return total
