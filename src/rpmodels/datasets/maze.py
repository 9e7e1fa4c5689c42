"""Digits along a Markov chain: every step shows another image of the digit that the chain is at."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors


@dataclass(frozen=True)
class Maze:
    """One long walk: images (T, H, W), the states (T,) behind them, and how they were drawn."""

    images: NDArray[Any]
    states: NDArray[np.int64]
    transitions: NDArray[np.float64]


def digit_maze(
    images: NDArray[Any],
    labels: NDArray[np.int64],
    *,
    n_states: int = 6,
    n_steps: int = 10_000,
    random_state: int | None = None,
) -> Maze:
    """A walk over the digits 0, …, n_states − 1 with A_ij ∝ exp(−(i − j)²).

    No image is shown twice while those of its digit last; then all of them are shuffled and used again.
    """
    random = np.random.default_rng(random_state)
    places = np.arange(n_states)
    weights = np.exp(-np.square(places[:, None] - places).astype(np.float64))
    transitions = weights / weights.sum(1, keepdims=True)
    members = [np.flatnonzero(labels == digit) for digit in places]
    for digit, each in zip(places, members, strict=True):
        if len(each) == 0:
            raise errors.too_few_images(int(digit), 1, 0)
    states = np.empty(n_steps, np.int64)
    states[0] = random.integers(n_states)
    for t in range(1, n_steps):
        states[t] = random.choice(n_states, p=transitions[states[t - 1]])
    shown = np.empty(n_steps, np.int64)
    for digit, each in zip(places, members, strict=True):
        when = np.flatnonzero(states == digit)
        rounds = -(-len(when) // len(each))
        shown[when] = np.concatenate([random.permutation(each) for _ in range(rounds)] or [each[:0]])[: len(when)]
    return Maze(images[shown], states, transitions)
