"""From what the user has to `Observations`; every complaint about data is made here."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import Dataset

from rpmodels import errors
from rpmodels.checks import shown
from rpmodels.observations.arrays import as_array, as_flags, as_numbers, by_factor, columns_of, is_mixed
from rpmodels.observations.driving import padded_inputs
from rpmodels.observations.observations import FactorSpec, Observations
from rpmodels.observations.stored import Stored, stored
from rpmodels.observations.torch_data import of_torch
from rpmodels.observations.trials import PaddedTrials, common_lengths, on_one_clock, padded_times


def read(
    data: Any,
    *,
    factors: Mapping[str, Any] | None = None,
    series: bool = False,
    times: Any = None,
    presence: Mapping[str, Any] | None = None,
    weights: Any = None,
    inputs: Any = None,
    known: Mapping[str, FactorSpec] | None = None,
    gaps: bool = False,
) -> Observations:
    """Check and gather a user's data.

    Args:
        data: a dict of named factors, each (N, *event), or one array beside `factors`
        factors: {name: columns of the last axis}, to split one array
        series: factors are (N, T, *event), or lists of trials (T_n, *event); None in a list: not recorded
        times: with `series`: (T,), (N, T) or a list of (T_n,); default 0, 1, 2, …; {name: any of these} where
            factors were sampled at different times
        presence: {name: (N,) or (N, T) booleans}; rows that are all NaN (None, for strings) are missing too.
        weights: (N,) sample weights.
        inputs: with `series`: u, known at every site, (N, T, U) or a list of (T_n, U)
        known: the specs of a fitted model: new data must match, and may lack factors.
        gaps: whether vectors may be partly NaN, which populations can use; others refuse it when they know

    """
    named = _by_name(of_torch(data, series), factors)
    if not named:
        raise errors.no_factors(list(known or {}))
    for name in named:
        if known is not None and name not in known:
            raise errors.unknown_factor(name, list(known))
    asked: Mapping[str, Any] = by_factor("presence", presence)
    for name in asked:
        if name not in named:
            raise errors.unknown_factor(name, list(named))
    trials = {name: _trials(name, value, series) for name, value in named.items()}
    if isinstance(times, Mapping):
        clock = on_one_clock(trials, times, asked)
        trials, times, asked = clock.factors, clock.times, clock.sampled
    lengths = common_lengths(trials)
    exists = np.arange(int(lengths.max(initial=1)))[None] < lengths[:, None]
    specs: dict[str, FactorSpec] = {}
    values: dict[str, NDArray[Any]] = {}
    present: dict[str, NDArray[np.bool_]] = {}
    found: dict[str, tuple[int, int]] | None = {} if gaps else None
    for name, each in trials.items():
        there = _presence(name, asked.get(name), exists) & each.recorded[:, None]
        before = None if known is None else known[name]
        specs[name], values[name], present[name] = _factor(name, each.stretched(exists.shape[1]), there, before, found)
    for name, spec in (known or {}).items():
        if name not in named:
            specs[name] = spec
            nothing = np.zeros((), np.int64 if spec.is_label else np.float32)
            values[name] = np.broadcast_to(nothing, (*exists.shape, *spec.event_shape))  # takes no memory
            present[name] = np.zeros(exists.shape, bool)
    order = list(known or named)
    return Observations(
        specs={name: specs[name] for name in order},
        values={name: values[name] for name in order},
        present={name: present[name] for name in order},
        times=padded_times(times, lengths),
        exists=exists,
        weights=checked_weights(weights, len(exists)),
        is_series=series,
        u=padded_inputs(inputs, lengths),
        gaps=found or {},
    )


def _by_name(data: Any, factors: Mapping[str, Any] | None) -> dict[str, Any]:
    """Named factors, whatever form they came in."""
    if isinstance(data, Mapping):
        if factors is not None:
            raise errors.columns_of_a_dict()
        return {str(name): value for name, value in data.items()}
    if factors is None:
        return {"x": data}
    table = np.asarray(data) if is_mixed(data) else as_array("the data", data)
    if table.ndim < 2:
        raise errors.bad_value("data with factors=", "an array of at least 2 axes", f"shape {table.shape}")
    width = table.shape[-1]
    named = {}
    for name, columns in factors.items():
        picked = np.arange(width)[columns] if isinstance(columns, slice) else np.atleast_1d(np.asarray(columns))
        if picked.dtype.kind not in "iu" or picked.size == 0 or picked.min() < -width or picked.max() >= width:
            raise errors.bad_columns(name, columns, width)
        named[str(name)] = columns_of(table[..., picked])
    return named


def _trials(name: str, value: Any, series: bool) -> PaddedTrials:
    """One factor's trials; what has no time has one site."""
    on_disk = stored(name, value, series)
    if on_disk is not None and on_disk.ndim >= 2:
        return PaddedTrials(on_disk, np.full(len(on_disk), on_disk.shape[1], np.int64))
    if isinstance(value, Dataset):  # of labels, which are few numbers
        value = np.array([np.asarray(value[n]).item() for n in range(len(value))])  # type: ignore[arg-type]
    if not series:
        array = as_array(name, value)
        if array.ndim == 0:
            raise errors.bad_value(f"factor '{name}'", "an array with observations along its first axis", "a scalar")
        return PaddedTrials(array[:, None], np.ones(len(array), np.int64))
    if isinstance(value, Sequence) and not isinstance(value, str):
        parts = [None if trial is None else as_array(f"{name}[{n}]", trial) for n, trial in enumerate(value)]
        return PaddedTrials.gathered(name, parts)
    array = as_array(name, value)
    if array.ndim < 2:
        raise errors.bad_value(f"factor '{name}'", "(N, T, *event), or a list of trials", f"shape {array.shape}")
    return PaddedTrials(array, np.full(len(array), array.shape[1], np.int64))


