"""Torch Datasets whose items hold several factors, and DataLoaders: a factor for every part of an item."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from rpmodels import errors
from rpmodels.observations.stored import Rows, Source, Stored

PART = "x{}"
"""What the parts of a tuple are called, from 1."""


def of_torch(data: Any, timed: bool) -> Any:
    """{factor: rows that are read when they are asked for} of items that are dicts or tuples; other data as they are.

    A DataLoader stands for its Dataset: batches, their order and their size are for the fit to choose.
    """
    if isinstance(data, DataLoader):
        if data.collate_fn is not default_collate:
            raise errors.own_collate()
        data = data.dataset
    if isinstance(data, IterableDataset):
        raise errors.bad_value("the data", "a Dataset with a length and items by number", "an IterableDataset")
    if not isinstance(data, Dataset):
        return data
    items = _Items(data)
    names = items.parts
    if names is None:
        return data
    return {name: _part(items, name, key, timed) for name, key in names.items()}


class _Items:
    """Items of a Dataset, those that were read last kept until others are: factors ask for the same ones in turn."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset
        try:
            self.count = len(dataset)
            self.first = dataset[0]
        except (TypeError, IndexError, NotImplementedError) as failure:
            raise errors.bad_value("the data", "a Dataset with a length and items", repr(failure)) from failure
        self._asked = np.zeros(0, np.int64)
        self._found: list[Any] = []

    @property
    def parts(self) -> dict[str, Any] | None:
        """Names of factors, and where they are in an item; None for items that are one observation each."""
        if isinstance(self.first, Mapping):
            return {str(key): key for key in self.first}
        if hasattr(self.first, "_fields"):
            return {name: place for place, name in enumerate(self.first._fields)}
        if isinstance(self.first, tuple | list):
            return {PART.format(place + 1): place for place in range(len(self.first))}
        return None

    def rows(self, index: Rows, key: Any) -> list[NDArray[Any]]:
        """One part of these items."""
        if not np.array_equal(index, self._asked):
            self._asked, self._found = index, [self.dataset[int(n)] for n in index]
        return [_as_array(item[key]) for item in self._found]


class _PartSource(Source):
    """One part of every item."""

    def __init__(self, items: _Items, name: str, key: Any) -> None:
        first = _as_array(items.first[key])
        self.shape = (items.count, *first.shape)
        self.dtype = first.dtype
        self._items, self._name, self._key = items, name, key

    def rows(self, index: Rows) -> NDArray[Any]:
        """Read together with the other parts of the same items."""
        found = np.empty((len(index), *self.shape[1:]), self.dtype)
        for place, item in enumerate(self._items.rows(index, self._key)):
            if item.shape != self.shape[1:]:
                raise errors.event_shape(f"{self._name}[{int(index[place])}]", self.shape[1:], item.shape, label=False)
            found[place] = item
        return found


def _part(items: _Items, name: str, key: Any, timed: bool) -> Any:
    """Rows on demand; labels and single numbers, which are few, as an array."""
    first = items.first[key]
    if isinstance(first, str) or (np.ndim(first) == 0 and not isinstance(first, torch.Tensor)):
        return np.array([items.dataset[n][key] for n in range(items.count)])
    source = _PartSource(items, name, key)
    if len(source.shape) == 1 or source.dtype.kind not in "biuf":
        return source.rows(np.arange(items.count))
    return Stored(source, timed)


def _as_array(item: Any) -> NDArray[Any]:
    return np.asarray(item.detach().cpu().numpy() if isinstance(item, torch.Tensor) else item)
