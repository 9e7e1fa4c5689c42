"""What two fits of one model may differ in, undone: rotations, the order of states, the turn of angles. numpy only."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes

from rpmodels import metrics
from rpmodels.metrics import ArrayOrTrials


def align_latents(latents: ArrayOrTrials, reference: ArrayOrTrials) -> Any:
    """Latents rotated and reflected towards a reference of the same shape (orthogonal Procrustes), in their own form.

    Both are centred over all time points first; the result has the reference's centre.
    """
    rows, towards = (stacked(each) for each in (latents, reference))
    centre, goal = rows.mean(0), towards.mean(0)
    rotation, _ = orthogonal_procrustes(rows - centre, towards - goal)
    if isinstance(latents, np.ndarray):
        return (latents - centre) @ rotation + goal
    return [(np.asarray(each) - centre) @ rotation + goal for each in latents]


def align_states(probabilities: ArrayOrTrials, reference: ArrayOrTrials) -> Any:
    """Columns (states) of (…, K) put into the order that agrees best with a reference (Kuhn–Munkres over all sites)."""
    rows, goal = stacked(probabilities), stacked(reference)
    return in_order(probabilities, order_of(rows.argmax(-1), goal.argmax(-1), rows.shape[1]))


def in_order(values: ArrayOrTrials, order: NDArray[np.int64]) -> Any:
    """Columns of (…, K) put into other places: column k becomes column `order[k]`."""
    if not isinstance(values, np.ndarray):
        return [in_order(np.asarray(each), order) for each in values]
    moved = np.empty_like(values)
    moved[..., order] = values
    return moved


def align_angles(angles: ArrayOrTrials, reference: ArrayOrTrials) -> Any:
    """Angles (…, K) turned towards a reference, and run backwards where that fits better; every column by itself."""
    direction, offset, _ = _turned(angles, reference)
    if isinstance(angles, np.ndarray):
        return metrics.wrapped(direction * angles + offset)
    return [metrics.wrapped(direction * np.asarray(each) + offset) for each in angles]


def explained(one: ArrayOrTrials, other: ArrayOrTrials) -> float:
    """R² of the linear regression from one to the other."""
    return 1.0 - metrics.nmse(one, other)


def order_of(states: Any, reference: Any, n_states: int) -> NDArray[np.int64]:
    """The place of every state in the order that agrees best with a reference; arrays of one form, or lists of them."""
    return metrics.match_states(_flat(reference), _flat(states), n_states)


def equal_states(states: Any, reference: Any, n_states: int) -> float:
    """Share of equal states in that order."""
    return float((order_of(states, reference, n_states)[_flat(states)] == _flat(reference)).mean())


def equal_angles(angles: ArrayOrTrials, reference: ArrayOrTrials) -> float:
    """Mean cosine of what is left between angles after the best turn: 1 when they are the same, about 0 by chance."""
    return float(_turned(angles, reference)[2].mean())


def stacked(values: ArrayOrTrials) -> NDArray[np.float64]:
    """Trials one after the other: (n, K)."""
    parts: Sequence[Any] = [values] if isinstance(values, np.ndarray) else values
    return np.concatenate([np.asarray(each, np.float64).reshape(-1, np.shape(each)[-1]) for each in parts])


def _turned(angles: ArrayOrTrials, reference: ArrayOrTrials) -> tuple[NDArray[np.float64], ...]:
    """Direction (±1), offset and agreement of the best turn of every column."""
    found, goal = stacked(angles), stacked(reference)
    # The offset that maximises the mean cosine is the direction of the mean of e^{i difference}; its length the mean.
    forwards, backwards = (np.exp(1j * (goal - sign * found)).mean(0) for sign in (1.0, -1.0))
    ahead = np.abs(forwards) >= np.abs(backwards)
    best = np.where(ahead, forwards, backwards)
    return np.where(ahead, 1.0, -1.0), np.angle(best), np.abs(best)


def _flat(states: Any) -> NDArray[np.int64]:
    parts = states if isinstance(states, list) else [states]
    return np.concatenate([np.ravel(each) for each in parts]).astype(np.int64)
