"""Trials as people have them: lists with gaps, factors on clocks of their own, brought onto one set of sites."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.observations.arrays import as_array, as_flags, as_numbers, by_factor

Lengths = NDArray[np.int64]
Presence = dict[str, NDArray[np.bool_]]


@dataclass(frozen=True)
class PaddedTrials:
    """One factor: (N, T, *event), padded with zeros, and the length of every trial; −1 where it was not recorded."""

    array: Any
    """An array, or `Stored`."""
    lengths: Lengths

    @staticmethod
    def gathered(name: str, parts: Sequence[NDArray[Any] | None]) -> "PaddedTrials":
        """From a list of (T_n, *event); None stands for a trial without this factor."""
        have = [part for part in parts if part is not None]
        shapes = {part.shape[1:] for part in have}
        if not have or len(shapes) != 1 or any(part.ndim == 0 for part in have):
            raise errors.trials_disagree(name, sorted(shapes))
        lengths = np.array([-1 if part is None else len(part) for part in parts], np.int64)
        padded = np.zeros((len(parts), max(1, int(lengths.max())), *have[0].shape[1:]), np.result_type(*have))
        for row, part in zip(padded, parts, strict=True):
            if part is not None:
                row[: len(part)] = part
        return PaddedTrials(padded, lengths)

    @property
    def recorded(self) -> NDArray[np.bool_]:
        """(N,): whether a trial has this factor at all."""
        return np.asarray(self.lengths >= 0)

    def stretched(self, longest: int) -> Any:
        """The array with this many times."""
        missing = longest - self.array.shape[1]
        return np.pad(self.array, [(0, 0), (0, missing)] + [(0, 0)] * (self.array.ndim - 2)) if missing else self.array


def common_lengths(factors: Mapping[str, PaddedTrials]) -> Lengths:
    """The length of every trial, which all factors that have it must agree on."""
    _check_counts(factors)
    lengths = np.stack([each.lengths for each in factors.values()])
    first = (lengths >= 0).argmax(0)
    common = np.take_along_axis(lengths, first[None], 0)[0]
    if (common < 0).any():
        raise errors.trial_without_length(int(np.flatnonzero(common < 0)[0]))
    for name, each in factors.items():
        differing = each.recorded & (each.lengths != common)
        if differing.any():
            trial = int(np.flatnonzero(differing)[0])
            other = list(factors)[int(first[trial])]
            raise errors.different_lengths(other, name, trial, int(common[trial]), int(each.lengths[trial]))
    return np.asarray(common)


def _check_counts(factors: Mapping[str, PaddedTrials]) -> None:
    counts = {name: len(each.lengths) for name, each in factors.items()}
    if len(set(counts.values())) != 1:
        raise errors.different_counts(counts)
    if next(iter(counts.values())) == 0:
        raise errors.no_observations()


def padded_times(times: Any, lengths: Lengths, what: str = "times") -> NDArray[np.float64]:
    """(N, T), checked: finite and increasing within every trial. Given as (T,), (N, T) or a list of (T_n,)."""
    longest = max(1, int(lengths.max(initial=1)))
    exists = np.arange(longest)[None] < lengths[:, None]
    if times is None:
        return np.broadcast_to(np.arange(longest, dtype=np.float64), exists.shape)
    if isinstance(times, Sequence) and len(times) == len(lengths) and all(map(_is_clock, times)):
        padded = np.zeros(exists.shape)
        for n, each in enumerate(times):
            length = max(0, int(lengths[n]))
            if (0 if each is None else len(each)) != length:
                raise errors.bad_value(f"{what}[{n}]", f"{length} times", "None" if each is None else f"{len(each)}")
            padded[n, :length] = [] if each is None else as_numbers(f"{what}[{n}]", each)
    else:
        array = as_numbers(what, times, f"numbers of shape ({longest},) or {exists.shape}")
        if array.shape not in ((longest,), exists.shape):
            raise errors.bad_value(what, f"shape ({longest},) or {exists.shape}", f"shape {array.shape}")
        padded = np.broadcast_to(array, exists.shape)
    if not np.isfinite(padded[exists]).all() or bool((np.diff(padded, axis=1)[exists[:, 1:]] <= 0).any()):
        raise errors.bad_value(what, "finite and strictly increasing within every trial", "times that are not")
    return padded


def _is_clock(times: Any) -> bool:
    """Whether this may be the times of one trial."""
    if isinstance(times, Sequence) and not isinstance(times, str):
        return not any(isinstance(each, Sequence | np.ndarray) and np.ndim(each) for each in times)
    return times is None or getattr(times, "ndim", None) == 1


@dataclass(frozen=True)
class OneClock:
    """Factors that had times of their own, at the times of all of them: absent where they were not sampled."""

    factors: dict[str, PaddedTrials]
    times: NDArray[np.float64]
    sampled: Presence
    """(N, T) per factor."""


def on_one_clock(
    factors: Mapping[str, PaddedTrials], times: Mapping[str, Any], presence: Mapping[str, Any]
) -> OneClock:
    """Every trial gets the union of its factors' times as sites; `presence` (N, T_j) moves along."""
    _check_counts(factors)
    for name in factors:
        if name not in times:
            raise errors.no_times_of(name, list(times))
    clocks = {name: padded_times(times[name], each.lengths, f"times of '{name}'") for name, each in factors.items()}
    count = len(next(iter(factors.values())).lengths)
    unions = [
        np.unique(np.concatenate([clocks[name][n, : max(0, each.lengths[n])] for name, each in factors.items()]))
        for n in range(count)
    ]
    lengths = np.array([len(union) for union in unions], np.int64)
    longest = max(1, int(lengths.max()))
    padded = np.zeros((count, longest))
    for row, union in zip(padded, unions, strict=True):
        row[: len(union)] = union
    moved: dict[str, PaddedTrials] = {}
    sampled: Presence = {}
    for name, each in factors.items():
        values = np.zeros((count, longest, *each.array.shape[2:]), each.array.dtype)
        have = np.zeros((count, longest), bool)
        asked = np.broadcast_to(_per_time(name, presence.get(name), each), each.array.shape[:2])
        for n, union in enumerate(unions):
            length = max(0, int(each.lengths[n]))
            places = np.searchsorted(union, clocks[name][n, :length])
            values[n, places], have[n, places] = each.array[n, :length], asked[n, :length]
        moved[name], sampled[name] = PaddedTrials(values, lengths), have
    return OneClock(moved, padded, sampled)


