"""Tables as data frames, and those that hold events told from those that hold samples."""

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.commands.columns import spread_out
from rpmodels.commands.reading import Reading
from rpmodels.estimators import Description
from rpmodels.observations.events import EventColumns, events_in_columns

BIN = 0.02
"""Seconds: how wide bins of events are, where nobody says."""


def open_table(path: Path, labels: set[str]) -> Any:
    """A data frame; labels as they are written."""
    found = pandas()
    expected = f"a table with a line of column names ({path.suffix})"
    try:
        if path.suffix.lower() == ".csv":
            frame = found.read_csv(path, dtype=dict.fromkeys(labels, "str"))
        else:
            frame = found.read_parquet(path)
    except ImportError as failure:  # pandas leaves parquet to another package
        raise errors.needs_package(f"Reading {path}", "pyarrow", "pip install 'rpmodels[tables]'") from failure
    except Exception as failure:  # parsers raise classes of their own
        raise errors.unreadable(str(path), expected, failure) from failure
    if not len(frame):
        raise errors.unreadable(str(path), expected, "no rows")
    return frame


def pandas() -> Any:
    """The package, which is an extra."""
    try:
        return importlib.import_module("pandas")
    except ImportError as failure:
        raise errors.needs_package("Reading a table", "pandas", "pip install 'rpmodels[tables]'") from failure


def refuse_events(path: Path, frame: Any, model: Description, reading: Reading) -> None:
    """A table that looks like events is never fitted as numbers."""
    named = bool(reading.factors)
    columns = {str(name): frame[name].to_numpy() for name in frame.columns}
    found = events_in_columns(columns, reading.time, reading.trial, named=named)
    if found is None or (named and not _as_numbers(found, columns, reading)):
        return
    name = model.name if model.in_time else "gpfa"
    raise errors.table_of_events(str(path), name, found.unit, found.time, found.trial, BIN)


def _as_numbers(found: EventColumns, columns: Mapping[str, NDArray[Any]], reading: Reading) -> bool:
    """Whether units would be fitted, and not as labels."""
    if columns[found.unit].dtype.kind not in "iuf":
        return False
    numbers = [words for name, words in reading.factors.items() if name not in reading.labels]
    return any(found.unit in spread_out("--factor", words, list(columns)) for words in numbers)
