"""L(u) = log Σ_x exp(ℓ_x + a_x u − ½ b_x u²) over the values x of channels, and its slope; a channel in every lane.

u is [N, T, Q, C], a and b are [A, C], ℓ is [S, A, C], with S = T or 1 for all times.
"""

from typing import Any

import numpy as np

from rpmodels.kernels.arithmetic import exp, log, plain


@plain
def sums(u: Any, a: Any, b: Any, values: Any, total: Any, slope: Any) -> None:
    """L and L' at every u."""
    observations, sites, points, channels = u.shape
    terms, summed = np.empty((len(a), channels), u.dtype), np.empty(channels, u.dtype)
    top, half = np.empty(channels, u.dtype), u.dtype.type(0.5)
    for n in range(observations):
        for t in range(sites):
            s = min(t, len(values) - 1)
            for q in range(points):
                here, steep = u[n, t, q], slope[n, t, q]
                top[:] = np.finfo(u.dtype).min
                for x in range(len(a)):
                    row, known = terms[x], values[s, x]
                    for c in range(channels):
                        row[c] = known[c] + here[c] * (a[x, c] - half * b[x, c] * here[c])
                        top[c] = row[c] if row[c] > top[c] else top[c]
                summed[:] = 0
                steep[:] = 0
                for x in range(len(a)):
                    row = terms[x]
                    for c in range(channels):
                        share = exp(row[c] - top[c])
                        summed[c] += share
                        steep[c] += share * (a[x, c] - b[x, c] * here[c])
                for c in range(channels):
                    steep[c] /= summed[c]
                    total[n, t, q, c] = top[c] + log(summed[c])


@plain
def pull(u: Any, a: Any, b: Any, values: Any, total: Any, slope: Any, of_total: Any, of_slope: Any,
         by_u: Any, by_a: Any, by_b: Any, by_values: Any) -> None:  # fmt: skip
    """Adds the derivatives of Σ of_total · L + of_slope · L', with ∂π_x = π_x (∂term_x − Σ_y π_y ∂term_y)."""
    observations, sites, points, channels = u.shape
    half = u.dtype.type(0.5)
    for n in range(observations):
        for t in range(sites):
            s = min(t, len(values) - 1)
            for q in range(points):
                here, level, steep = u[n, t, q], total[n, t, q], slope[n, t, q]
                first, second, to_u = of_total[n, t, q], of_slope[n, t, q], by_u[n, t, q]
                for x in range(len(a)):
                    known, to_a, to_b, to_value = values[s, x], by_a[x], by_b[x], by_values[s, x]
                    for c in range(channels):
                        d = a[x, c] - b[x, c] * here[c]
                        share = exp(known[c] + here[c] * (a[x, c] - half * b[x, c] * here[c]) - level[c])
                        straight = share * second[c]
                        moved = share * first[c] + straight * (d - steep[c])
                        to_value[c] += moved
                        to_a[c] += straight + moved * here[c]
                        to_b[c] -= here[c] * (straight + half * moved * here[c])
                        to_u[c] += moved * d - straight * b[x, c]
