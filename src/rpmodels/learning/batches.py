"""Which trials go into which step."""

import math

import numpy as np
from numpy.typing import NDArray


class Minibatches:
    """Shuffled epochs of nearly equal batches (a small last batch would have a mixture of few atoms).

    All its state is plain data, so a run can be sent to another process or written to a checkpoint.
    """

    def __init__(self, n: int, size: int | None, seed: int) -> None:
        self.n = n
        self.per_epoch = 1 if size is None else max(1, math.ceil(n / size))
        self._random = np.random.default_rng(seed)
        self._parts: list[NDArray[np.int64]] = []

    def next(self) -> NDArray[np.int64]:
        """The observations of the next step."""
        if self.per_epoch == 1:
            return np.arange(self.n)
        if not self._parts:
            self._parts = np.array_split(self._random.permutation(self.n), self.per_epoch)
        return self._parts.pop()

    def step_seed(self) -> int:
        """A seed for what a step draws (dropout)."""
        return int(self._random.integers(2**31 - 1))


def split(n: int, fraction: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training and validation observations."""
    order = np.random.default_rng(seed).permutation(n)
    held_out = round(n * fraction)
    return np.sort(order[held_out:]), np.sort(order[:held_out])
