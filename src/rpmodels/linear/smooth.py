"""Smooth latents of any trials by linear GPFA, in the time that a start may take."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from rpmodels.linear.gpfa import GPFA

Array = NDArray[np.float64]
LONGEST = 50
"""Bins of a piece: EM takes the cube of them."""
PIECES = 200
"""Pieces that EM sees."""
STEPS = 30
"""Of EM, where latents are to be taught."""
SEED = 0
"""The same data give the same latents, whatever the seed of a fit."""
LONGEST_SCALE = 0.5
"""Of a piece: what is slower is an offset of it, which EM cannot tell from a latent."""


@dataclass(frozen=True)
class SmoothLatents:
    """What linear GPFA finds."""

    latents: Array
    """(N, T, K), of unit variance."""
    time_scales: Array
    """(K,) in bins."""


def smooth_latents(rows: NDArray[Any], exists: NDArray[np.bool_], count: int) -> SmoothLatents:
    """Posterior means at every site of trials (N, T, D) of unequal lengths.

    EM sees some pieces of equal length, so that all share one posterior covariance, and the means are those of pieces
    too: no more is needed to begin from.
    """
    # Threads that wait for each other take longer than matrices of this size.
    with threadpool_limits(1):
        return smooth_model(rows, exists, count)[1]


def smooth_model(
    rows: NDArray[Any], exists: NDArray[np.bool_], count: int, steps: int = STEPS
) -> tuple[GPFA, SmoothLatents]:
    """The same after so many steps of EM, and the linear model itself."""
    if rows.shape[-1] == 1:  # nothing that channels could share; what is found of it twice is told once
        model, latents = smooth_model(np.repeat(rows, 2, -1), exists, count, steps)
        model.loadings_, model.offset_, model.noise_ = model.loadings_[:1], model.offset_[:1], model.noise_[:1]
        return model, latents
    lengths = exists.sum(1)
    size = int(np.clip(np.median(lengths), 2, LONGEST))
    pieces, places = _cut(np.asarray(rows, np.float64), lengths, size)
    picked = np.random.default_rng(SEED).permutation(len(pieces))[:PIECES]
    model = GPFA(min(count, rows.shape[-1]), max_iter=steps, random_state=SEED).fit(pieces[np.sort(picked)])
    found = np.zeros((*rows.shape[:2], count))
    for (n, start, end), z in zip(places, model.transform(pieces), strict=True):
        found[n, start:end, : z.shape[-1]] = z[: end - start]
    there = found[exists]
    spread = there.std(0)
    scaled = (found - there.mean(0)) / np.where(spread > 0, spread, 1.0) * exists[..., None]
    scales = np.full(count, float(np.median(model.time_scales_)))
    scales[: len(model.time_scales_)] = model.time_scales_
    return model, SmoothLatents(scaled, np.minimum(scales, LONGEST_SCALE * size))


def _cut(rows: Array, lengths: NDArray[np.int64], size: int) -> tuple[Array, list[tuple[int, int, int]]]:
    """Pieces (P, size, D), and of which trial, from where to where each is; the last one of a trial overlaps."""
    pieces, places = [], []
    for n, length in enumerate(lengths.tolist()):
        for i in range(math.ceil(length / size)):
            start = max(0, min(i * size, length - size))
            end = min(start + size, length)
            piece = np.full((size, rows.shape[-1]), np.nan)  # of short trials the end is missing
            piece[: end - start] = rows[n, start:end]
            pieces.append(piece)
            places.append((n, start, end))
    return np.stack(pieces), places
