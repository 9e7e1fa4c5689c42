"""Which trials go into which step."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.observations import Observations


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

    def state(self) -> dict[str, Any]:
        """Everything the next steps depend on."""
        return {"random": self._random.bit_generator.state, "parts": list(self._parts)}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there."""
        self._random.bit_generator.state = state["random"]
        self._parts = [np.asarray(part) for part in state["parts"]]

    def step_seed(self) -> int:
        """A seed for what a step draws (dropout)."""
        return int(self._random.integers(2**31 - 1))


def others(n: int, index: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
    """So many observations that are not among these, or all there are."""
    rest = np.setdiff1d(np.arange(n), index)
    return np.asarray(np.random.default_rng(seed).permutation(rest)[:count])


@dataclass(frozen=True)
class Divided:
    """The observations of a fit: all of them, those to learn from, and those held out to stop by."""

    everything: Observations
    training: Observations
    validation: Observations | None
    index: NDArray[np.int64]
    """Which of all are those to learn from."""

    @staticmethod
    def undivided(observations: Observations) -> "Divided":
        """All of them to learn from."""
        return Divided(observations, observations, None, np.arange(len(observations)))

    @property
    def held_out(self) -> NDArray[np.int64]:
        """Which of all are held out."""
        return np.setdiff1d(self.everything.usable(), self.index) if self.validation is not None else self.index[:0]

    @property
    def usable(self) -> Observations:
        """All that can teach something, held out or not."""
        index = self.everything.usable()
        return self.everything if len(index) == len(self.everything) else self.everything.subset(index)


def divide(observations: Observations, fraction: float, seed: int) -> Divided:
    """Split once, before anything is fitted; observations that can teach nothing are in neither part."""
    usable = observations.usable()
    order = np.random.default_rng(seed).permutation(usable)
    held_out = round(len(usable) * fraction)
    if fraction and not 2 <= held_out <= len(usable) - 2:
        raise errors.bad_value(
            "validation_fraction", f"at least 2 of {len(usable)} observations on either side", fraction
        )
    if not held_out:
        whole = observations if len(usable) == len(observations) else observations.subset(usable)
        return Divided(observations, whole, None, usable)
    training, validation = np.sort(order[held_out:]), np.sort(order[:held_out])
    return Divided(observations, observations.subset(training), observations.subset(validation), training)
