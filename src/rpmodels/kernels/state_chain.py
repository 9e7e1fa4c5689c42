"""Smoothing of chains whose latent is the first number of the state and is spoken of by itself, and its gradient.

s_t | s_{t−1} ~ N(A_t s_{t−1}, C_t), times exp(Σ_t h_t z_t − ½ w_t z_t²) with z_t the first of s_t. There the Kalman
filter: a = A m, B = A P Aᵀ + C, c = B e₀, e = (h − w a₀)/(1 + w c₀), g = w/(1 + w c₀), m = a + c e, P = B − g c cᵀ.
Back r and N (Bryson & Frazier), with which z_t has mean a₀ + cᵀr and variance c₀ − cᵀN c: nothing is inverted, so
short steps of smooth processes lose no digits. `pull` goes the same two ways the other way round.

A and C are tables [U, K, d, d], `which` [n, T] says which of them leads to each site; `dims` is of length d, and where
it is a tuple, loops over the state are unrolled.
"""

from typing import Any

import numpy as np

from rpmodels.kernels.arithmetic import plain
from rpmodels.kernels.small import (
    added_outer,
    applied,
    dot,
    product,
    transposed_applied,
    transposed_product,
    with_transposed,
)


@plain
def smooth(dims: Any, A: Any, C: Any, which: Any, h: Any, w: Any, mean: Any, variance: Any, log_z: Any) -> None:
    """Into mean and variance [N, T, K] and log_z [N, K]."""
    d = len(dims)
    trials, count, latents = h.shape
    c, kept, spare = np.empty((count, d)), np.empty((count, 3)), np.empty(d)
    m, P, r, N, work = np.empty(d), np.empty((d, d)), np.empty(d), np.empty((d, d)), np.empty((d, d))
    for trial in range(trials):
        places = which[trial % len(which)]
        for k in range(latents):
            m[:], P[:], r[:], N[:] = 0.0, 0.0, 0.0, 0.0
            log_z[trial, k] = 0.0
            for t in range(count):
                u = places[t]
                log_z[trial, k] += _filter(
                    dims, A[u, k], C[u, k], h[trial, t, k], w[trial, t, k], m, P, c[t], kept[t], work
                )
            for t in range(count - 1, -1, -1):
                if t + 1 < count:
                    _back(dims, A[places[t + 1], k], r, N, work, spare)
                _heard(dims, c[t], kept[t], r, N, spare)
                mean[trial, t, k] = kept[t, 0] + dot(dims, c[t], r)
                applied(dims, N, c[t], spare)
                variance[trial, t, k] = c[t, 0] - dot(dims, c[t], spare)


@plain
def _filter(
    dims: Any, A: Any, C: Any, h: float, w: float, m: Any, P: Any, c: Any, kept: Any, work: Any
) -> Any:  # fmt: skip
    """One step, in place, with a₀, e, g kept; what it adds to log ∫."""
    d = len(dims)
    product(dims, A, P, work)
    with_transposed(dims, work, A, P)
    applied(dims, A, m, c)
    for i in range(d):
        m[i] = c[i]
        for j in range(d):
            P[i, j] += C[i, j]
    for i in range(d):
        c[i] = P[i, 0]
    v, a0 = c[0], m[0]
    s = 1.0 + w * v
    e, g = (h - w * a0) / s, w / s
    kept[0], kept[1], kept[2] = a0, e, g
    for i in range(d):
        m[i] += c[i] * e
    added_outer(dims, -g, c, c, P)
    return -0.5 * np.log(s) + (h * a0 + 0.5 * h * h * v - 0.5 * w * a0 * a0) / s


@plain
def _back(dims: Any, A: Any, r: Any, N: Any, work: Any, spare: Any) -> None:
    """r ← Aᵀr, N ← AᵀN A."""
    product(dims, N, A, work)
    transposed_product(dims, A, work, N)
    transposed_applied(dims, A, r, spare)
    for i in range(len(dims)):
        r[i] = spare[i]


