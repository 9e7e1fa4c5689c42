"""What the user handed in, checked once: named factors, trials, times, presence, weights."""

import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm.auto import tqdm

from rpmodels import errors
from rpmodels.carriers import Batch, Sites
from rpmodels.observations import series
from rpmodels.observations.stored import Stored

SAMPLE = 2**18
"""Rows that are enough to choose a scaling by."""


@dataclass(frozen=True)
class FactorSpec:
    """What a factor's observations look like; new data must match it."""

    event_shape: tuple[int, ...]
    vocabulary: tuple[Any, ...] | None = None
    """The labels of a factor of categories, in the order of their codes; None for numbers."""

    @property
    def is_label(self) -> bool:
        """Whether observations are categories rather than numbers."""
        return self.vocabulary is not None


@dataclass(frozen=True)
class Observations:
    """N observations at up to T sites. Arrays stay numpy (so they may be memory-mapped) until a batch is cut.

    Absent and padded rows hold zeros: what is missing is replaced before any network sees it.
    """

    specs: Mapping[str, FactorSpec]
    values: Mapping[str, Any]
    """(N, T, *event) per factor: arrays, or `Stored` ones."""
    present: Mapping[str, NDArray[np.bool_]]
    """(N, T) per factor."""
    times: NDArray[np.float64]
    exists: NDArray[np.bool_]
    weights: NDArray[np.float64]
    is_series: bool
    u: NDArray[np.float64] | None = None
    """(N, T, U): inputs that drive the latents."""
    gaps: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Factors some of whose rows are partly NaN, which populations take: where the first of them is."""

    def __len__(self) -> int:
        return int(self.exists.shape[0])

    @property
    def n_sites(self) -> int:
        """T, the length of the longest observation."""
        return int(self.exists.shape[1])

    @cached_property
    def _equally_long(self) -> bool:
        return bool(self.exists.all())

    def longest(self, index: NDArray[np.int64]) -> int:
        """Sites of the longest of these."""
        if len(index) and self._equally_long:
            return self.n_sites
        return max(1, int(np.flatnonzero(self.exists[index].any(axis=0)).max(initial=0)) + 1)

    def batch(
        self, index: NDArray[np.int64], dtype: torch.dtype, device: torch.device, sites: int | None = None
    ) -> Batch:
        """These observations as tensors, cut to the longest among them, or to so many sites."""
        exists = self.exists[index]
        sites = self.longest(index) if sites is None else sites

        def tensor(array: NDArray[Any], kind: torch.dtype | None = None) -> torch.Tensor:
            return torch.as_tensor(np.ascontiguousarray(array), dtype=kind).to(device)

        time_dtype = torch.float32 if device.type == "mps" else torch.float64
        u = None if self.u is None else tensor(self.u[index, :sites], dtype)
        return Batch(
            index=tensor(index),
            sites=Sites(tensor(self.times[index, :sites], time_dtype), tensor(exists[:, :sites]), u),
            weights=tensor(self.weights[index], dtype),
            inputs={name: tensor(values[index, :sites]) for name, values in self.values.items()},
            present={name: tensor(have[index, :sites]) for name, have in self.present.items()},
        )

    def pieces(self, size: int, verbose: bool = False) -> Iterator[NDArray[np.int64]]:
        """The first of them, so many, then the next; `verbose`: where there are several, a bar moves with each."""
        silent = not verbose or len(self) <= size
        with tqdm(total=len(self), desc="observations", disable=silent, leave=False) as bar:
            for start in range(0, len(self), size):
                index = np.arange(start, min(start + size, len(self)))
                yield index
                bar.update(len(index))

    def sites(self, device: torch.device) -> Sites:
        """Where the latents of all observations are."""
        u = None if self.u is None else torch.as_tensor(self.u, device=device)
        times, exists = (torch.as_tensor(np.array(each), device=device) for each in (self.times, self.exists))
        return Sites(times, exists, u)

    def subset(self, index: NDArray[np.int64]) -> "Observations":
        """Some of the observations."""
        return Observations(
            self.specs,
            {
                name: values.take(index) if isinstance(values, Stored) else values[index]
                for name, values in self.values.items()
            },
            {name: have[index] for name, have in self.present.items()},
            self.times[index],
            self.exists[index],
            self.weights[index],
            self.is_series,
            None if self.u is None else self.u[index],
            self.gaps,
        )

    def some(self, limit: int) -> "Observations":
        """All of them, or where they are more, so many at equal distances: for what need not see every one."""
        return self if len(self) <= limit else self.subset(np.linspace(0, len(self) - 1, limit).astype(np.int64))

    def present_rows(self, name: str, limit: int = SAMPLE) -> NDArray[Any]:
        """The rows (n, *event) of one factor that are there; of very many, those of evenly spaced observations."""
        part = self.some(max(1, limit // self.n_sites))
        have, values = part.present[name], np.asarray(part.values[name])
        return values.reshape(-1, *values.shape[2:]) if have.all() else values[have]

    def usable(self) -> NDArray[np.int64]:
        """The observations that can teach something: positive weight, and something present."""
        something = np.any([have.any(1) for have in self.present.values()], axis=0)
        return np.flatnonzero(something & (self.weights > 0))

    def check_something(self) -> None:
        """Refuse data of which nothing is there."""
        if not len(self.usable()):
            raise errors.all_missing(list(self.specs))

    def check_whole(self, populations: Collection[str]) -> None:
        """Refuse rows that are partly missing, but in populations, each of whose channels can be."""
        for name, (n, t) in self.gaps.items():
            if name not in populations:
                missing = np.isnan(np.asarray(self.values[name]))
                partly = missing.any(-1) & self.present[name]
                width, count = missing.shape[-1], int(partly.sum())
                raise errors.partly_missing(name, n, t, int(missing[n, t].sum()), width, count)

    def has_common_times(self) -> bool:
        """Whether all trials have the times of the longest, or the first of them."""
        return series.first_irregular(self.times, self.exists) is None

    def check_series(self, per_site: bool, private: Collection[str] = ()) -> None:
        """Complain of what a model of time series cannot use, and warn of what it should not be given.

        `private`: factors that have latents of their own.
        """
        series.warn_if_smoothed(self.values, self.present, self.exists, private)
        if per_site:
            series.check_common_times(self.times, self.exists)
            series.warn_of_lonely_sites(self.present, self.times)

    def check_times(self, grid: NDArray[np.float64]) -> None:
        """Refuse times at which a mixture per time has never been."""
        series.check_known_times(self.times, self.exists, grid)

    def check_learnable(self, across_sites: bool = True, populations: Collection[str] = ()) -> None:
        """Refuse data from which no RPM can learn anything, before any work is done.

        `across_sites` says whether the prior lets sites of one trial teach each other; channels of populations do.
        """
        self.check_something()
        weighted = {name: have & (self.weights > 0)[:, None] for name, have in self.present.items()}
        counts = {name: int(have.sum()) for name, have in weighted.items()}
        if len(counts) * (self.n_sites if across_sites else 1) == 1 and not populations:
            raise errors.nothing_to_learn(next(iter(counts)), self.n_sites)
        for name, count in counts.items():
            if count < 2:
                raise errors.too_few_atoms(name, count)
        together = np.sum([have * (2 if name in populations else 1) for name, have in weighted.items()], axis=0)
        if across_sites:
            together = np.broadcast_to(together.sum(1, keepdims=True), together.shape)
        for name, have in weighted.items():
            if not bool((have & (together >= 2)).any()):
                raise errors.never_overlaps(name, [other for other in counts if other != name])
        groups = _tied(weighted)
        if len(groups) > 1:
            warnings.warn(errors.untied_sessions(groups), stacklevel=2)


def _tied(present: Mapping[str, NDArray[np.bool_]]) -> list[list[str]]:
    """Groups of factors that are seen together in some trial, directly or through others."""
    groups: list[tuple[list[str], NDArray[np.bool_]]] = []
    for name, have in present.items():
        trials = have.any(1)
        touching = [group for group in groups if bool((group[1] & trials).any())]
        groups = [group for group in groups if not bool((group[1] & trials).any())]
        names = [each for group, _ in touching for each in group]
        groups.append(([*names, name], np.any([trials, *(each for _, each in touching)], axis=0)))
    return [names for names, _ in groups]
