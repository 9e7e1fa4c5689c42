"""Do seeds, or sessions, find the same thing? Every pair as a square of a matrix."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from rpmodels import alignment, errors
from rpmodels.plots.canvas import given_or_new

WRITTEN = 10
"""Runs, at most, whose squares have their number in them."""


def consistency(found: Any, names: Sequence[str] | None = None, *, ax: Axes | None = None) -> Axes:
    """Agreement of every pair of runs or sessions; square (i, j) is how well i explains j, 1 where they are the same.

    Args:
        found: what `rp.evaluation.stability` returned; the matrix itself (R, R); or latents of the same moments, by
            {session: (n, K), (N, T, K) or a list of (T_n, K)}, whose R² by linear regression is computed
        names: of runs or sessions; default their numbers
        ax: where to draw

    """
    matrix, called = _matrix(found)
    called = called if names is None else [str(each) for each in names]
    if len(called) != len(matrix):
        raise errors.bad_value("names", f"{len(matrix)} of them", len(called))
    size = len(matrix)
    axes = given_or_new(ax, 1.8 + 0.42 * min(size, 10), 1.2 + 0.42 * min(size, 10))
    between = np.ma.masked_array(matrix, np.eye(size, dtype=bool))
    low = min(0.0, float(between.min()))
    image = axes.imshow(between, vmin=low, vmax=1, cmap="Blues")
    axes.set_facecolor("0.85")
    axes.set_xticks(range(size), called, rotation=45 if max(map(len, called)) > 3 else 0)
    axes.set_yticks(range(size), called)
    axes.set(xlabel="explained", ylabel="from")
    axes.set_title(f"mean {float(between.mean()):.2f}", fontsize="medium")
    if size <= WRITTEN:
        _write(axes, between, low)
    axes.figure.colorbar(image, ax=axes, label="agreement", shrink=0.85)
    return axes


def _matrix(found: Any) -> tuple[NDArray[np.float64], list[str]]:
    """From whatever it was given as, with names."""
    if isinstance(found, Mapping):
        if len(found) < 2:
            raise errors.bad_value("found", "latents of two sessions or more", len(found))
        lengths = {str(name): len(alignment.stacked(each)) for name, each in found.items()}
        if len(set(lengths.values())) > 1:
            raise errors.bad_value("found", "latents of the same moments in all sessions", f"lengths {lengths}")
        rows = [[alignment.explained(one, other) for other in found.values()] for one in found.values()]
        return np.array(rows), list(lengths)
    matrix = np.asarray(getattr(found, "agreement", found), float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or len(matrix) < 2:
        expected = "what evaluation.stability returned, a matrix (R, R) of two runs or more, or {session: latents}"
        raise errors.bad_value("found", expected, f"shape {matrix.shape}")
    return matrix, [str(number) for number in range(len(matrix))]


def _write(axes: Axes, between: Any, low: float) -> None:
    """The number in every square, in ink that can be read on it."""
    for i, j in np.argwhere(~between.mask):
        value = float(between[i, j])
        ink = "w" if (value - low) / (1 - low) > 0.6 else "k"
        axes.text(int(j), int(i), f"{value:.2f}", ha="center", va="center", fontsize="x-small", color=ink)
