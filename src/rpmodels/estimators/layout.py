"""What comes out has the form of what went in: rows, trials in one array, a list of trials, or one long recording."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels import errors

Clock = NDArray[np.float64]


class Layout(ABC):
    """From results per trial and site (N, T, …) back to the user's form."""

    times: Any = None
    """When the results are, in the same form; None for data without time."""

    @abstractmethod
    def form(self, values: NDArray[Any]) -> Any:
        """(N, T, …) as the user expects it."""

    def ahead(self, values: NDArray[Any]) -> Any:
        """(N, steps, …) after the end of every trial, as the user expects it."""
        return values

    def times_ahead(self, times: Clock) -> Any:
        """When these are, from times (N, steps) on the trials' own clocks."""
        return self.ahead(times)

    def apart(self) -> NDArray[np.int64] | None:
        """Trials that have no site in common; None for all."""
        return None


class Rows(Layout):
    """One site per observation: (N, …)."""

    def form(self, values: NDArray[Any]) -> NDArray[Any]:
        """Without the axis of sites."""
        return values[:, 0]


@dataclass(frozen=True)
class ArrayOfTrials(Layout):
    """Trials in one array: (N, T, …)."""

    times: Clock

    def form(self, values: NDArray[Any]) -> NDArray[Any]:
        """As it is."""
        return values


@dataclass(frozen=True)
class ListOfTrials(Layout):
    """A list of (T_n, …)."""

    lengths: Sequence[int]
    times: Sequence[Clock]

    def form(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Without the padding."""
        return [each[:length] for each, length in zip(values, self.lengths, strict=True)]

    def ahead(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """A list as well."""
        return list(values)


def of_trials(times: Clock, exists: NDArray[np.bool_], as_list: bool) -> Layout:
    """Of trials (N, T): one array, or a list where they were one or differ in length."""
    if exists.all() and not as_list:
        return ArrayOfTrials(times)
    lengths = exists.sum(1).tolist()
    return ListOfTrials(lengths, [each[:length] for each, length in zip(times, lengths, strict=True)])


@dataclass(frozen=True)
class Recording(Layout):
    """One long recording (T, …), inferred in overlapping windows: every time is taken where it lies deepest."""

    starts: Sequence[int]
    lengths: Sequence[int]
    times: Clock

    @property
    def total(self) -> int:
        """T."""
        return len(self.times)

    def form(self, values: NDArray[Any]) -> NDArray[Any]:
        """Stitched."""
        result = np.zeros((self.total, *values.shape[2:]), values.dtype)
        depth = np.full(self.total, -1)
        for each, start, length in zip(values, self.starts, self.lengths, strict=True):
            place = np.arange(length)
            # Nothing lies beyond the ends of the recording: windows there count as deep up to the edge.
            before = place + (self.total if start == 0 else 0)
            after = length - 1 - place + (self.total if start + length == self.total else 0)
            deep = np.minimum(before, after)
            taken = np.flatnonzero(deep > depth[start : start + length])
            result[start + taken] = each[taken]
            depth[start + taken] = deep[taken]
        return result

    def apart(self) -> NDArray[np.int64]:
        """Every window that begins where the last one of these has ended, or later."""
        found, end = [], 0
        for number, (start, length) in enumerate(zip(self.starts, self.lengths, strict=True)):
            if start >= end:
                found.append(number)
                end = start + length
        return np.array(found, np.int64)

    def ahead(self, values: NDArray[Any]) -> NDArray[Any]:
        """After the end of the last window."""
        return np.asarray(values[-1])

    @property
    def _step(self) -> float:
        return float(np.median(np.diff(self.times))) if self.total > 1 else 1.0

    def times_ahead(self, times: Clock) -> Clock:
        """On the clock of the recording."""
        step = times[-1, 1] - times[-1, 0] if times.shape[1] > 1 else self._step
        return np.asarray(self.times[-1] + step * np.arange(1, times.shape[1] + 1))


def is_recording(data: Any) -> bool:
    """One array (T,) or (T, D), or a dict of such: a single long trial."""
    parts = list(data.values()) if isinstance(data, Mapping) else [data]
    return bool(parts) and all(not _is_list(part) and np.ndim(part) <= 2 for part in parts)


def is_list(data: Any) -> bool:
    """Trials as a list, or a dict of lists."""
    parts = list(data.values()) if isinstance(data, Mapping) else [data]
    return any(map(_is_list, parts))


def _is_list(part: Any) -> bool:
    return isinstance(part, Sequence) and not isinstance(part, str)


def windows(total: int, length: int, overlap: int) -> list[tuple[int, int]]:
    """(start, length) of windows that cover a recording, the last one as long as the others where possible."""
    if total <= length:
        return [(0, total)]
    step = length - overlap
    starts = [*range(0, total - length, step), total - length]
    return [(start, length) for start in starts]


def cut(data: Any, places: Sequence[tuple[int, int]], total: int) -> Any:
    """The windows of a recording as trials."""
    if isinstance(data, Mapping):
        return {name: cut(value, places, total) for name, value in data.items()}
    array = np.asarray(data)
    if len(array) != total:
        raise errors.different_counts({"the first factor": total, "another": len(array)})
    return [array[start : start + length] for start, length in places]


def padded(have: NDArray[np.bool_], places: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """The presence (T,) of a recording, per window (N, length of the longest)."""
    longest = max(length for _, length in places)
    result = np.zeros((len(places), longest), bool)
    for row, (start, length) in zip(result, places, strict=True):
        row[:length] = have[start : start + length]
    return result


def padded_to(part: Tensor, n_sites: int) -> Tensor:
    """(N, T, …) with zeros up to this many sites."""
    return nn.functional.pad(part, [0, 0] * (part.ndim - 2) + [0, n_sites - part.shape[1]])


def joined(parts: Sequence[Tensor], n_sites: int) -> NDArray[Any]:
    """Batches as one array, padded to the same number of sites."""
    return np.asarray(torch.cat([padded_to(part, n_sites) for part in parts]).cpu().numpy())
