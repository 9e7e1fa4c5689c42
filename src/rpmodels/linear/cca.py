"""What several tables of the same rows share: canonical correlation analysis of any number of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
ROWS_PER_COMPONENT = 10
"""Fewer rows for every principal component of a table, and its whitened columns are those of noise."""


def shared_components(tables: Sequence[NDArray[Any]], present: Sequence[NDArray[np.bool_]], count: int) -> Array:
    """(n, count) variates of unit variance that all tables can say something of, best first.

    MAXVAR generalised CCA (Kettenring 1971): the leading left singular vectors of all whitened tables side by side; of
    two tables these are the sums of the canonical variates. Rows that a table lacks say nothing there.
    """
    sides = [_whitened(np.asarray(table, np.float64), here) for table, here in zip(tables, present, strict=True)]
    wide = np.concatenate(sides, 1)
    left, _, _ = np.linalg.svd(wide, full_matrices=False)
    found = left[:, :count]
    if found.shape[1] < count:  # fewer columns than are asked for
        found = np.pad(found, ((0, 0), (0, count - found.shape[1])))
    spread = found.std(0)
    # The sign is free: every column's largest entry is positive, so that the same data give the same numbers.
    largest = found[np.abs(found).argmax(0), np.arange(count)]
    return np.asarray(found / np.where(spread > 0, spread, 1.0) * np.where(largest < 0, -1.0, 1.0))


def _whitened(table: Array, present: NDArray[np.bool_]) -> Array:
    """Principal components of unit length, as many as the rows can tell from noise; zero in rows that it lacks."""
    rows = table[present]
    centred = rows - rows.mean(0, keepdims=True) if len(rows) else rows
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    limit = max(1, len(rows) // ROWS_PER_COMPONENT)
    kept = min(limit, int((values > 1e-8 * values.max(initial=0.0)).sum())) if len(values) else 0
    whole = np.zeros((len(table), kept))
    whole[present] = left[:, :kept]
    return whole
