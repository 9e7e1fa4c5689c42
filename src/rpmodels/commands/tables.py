"""Tables as factors: columns by name, and long tables as trials of unequal length."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.commands.columns import spread_out
from rpmodels.commands.frames import open_table, pandas, refuse_events
from rpmodels.commands.models import names_of
from rpmodels.commands.reading import UNNAMED, Data, Reading
from rpmodels.estimators import Description
from rpmodels.observations import FactorSpec

NAMELESS = "Unnamed: "
"""How pandas calls a column without a name: an index that was written along."""
UNEVEN = 0.01
"""Steps of time that differ by more than this share are not even."""
DECIMALS = 9
"""Times that are counted from another beginning are rounded: 10.3 − 10.2 shall be 0.1."""


def read_table(path: Path, model: Description, reading: Reading, known: Mapping[str, FactorSpec] | None) -> Data:
    """The factors of a table: a row an observation, or, for models of trials, a row a time."""
    _check_options(model, reading)
    labels = {column for name in reading.labels for column in reading.factors.get(name, ())}
    frame = open_table(path, labels)
    names = [str(name) for name in frame.columns]
    chosen = _chosen(names, model, reading)
    refuse_events(path, frame, model, reading)
    values = {name: _factor(frame, name, columns, reading.labels) for name, columns in chosen.items()}
    values = {name: _as_known(name, each, (known or {}).get(name)) for name, each in values.items()}
    if not model.in_trials:
        return Data(values, index={"row": np.arange(len(frame))})
    if reading.trial is None and not model.in_time:
        raise errors.needs_trial(model.name, names)
    return _in_trials(frame, values, model, reading)


def _check_options(model: Description, reading: Reading) -> None:
    if reading.trial is not None and not model.in_trials:
        why = f"it takes a row for an observation (trials: {names_of(lambda each: each.in_trials)})"
        raise errors.option_not_for("--trial", model.name, why)
    if reading.time is not None and not model.in_time:
        raise errors.option_not_for("--time", model.name, "it knows no time")
    if reading.align and reading.time is None:
        raise errors.option_not_for("--align", "data without --time", "it moves the times of every trial")
    for name in reading.labels:
        if len(reading.factors.get(name, ())) != 1:
            raise errors.label_columns(name, reading.factors.get(name, ()))


def _chosen(names: Sequence[str], model: Description, reading: Reading) -> Mapping[str, Sequence[str]]:
    """Columns by factor; of a single series all that are left."""
    for option, name in (("--trial", reading.trial), ("--time", reading.time)):
        if name is not None and name not in names:
            raise errors.no_such_column(option, name, names)
    if not reading.factors:
        if not model.in_trials:
            raise errors.needs_factors(model.name, names)
        rest = [name for name in names if name not in (reading.trial, reading.time) and not name.startswith(NAMELESS)]
        return {UNNAMED: rest}
    there = dict(reading.factors)
    if reading.optional:
        there = {name: words for name, words in there.items() if set(names) & set(":".join(words).split(":"))}
    for name, words in reading.factors.items() if not there else ():
        spread_out(f"--factor {name}", words, names)  # says what is missing
    chosen = {name: spread_out(f"--factor {name}", words, names) for name, words in there.items()}
    for name in set(reading.labels) & set(chosen):
        if len(chosen[name]) != 1:
            raise errors.label_columns(name, chosen[name])
    return chosen


def _factor(frame: Any, name: str, columns: Sequence[str], labels: Sequence[str]) -> NDArray[Any]:
    """Numbers (rows, columns), or labels (rows,), empty where missing."""
    for column in columns:  # integers that fit no array are numbers all the same
        if name not in labels and str(frame[column].dtype) == "object" and _are_integers(frame[column]):
            frame[column] = frame[column].astype(float)
    if name in labels or (len(columns) == 1 and _is_text(frame[columns[0]])):
        if name not in labels:
            _check_words(frame[columns[0]], name)
        values = frame[columns[0]]
        return np.asarray(values.astype("str").where(values.notna(), "").to_numpy(), dtype=str)
    for column in columns:
        values = frame[column]
        if values.dtype.kind not in "biuf":
            words = pandas().to_numeric(values, errors="coerce").isna() & values.notna() if _is_text(values) else None
            raise errors.not_numbers(name, column, values.dtype if words is None else str(values[words].iloc[0]))
    return np.asarray(frame[list(columns)].to_numpy(dtype=np.float64, na_value=np.nan))


def _are_integers(values: Any) -> bool:
    there = values.dropna()
    numbers = pandas().to_numeric(there, errors="coerce")
    return bool(len(there)) and bool(numbers.notna().all()) and any(isinstance(each, int) for each in there)


def _is_text(values: Any) -> bool:
    return str(values.dtype) in ("str", "string", "object", "category")


def _check_words(values: Any, name: str) -> None:
    """A column of numbers with a slip of the pen is no column of labels."""
    there = values.dropna()
    numeric = pandas().to_numeric(there.astype("str"), errors="coerce").notna()
    if numeric.any() and not numeric.all():
        raise errors.not_numbers(name, str(values.name), str(there[~numeric].iloc[0]))


def _as_known(name: str, values: NDArray[Any], spec: FactorSpec | None) -> NDArray[Any]:
    """Labels as the model has them: numbers where they were numbers."""
    first = None if spec is None or not spec.vocabulary else spec.vocabulary[0]
    if values.dtype.kind != "U" or first is None or isinstance(first, str):
        return values
    try:
        return values.astype(np.float64).astype(np.int64)
    except ValueError as failure:
        raise errors.not_numbers(name, name, str(failure)) from failure


@dataclass(frozen=True)
class _Rows:
    """Which rows of a table make up its trials, in the order of time."""

    names: NDArray[Any] | None
    """(N,); None for one recording."""
    places: list[NDArray[np.int64]]
    times: list[NDArray[np.float64]] | None


def _in_trials(frame: Any, values: Mapping[str, NDArray[Any]], model: Description, reading: Reading) -> Data:
    rows = _rows(frame, reading)
    if rows.times is not None:
        if not model.takes_times and any(map(_is_uneven, rows.times)):
            warnings.warn(errors.uneven_steps(model.name, str(reading.time)), stacklevel=2)
        if rows.names is not None and not reading.align:
            _check_clock(str(reading.time), rows.times)
    index = _index(rows, model, reading)
    if rows.names is None:
        (places,) = rows.places
        recording = {name: each[places] for name, each in values.items()}
        return Data(recording, rows.times[0] if rows.times else None, None, index)
    if reading.trial is not None and model.in_time and len(rows.places) == 1:
        warnings.warn(errors.one_trial("--trial", reading.trial, len(frame)), stacklevel=2)
    trials = {name: [each[places] for places in rows.places] for name, each in values.items()}
    times = rows.times
    if times is not None and reading.align:
        times = [np.round(each - each[0], DECIMALS) for each in times]
    return Data(trials, times, rows.names, index)


def _rows(frame: Any, reading: Reading) -> _Rows:
    names, codes = None, np.zeros(len(frame), np.int64)
    if reading.trial is not None:
        codes, found = pandas().factorize(frame[reading.trial])
        if (codes < 0).any():
            raise errors.no_trial_of_row(reading.trial, int((codes < 0).sum()), int((codes < 0).argmax()))
        names = np.asarray(found)
        names = names.astype(str) if names.dtype.kind == "O" else names
    # All at once: looking for the rows of one trial after the other would take rows × trials.
    places = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    if reading.time is None:
        return _Rows(names, places, None)
    clock = _clock(frame[reading.time], reading.time)
    places = [each[np.argsort(clock[each], kind="stable")] for each in places]
    times = [clock[each] for each in places]
    for n, each in enumerate(times):
        if (np.diff(each) <= 0).any():
            where = "" if names is None else f" in trial {names[n]}"
            twice = each[1:][np.diff(each) <= 0][0]
            raise errors.bad_time_column(reading.time, f"{twice:g} twice{where}")
    return _Rows(names, places, times)


def _clock(values: Any, column: str) -> NDArray[np.float64]:
    if values.dtype.kind not in "iuf":
        raise errors.bad_time_column(column, str(values.dtype))
    clock = np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    if not np.isfinite(clock).all():
        raise errors.bad_time_column(column, f"none in row {int((~np.isfinite(clock)).argmax())}")
    return clock


def _is_uneven(times: NDArray[np.float64]) -> bool:
    steps = np.diff(times)
    return len(steps) > 1 and bool(np.ptp(steps) > UNEVEN * steps.mean())


def _check_clock(column: str, times: Sequence[NDArray[np.float64]]) -> None:
    """Trials of which each begins after the one before has ended are on the clock of a session."""
    ordered = sorted(times, key=lambda each: float(each[0]))
    gaps = [(one[-1], other[0]) for one, other in pairwise(ordered)]
    if gaps and all(end < begin for end, begin in gaps):
        raise errors.times_run_on(column, *map(float, gaps[0]))


def _index(rows: _Rows, model: Description, reading: Reading) -> dict[str, NDArray[Any]]:
    """Trial and time as they stand in the table, a value for every row of the results."""
    lengths = [len(each) for each in rows.places]
    if not model.in_time:
        return {str(reading.trial): np.asarray(rows.names)}
    index: dict[str, NDArray[Any]] = {}
    if rows.names is not None:
        index[str(reading.trial)] = np.repeat(rows.names, lengths)
    if rows.times is not None:
        index[str(reading.time)] = np.concatenate(rows.times)
    else:
        index["step"] = np.concatenate([np.arange(length) for length in lengths])
    return index