def recording_on_one_clock(
    data: Any, times: Mapping[str, Any], presence: Mapping[str, Any]
) -> tuple[dict[str, NDArray[Any]], NDArray[np.float64], Presence]:
    """The same for one long recording {name: (T_j, *event)}: its values, times (T,) and presence (T,)."""
    if not isinstance(data, Mapping):
        raise errors.bad_value("data with times per factor", "a dict of factors", type(data).__name__)
    arrays = {str(name): as_array(str(name), value)[None] for name, value in data.items()}
    single = {name: PaddedTrials(each, np.array([each.shape[1]])) for name, each in arrays.items()}
    asked = {name: as_flags(f"presence of factor '{name}'", each, ((arrays[name].shape[1],),))[None]
             for name, each in by_factor("presence", presence).items() if name in arrays}  # fmt: skip
    given = {str(name): as_numbers(f"times of '{name}'", each)[None] for name, each in times.items()}
    clock = on_one_clock(single, given, asked)
    values = {name: each.array[0] for name, each in clock.factors.items()}
    return values, clock.times[0], {name: each[0] for name, each in clock.sampled.items()}


def _per_time(name: str, asked: Any, trials: PaddedTrials) -> NDArray[np.bool_]:
    if asked is None:
        return np.ones((1, 1), bool)
    array = as_flags(f"presence of factor '{name}'", asked, (trials.array.shape[:1], trials.array.shape[:2]))
    return array[:, None] if array.ndim == 1 else array
