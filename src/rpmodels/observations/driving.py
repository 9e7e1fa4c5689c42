"""Inputs u that drive the latents of a series: known at every site, and no observation of anything."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.observations.arrays import as_numbers


def padded_inputs(inputs: Any, lengths: NDArray[np.int64]) -> NDArray[np.float64] | None:
    """(N, T, U), zero where trials have ended. Given as (N, T, U), or as a list of (T_n, U) or (T_n,)."""
    if inputs is None:
        return None
    if not isinstance(inputs, Sequence | np.ndarray) or len(inputs) != len(lengths):
        got = f"{len(inputs)}" if isinstance(inputs, Sequence | np.ndarray) else type(inputs).__name__
        raise errors.bad_value("inputs", f"one array (T_n, U) for each of the {len(lengths)} trials", got)
    trials = [_rows(n, each, int(length)) for n, (each, length) in enumerate(zip(inputs, lengths, strict=True))]
    widths = sorted({each.shape[1] for each in trials})
    if len(widths) > 1:
        raise errors.bad_value("inputs", "the same number of inputs in every trial", f"{widths[0]} and {widths[-1]}")
    padded = np.zeros((len(trials), max(1, int(lengths.max(initial=1))), widths[0] if widths else 0))
    for n, each in enumerate(trials):
        padded[n, : len(each)] = each
    return padded


def _rows(trial: int, values: Any, length: int) -> NDArray[np.float64]:
    """One trial's, checked."""
    name = f"inputs[{trial}]"
    array = as_numbers(name, values)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or len(array) != length:
        expected = f"({length}, U), one row for every time of the trial"
        raise errors.bad_value(name, expected, f"shape {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(1))[0])
        raise errors.bad_value(name, "finite numbers (inputs are known, they cannot be missing)", f"row {row} is not")
    return array