@plain
def _heard(dims: Any, c: Any, kept: Any, r: Any, N: Any, n: Any) -> None:
    """What is said at a site: r ← r + e₀(e − g cᵀr), N ← (I − g e₀cᵀ) N (I − g c e₀ᵀ) + g e₀e₀ᵀ."""
    e, g = kept[1], kept[2]
    applied(dims, N, c, n)
    r[0] += e - g * dot(dims, c, r)
    for i in range(len(dims)):
        N[0, i] -= g * n[i]
    for i in range(len(dims)):
        N[i, 0] -= g * n[i]
    N[0, 0] += g + g * g * dot(dims, c, n)


@plain
def pull(
    dims: Any, A: Any, C: Any, which: Any, h: Any, w: Any, by_mean: Any, by_variance: Any, by_log_z: Any,
    by_A: Any, by_C: Any, by_h: Any, by_w: Any,
) -> None:  # fmt: skip
    """Adds to by_A and by_C, and fills by_h and by_w with the derivatives of Σ by_… · (mean, variance, log_z)."""
    d = len(dims)
    trials, count, latents = h.shape
    c, by_c, kept, by_kept = np.empty((count, d)), np.empty((count, d)), np.empty((count, 3)), np.empty((count, 3))
    m, P = np.empty((count + 1, d)), np.empty((count + 1, d, d))
    r, N = np.empty((count + 1, d)), np.empty((count + 1, d, d))
    work, spare = np.empty((d, d)), np.empty(d)
    for trial in range(trials):
        places = which[trial % len(which)]
        for k in range(latents):
            m[0], P[0], r[count], N[count] = 0.0, 0.0, 0.0, 0.0
            for t in range(count):
                m[t + 1], P[t + 1] = m[t], P[t]
                u = places[t]
                _filter(dims, A[u, k], C[u, k], h[trial, t, k], w[trial, t, k], m[t + 1], P[t + 1], c[t], kept[t], work)
            for t in range(count - 1, -1, -1):
                r[t], N[t] = r[t + 1], N[t + 1]
                if t + 1 < count:
                    _back(dims, A[places[t + 1], k], r[t], N[t], work, spare)
                _heard(dims, c[t], kept[t], r[t], N[t], spare)
            _pull_back(
                dims, A[:, k], places, c, kept, r, N, by_mean[trial, :, k], by_variance[trial, :, k],
                by_A[:, k], by_c, by_kept,
            )  # fmt: skip
            _pull_there(
                dims, A[:, k], places, h[trial, :, k], w[trial, :, k], m, P, c, kept, by_log_z[trial, k],
                by_c, by_kept, by_A[:, k], by_C[:, k], by_h[trial, :, k], by_w[trial, :, k],
            )  # fmt: skip


@plain
def _pull_back(
    dims: Any, A: Any, places: Any, c: Any, kept: Any, r: Any, N: Any, by_mean: Any, by_variance: Any,
    by_A: Any, by_c: Any, by_kept: Any,
) -> None:  # fmt: skip
    """Through the way back, which is gone forwards here; fills by_c and by_kept (a₀, e, g)."""
    d, count = len(dims), len(c)
    y, X = np.zeros(d), np.zeros((d, d))  # derivatives by r and N, before what is said at a site and then after it
    r_after, N_after, spare = np.empty(d), np.empty((d, d)), np.empty(d)
    half, work = np.empty((d, d)), np.empty((d, d))
    for t in range(count):
        gm, gv = by_mean[t], by_variance[t]
        if t > 0:
            _pull_move(dims, A[places[t]], r[t], N[t], y, X, by_A[places[t]], half, work, spare)
        r_after[:], N_after[:] = r[t + 1], N[t + 1]
        if t + 1 < count:
            _back(dims, A[places[t + 1]], r_after, N_after, work, spare)
        applied(dims, N[t], c[t], spare)
        for i in range(d):
            by_c[t, i] = gm * r[t, i] - 2.0 * gv * spare[i]
            y[i] += gm * c[t, i]
        by_c[t, 0] += gv
        added_outer(dims, -gv, c[t], c[t], X)
        by_kept[t, 0], by_kept[t, 1] = gm, y[0]
        by_kept[t, 2] = _pull_heard(dims, c[t], kept[t, 2], r_after, N_after, y, X, by_c[t], spare, work)