def _presence(name: str, asked: Any, exists: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if asked is None:
        return exists.copy()
    array = as_flags(f"presence of factor '{name}'", asked, ((len(exists),), exists.shape))
    return np.asarray(exists & (array[:, None] if array.ndim == 1 else array))


def _factor(
    name: str,
    array: Any,
    asked: NDArray[np.bool_],
    before: FactorSpec | None,
    gaps: dict[str, tuple[int, int]] | None,
) -> tuple[FactorSpec, Any, NDArray[np.bool_]]:
    """One factor's spec, its values with zeros where absent, and where it is present; `gaps` hears of partial rows."""
    scalar = array.ndim == 2
    if array.dtype.kind in "US" or (scalar and array.dtype.kind in "iub" and (before is None or before.is_label)):
        return _labels(name, array, asked, before)
    if scalar:
        array = np.asarray(array)[..., None]
    spec = FactorSpec(tuple(int(length) for length in array.shape[2:]))
    if 0 in spec.event_shape:
        raise errors.no_columns(name, spec.event_shape)
    if before is not None and before != spec:
        raise errors.event_shape(name, before.event_shape, spec.event_shape, before.is_label)
    if isinstance(array, Stored):
        return spec, *_on_disk(name, array, asked)
    known = gaps if len(spec.event_shape) == 1 else None
    present = asked & _finite_rows(name, array, asked, known) if array.dtype.kind == "f" else asked
    if not present.all():
        array = np.where(present.reshape(*present.shape, *[1] * len(spec.event_shape)), array, 0).astype(array.dtype)
    return spec, array, present


def _on_disk(name: str, array: Stored, asked: NDArray[np.bool_]) -> tuple[Any, NDArray[np.bool_]]:
    """The same for what is not in memory: looked through once, block by block."""
    if array.dtype.kind != "f":
        return array, asked
    finite = np.concatenate([_finite_rows(name, block, asked[where]) for where, block in array.blocks()])
    return array if finite.all() else array.with_gaps(), asked & finite


def _finite_rows(
    name: str, array: NDArray[Any], asked: NDArray[np.bool_], gaps: dict[str, tuple[int, int]] | None = None
) -> NDArray[np.bool_]:
    """False where a whole row is NaN; complains of infinities, and of rows that are partly NaN, or tells `gaps`."""
    flat = array.reshape(*array.shape[:2], -1)
    if np.isfinite(flat.sum(dtype=np.float64)):
        return np.ones(asked.shape, bool)
    missing = np.isnan(flat)
    infinite = (np.isinf(flat).any(-1) & asked).nonzero()
    if infinite[0].size:
        raise errors.infinite(name, int(infinite[0][0]), int(infinite[1][0]), infinite[0].size)
    whole = missing.all(-1)
    partly = (missing.any(-1) & ~whole & asked).nonzero()
    if partly[0].size:
        n, t = int(partly[0][0]), int(partly[1][0])
        if gaps is not None:
            gaps[name] = (n, t)
            return np.asarray(~whole)
        raise errors.partly_missing(name, n, t, int(missing[n, t].sum()), flat.shape[-1], partly[0].size)
    return np.asarray(~whole)


def _labels(
    name: str, array: NDArray[Any], asked: NDArray[np.bool_], before: FactorSpec | None
) -> tuple[FactorSpec, NDArray[Any], NDArray[np.bool_]]:
    """Codes of categories; the empty string is a missing label."""
    if array.ndim != 2:
        raise errors.bad_dtype(name, f"{array.dtype} of event shape {array.shape[2:]}")
    if before is not None and before.vocabulary is None:
        raise errors.event_shape(name, before.event_shape, (), False)
    present = asked & (array != "") if array.dtype.kind in "US" else asked
    if before is None:
        vocabulary = np.unique(array[present])
    else:
        vocabulary = np.asarray(before.vocabulary)
        unseen = ~np.isin(array, vocabulary) & present
        if unseen.any():
            raise errors.unseen_label(name, array[unseen][0].item(), before.vocabulary or ())
    codes = np.where(present, np.searchsorted(vocabulary, array).clip(0, max(0, len(vocabulary) - 1)), 0)
    spec = FactorSpec((), tuple(vocabulary.tolist())) if before is None else before
    return spec, codes.astype(np.int64), present


def checked_weights(weights: Any, count: int) -> NDArray[np.float64]:
    """Of observations, with mean one; equal where none are given."""
    if weights is None:
        return np.ones(count)
    expected = f"{count} finite numbers ≥ 0, not all zero"
    array = as_numbers("sample weights", weights, expected)
    good = array.shape == (count,) and bool(np.isfinite(array).all()) and bool((array >= 0).all())
    if not good or array.sum() == 0:
        raise errors.bad_value("sample weights", expected, f"shape {array.shape}: {shown(weights)}")
    # Their scale means nothing, but a new observation counts 1 among the atoms: so shall these on average.
    return np.asarray(array / array[array > 0].mean())
