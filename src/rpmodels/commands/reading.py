"""Files as factors: arrays by their names, tables by their columns."""

import math
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors, memory
from rpmodels.estimators import Description
from rpmodels.observations import FactorSpec

ARRAYS, TABLES = (".npz", ".npy"), (".csv", ".parquet")
UNREADABLE = (
    OSError, ValueError, EOFError, zipfile.BadZipFile, TypeError, KeyError, SyntaxError, MemoryError, RuntimeError,
    OverflowError, NotImplementedError, zlib.error,
)  # fmt: skip
"""What readers raise for a file that is none of theirs."""
UNNAMED = "x"
"""What a factor is called that nobody gave a name."""


@dataclass(frozen=True)
class Reading:
    """How files become factors: the reading options of `fit` and `transform`."""

    factors: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Columns by factor."""
    labels: Sequence[str] = ()
    """Factors whose values are labels even where they look like numbers."""
    trial: str | None = None
    time: str | None = None
    align: bool = False
    events: str | None = None
    """Of a table of events: the column that names the unit."""
    bins: Sequence[float] = ()
    """How wide bins of events are, in seconds; of several one is chosen."""
    epochs: str | None = None
    """A table of when trials of events began and ended."""
    time_unit: str | float | None = None
    """Of events."""
    units: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By factor, of an earlier fit."""
    optional: bool = False
    """Whether factors may be absent as a whole: they were named by an earlier fit, not by the user."""

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        factors = {name: list(columns) for name, columns in self.factors.items()}
        return {
            "factors": factors, "labels": list(self.labels), "trial": self.trial, "time": self.time,
            "align": self.align, "events": self.events,
            "bins": list(self.bins), "epochs": self.epochs, "time_unit": self.time_unit,
        }  # fmt: skip


@dataclass(frozen=True)
class Data:
    """What files hold, in the form that estimators take."""

    factors: Mapping[str, Any]
    """{factor: (N, *event), or a list of trials (T_n, *event)}."""
    times: Any = None
    """Times of a recording (T,), or a list of (T_n,)."""
    trials: NDArray[Any] | None = None
    """(N,): what the trials of a long table are called."""
    index: Mapping[str, NDArray[Any]] | None = None
    """Of tables: columns that say to which row of the input every row of the results belongs."""
    units: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Of tables of events: the units that the channels of a factor are."""

    def for_model(self, model: Description) -> Any:
        """X, as `fit` and the other verbs of this model take it."""
        if not model.one_factor:
            return dict(self.factors)
        if len(self.factors) > 1:
            raise errors.one_factor_only(model.name, list(self.factors))
        return next(iter(self.factors.values()))

    def options(self, model: Description) -> dict[str, Any]:
        """What goes beside X."""
        return {"times": self.times} if model.takes_times and self.times is not None else {}


def parse_bins(text: str | None) -> tuple[float, ...]:
    """One width, or several with commas."""
    if text is None:
        return ()
    try:
        found = tuple(float(each) for each in text.split(","))
    except ValueError:
        found = (math.nan,)
    if not all(0 < each < math.inf for each in found) or len(set(found)) < len(found):
        raise errors.bad_value("--bin", "seconds, or several with commas to choose from (0.02,0.04,0.08)", repr(text))
    return found


def parse_unit(text: str | None) -> str | float | None:
    """A unit of time by its name, or as seconds: 0.001, 1/30000."""
    if text is None:
        return None
    above, _, below = text.partition("/")
    try:
        return float(above) / float(below or 1.0)
    except (ValueError, ZeroDivisionError):
        return text


def parse_factors(texts: Sequence[str]) -> dict[str, list[str]]:
    """`NAME=column,column` texts as columns by factor."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        columns = [column.strip() for column in listed.split(",")]
        if not name.strip() or not all(columns) or name.strip() in found:
            raise errors.bad_factor_text(text)
        found[name.strip()] = columns
    return found


def are_tables(paths: Sequence[Path]) -> bool:
    """Whether there is a table among them."""
    return any(path.suffix.lower() in TABLES for path in paths)


def read_files(
    paths: Sequence[Path], model: Description, reading: Reading, known: Mapping[str, FactorSpec] | None = None
) -> Data:
    """Everything in these files; `known` are the factors of a fitted model that the data are meant for."""
    for path in paths:
        if not path.is_file():
            raise errors.no_data_file(str(path))
        if path.suffix.lower() not in ARRAYS + TABLES:
            raise errors.unknown_suffix(str(path), ARRAYS + TABLES)
    if reading.events is None and (reading.bins or reading.epochs or reading.time_unit):
        raise errors.option_not_for("--bin, --epochs, --time-unit", "data without --events", "they are of events")
    if not are_tables(paths):
        return _from_arrays(paths, reading, known)
    if len(paths) > 1:
        raise errors.table_alone([str(path) for path in paths])
    # Imported here: arrays need no pandas, and bins are searched by evaluation.
    if reading.events is not None:
        from rpmodels.commands.events import read_events  # noqa: PLC0415

        return read_events(paths[0], model, reading)
    from rpmodels.commands.tables import read_table  # noqa: PLC0415

    return read_table(paths[0], model, reading, known)


