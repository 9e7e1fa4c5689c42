"""Series as estimators take them: trials in an array or a list, or one long recording, whole or cut into windows."""

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks, errors
from rpmodels.estimators import layout, populations
from rpmodels.mixtures import AtomPolicy, PerSite, Pooled
from rpmodels.observations import Observations, adapters, read, recording_on_one_clock
from rpmodels.observations.arrays import as_flags, as_numbers, by_factor, in_arrays
from rpmodels.observations.trials import padded_times

SAMPLE = 128
"""Pooled atoms drawn in every training step (docs/results/atoms.md)."""
PAIRS = 2**22
"""Of sites and pooled atoms in each of the last steps, whose rate falls."""
ALIGNED_TRIALS = 40
"""As many trials on one grid make a mixture per time good enough (docs/results/atoms.md)."""


OTHER_UNITS = 20.0
"""Steps that differ by this factor are steps in other units."""
OTHER_STEP = 0.01
"""Steps that differ by more than this share are other steps."""


def read_series(
    X: Any,
    factors: Mapping[str, Any] | None,
    window: Callable[[int], int | None] | None,
    overlap: bool,
    options: dict[str, Any],
    gaps: bool = False,
) -> tuple[Observations, layout.Layout]:
    """Trials, and the form that results shall have; recordings of T sites in pieces of `window(T)`, or whole."""
    X, options["times"] = adapters.to_trials(X, options.get("times"))
    X, options["presence"] = in_arrays(X), by_factor("presence", options.get("presence"))
    factors = None if isinstance(X, Mapping) else populations.columns(factors)
    if layout.is_recording(X):
        return _read_recording(X, factors, window, overlap, options, gaps)
    observations = read(X, factors=factors, series=True, gaps=gaps, **options)
    return observations, layout.of_trials(observations.times, observations.exists, layout.is_list(X))


def _read_recording(
    X: Any,
    factors: Mapping[str, Any] | None,
    window: Callable[[int], int | None] | None,
    overlap: bool,
    options: dict[str, Any],
    gaps: bool,
) -> tuple[Observations, layout.Layout]:
    """Windows as trials, their times counted from their own beginning."""
    cut = dict(options)
    if isinstance(cut.get("times"), Mapping):
        X, cut["times"], cut["presence"] = recording_on_one_clock(X, cut["times"], cut["presence"])
    total = len(next(iter(X.values())) if isinstance(X, Mapping) else X)
    length = (window and window(total)) or total
    times = np.arange(total, dtype=np.float64)
    places = layout.windows(total, length, length // 2 if overlap else 0)
    if cut.get("times") is not None:
        times = as_numbers("times", cut["times"])
        if times.shape != (total,):
            raise errors.bad_value("times", f"shape ({total},), as the recording", f"shape {times.shape}")
        times = padded_times(times, np.array([total]))[0]
        pieces = [times[start : start + size] for start, size in places]
        # Rounded: differences of stamps that should be equal differ in their last digits.
        unit = float(np.median(np.diff(times))) if total > 1 else 1.0
        cut["times"] = [np.round((piece - piece[0]) / unit, 6) * unit for piece in pieces]
    if cut.get("inputs") is not None:
        expected = f"one row for each of the {total} times of the recording"
        whole = as_numbers("inputs", cut["inputs"], expected)
        if whole.shape[:1] != (total,):
            raise errors.bad_value("inputs", expected, f"{len(whole)}" if whole.ndim else "one number")
        cut["inputs"] = [whole[start : start + size] for start, size in places]
    cut["presence"] = {
        name: layout.padded(as_flags(f"presence of factor '{name}'", have, ((total,),)), places)
        for name, have in cut["presence"].items()
    }
    observations = read(layout.cut(X, places, total), factors=factors, series=True, gaps=gaps, **cut)
    return observations, layout.Recording([s for s, _ in places], [n for _, n in places], times)


def check_clock(observations: Observations, known: NDArray[np.float64]) -> None:
    """Warn where the steps of new trials are not in the units of those that the model knows."""
    steps = _steps(observations, known)
    if steps is not None and not 1 / OTHER_UNITS < steps[0] / steps[1] < OTHER_UNITS:
        warnings.warn(errors.other_clock(*steps), stacklevel=2)


def check_steps(observations: Observations, known: NDArray[np.float64]) -> None:
    """Warn a model that counts rows as steps of steps that are longer or shorter than those of its fit."""
    steps = _steps(observations, known)
    if steps is not None and not math.isclose(*steps, rel_tol=OTHER_STEP):
        warnings.warn(errors.other_step(*steps), stacklevel=2)


def _steps(observations: Observations, known: NDArray[np.float64]) -> tuple[float, float] | None:
    """The usual step of new trials and of the fit, where both have some."""
    both = observations.exists[:, 1:] & observations.exists[:, :-1]
    new, old = (each[each > 0] for each in (np.diff(observations.times, axis=1)[both], np.diff(known)))
    return (float(np.median(new)), float(np.median(old))) if new.size and old.size else None


def check_moves(observations: Observations) -> None:
    """Refuse series of which none is longer than one step: nothing in them tells how latents move."""
    longest = int(observations.exists.sum(1).max(initial=0))
    if longest < 2:
        raise errors.one_step_only(len(observations), longest)


def atoms_of_series(choice: Any, observations: Observations, aligned: bool = True) -> AtomPolicy:
    """By name ("auto", "per_time", "pooled"), or a policy of the user's; `aligned`: trials may be on one clock."""
    if isinstance(choice, AtomPolicy):
        return choice
    known: dict[str, AtomPolicy] = {"per_time": PerSite(), "pooled": Pooled(SAMPLE, PAIRS)}
    if choice == "auto":
        aligned = aligned and observations.has_common_times() and bool(observations.exists.all())
        return known["per_time" if aligned and len(observations) >= ALIGNED_TRIALS else "pooled"]
    if choice not in known:
        raise errors.bad_choice("atoms", ("auto", *known, "an AtomPolicy"), choice)
    return known[choice]


def times_ahead(observations: Observations, steps: int) -> NDArray[np.float64]:
    """The times (N, steps) after the end of every trial, in steps as long as its last one."""
    checks.integer("steps", steps, 1, checks.LARGEST)
    last = np.maximum(observations.exists.sum(1) - 1, 0)
    trials = np.arange(len(observations))
    ends = observations.times[trials, last]
    step = np.where(last > 0, ends - observations.times[trials, np.maximum(last - 1, 0)], 1.0)
    return np.asarray(ends[:, None] + step[:, None] * np.arange(1, steps + 1))