@plain
def _pull_heard(
    dims: Any, c: Any, g: float, r: Any, N: Any, y: Any, X: Any, by_c: Any, n: Any, work: Any
) -> Any:  # fmt: skip
    """Through what is said at a site, where r and N are those before it is; the derivative by g."""
    d = len(dims)
    by_n, moved = work[0], np.empty(d)
    applied(dims, N, c, n)
    both, top = dot(dims, c, n), X[0, 0]
    by_g = top * (1.0 + 2.0 * g * both) - 2.0 * dot(dims, X[0], n) - y[0] * dot(dims, c, r)
    for i in range(d):
        by_n[i] = -2.0 * g * X[i, 0]
    applied(dims, N, by_n, moved)
    by_both, by_q = top * g * g, -g * y[0]
    for i in range(d):
        by_c[i] += 2.0 * by_both * n[i] + moved[i] + by_q * r[i]
        y[i] += by_q * c[i]
    added_outer(dims, by_both, c, c, X)
    added_outer(dims, 0.5, by_n, c, X)
    added_outer(dims, 0.5, c, by_n, X)
    return by_g


@plain
def _pull_move(
    dims: Any, A: Any, r: Any, N: Any, y: Any, X: Any, by_A: Any, half: Any, work: Any, spare: Any
) -> None:  # fmt: skip
    """Through r′ = Aᵀr and N′ = AᵀN A: y ← A y, X ← A X Aᵀ, and what A has of both."""
    product(dims, N, A, half)
    product(dims, half, X, work)
    added_outer(dims, 1.0, r, y, by_A)
    for i in range(len(dims)):
        for j in range(len(dims)):
            by_A[i, j] += 2.0 * work[i, j]
    product(dims, A, X, half)
    with_transposed(dims, half, A, X)
    applied(dims, A, y, spare)
    for i in range(len(dims)):
        y[i] = spare[i]


@plain
def _pull_there(
    dims: Any, A: Any, places: Any, h: Any, w: Any, m: Any, P: Any, c: Any, kept: Any, by_log_z: float,
    by_c: Any, by_kept: Any, by_A: Any, by_C: Any, by_h: Any, by_w: Any,
) -> None:  # fmt: skip
    """Through the filter, backwards; m and P are those after each site, the first before all."""
    d = len(dims)
    y, X, spare = np.zeros(d), np.zeros((d, d)), np.empty(d)  # derivatives by m and P
    half, work = np.empty((d, d)), np.empty((d, d))
    for t in range(len(c) - 1, -1, -1):
        a0, e, g, v = kept[t, 0], kept[t, 1], kept[t, 2], c[t, 0]
        s = 1.0 + w[t] * v
        applied(dims, X, c[t], spare)
        by_e, by_g = by_kept[t, 1] + dot(dims, y, c[t]), by_kept[t, 2] - dot(dims, c[t], spare)
        for i in range(d):
            by_c[t, i] += y[i] * e - 2.0 * g * spare[i]
        value = h[t] * a0 + 0.5 * h[t] * h[t] * v - 0.5 * w[t] * a0 * a0
        by_s = -by_log_z * (0.5 / s + value / (s * s)) - (by_e * e + by_g * g) / s
        by_h[t] = by_log_z * (a0 + h[t] * v) / s + by_e / s
        by_w[t] = -0.5 * by_log_z * a0 * a0 / s + (by_g - by_e * a0) / s + by_s * v
        by_c[t, 0] += 0.5 * by_log_z * h[t] * h[t] / s + by_s * w[t]
        y[0] += by_kept[t, 0] + by_log_z * e - by_e * w[t] / s
        for i in range(d):
            X[i, 0] += 0.5 * by_c[t, i]
            X[0, i] += 0.5 * by_c[t, i]
        _pull_step(dims, A[places[t]], m[t], P[t], y, X, by_A[places[t]], by_C[places[t]], half, work, spare)


@plain
def _pull_step(
    dims: Any, A: Any, m: Any, P: Any, y: Any, X: Any, by_A: Any, by_C: Any, half: Any, work: Any, spare: Any
) -> None:  # fmt: skip
    """Through a = A m and B = A P Aᵀ + C: y ← Aᵀy, X ← AᵀX A, and what A and C have of both."""
    product(dims, A, P, half)
    product(dims, X, half, work)
    added_outer(dims, 1.0, y, m, by_A)
    for i in range(len(dims)):
        for j in range(len(dims)):
            by_A[i, j] += 2.0 * work[i, j]
            by_C[i, j] += X[i, j]
    _back(dims, A, y, X, half, spare)
