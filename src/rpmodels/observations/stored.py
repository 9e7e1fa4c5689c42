"""Factors that stay on disk: memory-mapped arrays, zarr, HDF5 and torch Datasets, read when a batch asks for them.

They look like an array (N, T, *event) to those who cut batches. Nothing else of them is ever in memory, except blocks
while they are checked and a sample of rows for their scaling.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import Dataset

from rpmodels import errors

BLOCK = 2**24
"""Numbers that are read at once where all must be seen."""
IN_MEMORY = 2**26
"""Numbers up to which a part of stored values is simply read."""

Rows = NDArray[np.int64]


class Source(ABC):
    """Where rows come from."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @abstractmethod
    def rows(self, index: Rows) -> NDArray[Any]:
        """These rows, in this order."""


class ArraySource(Source):
    """Anything with shape, dtype and rows that can be picked in increasing order."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.shape = tuple(int(length) for length in array.shape)
        self.dtype = np.dtype(array.dtype)

    def rows(self, index: Rows) -> NDArray[Any]:
        """Read from the front to the back, which files and compressed chunks want."""
        distinct, back = np.unique(index, return_inverse=True)
        if not len(distinct):
            return np.zeros((0, *self.shape[1:]), self.dtype)
        if distinct[-1] - distinct[0] + 1 == len(distinct):
            found = np.asarray(self.array[int(distinct[0]) : int(distinct[-1]) + 1])
        else:
            picker = getattr(self.array, "oindex", self.array)
            found = np.asarray(picker[distinct])
        return found[back]


class DatasetSource(Source):
    """A torch Dataset: one observation an item, all of one shape."""

    def __init__(self, name: str, dataset: Any) -> None:
        self.dataset = dataset
        self.name = name
        try:
            first = _item(dataset[0])
            count = len(dataset)
        except (TypeError, IndexError, NotImplementedError) as failure:
            raise errors.bad_value(f"factor '{name}'", "a Dataset with a length and items", repr(failure)) from failure
        self.shape = (count, *first.shape)
        self.dtype = first.dtype

    def rows(self, index: Rows) -> NDArray[Any]:
        """One by one."""
        found = np.empty((len(index), *self.shape[1:]), self.dtype)
        for place, n in enumerate(index):
            item = _item(self.dataset[int(n)])
            if item.shape != self.shape[1:]:
                raise errors.event_shape(f"{self.name}[{int(n)}]", self.shape[1:], item.shape, label=False)
            found[place] = item
        return found


def _item(item: Any) -> NDArray[Any]:
    """The observation itself: Datasets often give (x, label)."""
    if isinstance(item, tuple | list):
        item = item[0]
    array: NDArray[Any] = item.detach().cpu().numpy() if isinstance(item, torch.Tensor) else np.asarray(item)
    return array


class Stored:
    """Rows of a source as an array (N, T, *event) whose observations are read when they are asked for."""

    def __init__(self, source: Source, timed: bool, index: Rows | None = None, gaps: bool = False) -> None:
        self._source = source
        self._timed = timed
        self._index = index
        self._gaps = gaps
        """Whether NaN stands for what is missing: zeros are given instead."""

    @property
    def shape(self) -> tuple[int, ...]:
        """(N, T, *event)."""
        count = self._source.shape[0] if self._index is None else len(self._index)
        return (count, *(() if self._timed else (1,)), *self._source.shape[1:])

    @property
    def ndim(self) -> int:
        """Axes."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the numbers."""
        return self._source.dtype

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return int(np.prod(self.shape))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> NDArray[Any]:
        """Rows by index (or slice, or booleans), and further axes as of any array."""
        first, *rest = key if isinstance(key, tuple) else (key,)
        chosen = np.arange(len(self))[first]
        index = np.atleast_1d(chosen)
        rows = self._source.rows(index if self._index is None else self._index[index])
        if self._gaps:
            rows = np.nan_to_num(rows, nan=0.0)
        rows = rows if self._timed else rows[:, None]
        rows = rows if np.ndim(chosen) else rows[0]
        return np.asarray(rows[(slice(None), *rest)] if rest else rows)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return self[:].astype(dtype or self.dtype)

    def take(self, index: Rows) -> "Stored | NDArray[Any]":
        """Some observations: read if they are few, else still where they are."""
        if len(index) * int(np.prod(self.shape[1:])) <= IN_MEMORY:
            return self[index]
        return Stored(self._source, self._timed, index if self._index is None else self._index[index], self._gaps)

    def with_gaps(self) -> "Stored":
        """Rows of NaN are given as zeros."""
        return Stored(self._source, self._timed, self._index, gaps=True)

    def blocks(self) -> Iterator[tuple[slice, NDArray[Any]]]:
        """All of it, a block at a time."""
        size = max(1, BLOCK // max(1, int(np.prod(self.shape[1:]))))
        for start in range(0, len(self), size):
            where = slice(start, min(start + size, len(self)))
            yield where, self[where]


def stored(name: str, value: Any, timed: bool) -> Stored | None:
    """What stays on disk, as such; None for anything else (also labels, which are few numbers)."""
    if isinstance(value, Stored):
        return value
    source: Source | None = None
    if isinstance(value, Dataset):
        source = DatasetSource(name, value)
    elif isinstance(value, np.memmap) or type(value).__module__.partition(".")[0] in ("zarr", "h5py"):
        source = ArraySource(value)
    if source is None or len(source.shape) == 1 or source.dtype.kind not in "biuf" or not source.dtype.isnative:
        return None
    return Stored(source, timed)
