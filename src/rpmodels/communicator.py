"""Processes that train one model together, as everything above `learning.distributed` sees them.

Each process recognises its share of every batch. What couples observations (the atoms of F_j, sums of expected
counts, gradients) is everybody's; what does not stays where it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Value = TypeVar("Value")


class Communicator(ABC):
    """What one process says to the others. Every method but `share` must be called by all of them, in one order."""

    rank: int
    size: int

    def share(self, index: NDArray[np.int64]) -> NDArray[np.int64]:
        """The part of a batch that this process recognises."""
        return np.array_split(index, self.size)[self.rank]

    @abstractmethod
    def gathered(self, values: Tensor, dim: int = 0, alike: bool = False) -> Tensor:
        """The values of all processes, one after the other along an axis; gradients flow back to their owners.

        `alike`: all have as many.
        """

    @abstractmethod
    def summed(self, values: Tensor) -> Tensor:
        """The sum over processes, without gradients."""

    @abstractmethod
    def sum_gradients(self, parameters: Sequence[Tensor], terms: Tensor) -> Tensor:
        """Replace every gradient by its sum over processes, none where no process has one; returns the terms' sum."""

    @abstractmethod
    def same(self, state: Mapping[str, Any]) -> None:
        """Give every process the first one's tensors, in place: `model.state_dict()`."""

    @abstractmethod
    def first_does(self, work: Callable[[], Value]) -> Value:
        """What `work` returns, or raises, in the first process, in all of them."""


class Alone(Communicator):
    """One process: nothing to say to anybody."""

    rank = 0
    size = 1

    def gathered(self, values: Tensor, dim: int = 0, alike: bool = False) -> Tensor:
        """Themselves."""
        return values

    def summed(self, values: Tensor) -> Tensor:
        """Themselves."""
        return values

    def sum_gradients(self, parameters: Sequence[Tensor], terms: Tensor) -> Tensor:
        """Nothing to add."""
        return terms

    def same(self, state: Mapping[str, Any]) -> None:
        """Nothing to copy."""

    def first_does(self, work: Callable[[], Value]) -> Value:
        """Do it."""
        return work()


ALONE = Alone()
