"""Averages over the trials of a condition, whose clocks may differ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpmodels.plots.found import Found, Trials

THOUSANDTH = 3
"""Times are the same that differ by less than this decimal place of a step."""
BANDS = ("se", "sd", "posterior", "none")


@dataclass(frozen=True)
class Average:
    """Of one condition: where at least half of its trials are."""

    times: NDArray[np.float64]
    mean: NDArray[np.float64]
    """(T, K)."""
    band: NDArray[np.float64] | None
    """(T, K): half its width, NaN where there is none."""


def average(found: Found, trials: NDArray[np.intp], band: str) -> Average:
    """Mean over trials, and what the band is of: its standard error, their sd, or twice the sd of its posterior."""
    clocks = _own_clocks(found)
    clock = shared_clock([clocks[n] for n in trials])
    return average_on(clock, found, trials, band)


def most_different(found: Found, groups: Sequence[NDArray[np.intp]]) -> int:
    """The latent whose averages over these groups of trials differ most; of one group the largest."""
    clock = shared_clock(_own_clocks(found))
    means = np.array([average_on(clock, found, trials, "none").mean for trials in groups if len(trials)])
    together = (np.isfinite(means).all((0, 2)))[None, :, None] if len(means) > 1 else np.isfinite(means)
    kept = np.where(together, means, 0.0)
    return int((kept.var(0) if len(means) > 1 else kept[0]).sum(0).argmax())


def average_on(clock: NDArray[np.float64], found: Found, trials: NDArray[np.intp], band: str) -> Average:
    """The same on a clock that is given."""
    clocks = _own_clocks(found)
    values = aligned([found.values[n] for n in trials], [clocks[n] for n in trials], clock)
    there = np.isfinite(values)
    count = there.sum(0)
    enough = count >= max(1.0, len(trials) / 2)
    total = np.where(there, values, 0.0).sum(0)
    mean = np.where(enough, total / np.maximum(count, 1), np.nan)
    square = np.where(there, (values - mean) ** 2, 0.0).sum(0)
    with np.errstate(invalid="ignore", divide="ignore"):
        spread = np.where(count > 1, np.sqrt(square / (count - 1)), np.nan)
    if band == "none":
        return Average(clock, mean, None)
    if band == "posterior":
        variances = [] if found.spread is None else [found.spread[n] for n in trials]
        whole = np.where(there, aligned(variances, [clocks[n] for n in trials], clock), 0.0).sum(0)
        return Average(clock, mean, 2 * np.sqrt(whole) / np.maximum(count, 1))
    return Average(clock, mean, spread if band == "sd" else spread / np.sqrt(np.maximum(count, 1)))


def shared_clock(clocks: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Every time that some trial has, where trials share a grid; else a grid of their usual step over all of them."""
    whole = np.concatenate(clocks)
    steps = np.concatenate([np.diff(each) for each in clocks])
    step = float(np.median(steps)) if len(steps) else 1.0
    _, first = np.unique(_ticks(whole, step), return_index=True)
    span = (whole.max() - whole.min()) / step
    if len(first) <= max(1.01 * span + 2, *(len(each) for each in clocks)):
        return np.asarray(whole[first])
    return np.asarray(whole.min() + step * np.arange(int(span) + 1))


def aligned(values: Trials, clocks: Sequence[NDArray[np.float64]], clock: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, T, K) on one clock: as they are where it is theirs, else by lines between neighbours; NaN beyond."""
    found = np.full((len(values), len(clock), values[0].shape[1]), np.nan)
    step = float(np.median(np.diff(clock))) if len(clock) > 1 else 1.0
    ticks = _ticks(clock, step)
    for into, each, own in zip(found, values, clocks, strict=True):
        places = np.minimum(np.searchsorted(ticks, _ticks(own, step)), len(clock) - 1)
        if (np.abs(clock[places] - own) <= step * 10.0**-THOUSANDTH).all():
            into[places] = each
        else:
            into[:] = at_times(each, own, clock)
    return found


def at_times(values: NDArray[np.float64], own: NDArray[np.float64], when: NDArray[np.float64]) -> NDArray[np.float64]:
    """(len(when), K), by lines between neighbouring times; NaN beyond the first and the last."""
    columns = [np.interp(when, own, column, left=np.nan, right=np.nan) for column in values.T]
    return np.stack(columns, -1)


def _own_clocks(found: Found) -> Trials:
    """Points are all at one time."""
    return found.times if found.times is not None else [np.zeros(1)] * len(found)


def _ticks(times: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    return np.round(times / step, THOUSANDTH)