def _from_arrays(paths: Sequence[Path], reading: Reading, known: Mapping[str, FactorSpec] | None) -> Data:
    options = ("--trial", "--time", "--label", "--events")
    for option, value in zip(options, (reading.trial, reading.time, reading.labels, reading.events), strict=True):
        if value:
            raise errors.option_not_for(option, "arrays", "it names something in a table (.csv, .parquet)")
    arrays: dict[str, NDArray[Any]] = {}
    for path in paths:
        for name, array in _arrays_in(path).items():
            if name in arrays:
                raise errors.factor_twice(name, ", ".join(map(str, paths)))
            arrays[name] = array
    nameless = len(paths) == 1 and paths[0].suffix.lower() == ".npy" and paths[0].stem not in (known or {})
    if reading.factors and (nameless or not reading.optional):
        return Data(_shared_out(arrays, reading.factors))
    if nameless:
        (stem, array), *_ = arrays.items()
        arrays = {_name_of_single(stem, known): array}
    if not arrays:
        raise errors.no_factors(list(known or {}))
    return Data(arrays)


def _name_of_single(stem: str, known: Mapping[str, FactorSpec] | None) -> str:
    """A lone array has the name of the only factor there is."""
    if known is None:
        return UNNAMED
    return next(iter(known)) if len(known) == 1 else stem


def _arrays_in(path: Path) -> dict[str, NDArray[Any]]:
    """By name: those of an .npz, or the one of an .npy under the stem of its file."""
    try:
        _check_sizes(path)
        with path.open("rb") as file:
            stored = np.load(file, allow_pickle=False)
            if isinstance(stored, np.ndarray):
                return {path.stem: stored}
            return {name: _from_archive(path, stored, name) for name in stored.files}
    except errors.InputError:
        raise
    except UNREADABLE as failure:
        if "allow_pickle" in str(failure) and path.suffix.lower() == ".npy":
            raise errors.holds_objects(str(path), path.stem) from failure
        raise errors.unreadable(str(path), "an array as numpy.save or numpy.savez write it", failure) from failure


def _check_sizes(path: Path) -> None:
    """Refuse headers that speak of more numbers than the file has, or than there is memory for, before that."""
    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            _check_header(path, file, path.stat().st_size)
        return
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.file_size > memory.available():
                raise errors.unreadable(str(path), "arrays that fit into memory", f"{member.file_size} bytes")
            with archive.open(member) as file:
                _check_header(path, file, member.file_size)


def _check_header(path: Path, file: Any, there: int) -> None:
    """Of one array: its shape against the bytes that are there."""
    try:
        version = np.lib.format.read_magic(file)
        reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = reader(file)
    except UNREADABLE:
        return  # whatever it is, numpy says so
    needed = math.prod(shape) * dtype.itemsize
    if needed > there:
        raise errors.unreadable(str(path), f"an array of {needed} bytes, as its header says", f"a file of {there}")


def _from_archive(path: Path, stored: Any, name: str) -> NDArray[Any]:
    try:
        return np.asarray(stored[name])
    except ValueError as failure:
        if "allow_pickle" in str(failure):
            raise errors.holds_objects(str(path), name) from failure
        raise


def _shared_out(arrays: Mapping[str, NDArray[Any]], factors: Mapping[str, Sequence[str]]) -> dict[str, NDArray[Any]]:
    """The columns (last axis) of the only array there is, by factor."""
    if len(arrays) != 1:
        raise errors.factors_have_names(list(arrays))
    array = next(iter(arrays.values()))
    if array.ndim < 2:
        raise errors.bad_value("an array with --factor", "columns along a last axis", f"shape {array.shape}")
    return {name: array[..., _numbers(name, words, array.shape[-1])] for name, words in factors.items()}


def _numbers(factor: str, words: Sequence[str], width: int) -> list[int]:
    """Columns from "3", or "0:4" as Python counts."""
    found: list[int] = []
    for word in words:
        first, colon, end = word.partition(":")
        if not first.isdecimal() or (colon and not end.isdecimal()):
            raise errors.bad_column_numbers(factor, words, width)
        found += range(int(first), int(end)) if colon else [int(first)]
    if not found or max(found) >= width:
        raise errors.bad_column_numbers(factor, words, width)
    return found
