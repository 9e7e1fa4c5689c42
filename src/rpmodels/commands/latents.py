"""Latents as files: whatever a fitted model says of data, in .npz by name, or in .csv by column."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rpmodels.commands.reading import Data
from rpmodels.estimators import RPMEstimator
from rpmodels.writing import write_atomically

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class LatentFiles:
    """The same results in both forms."""

    arrays: Columns
    """For .npz. Trials of unequal length stand one after the other: `lengths` says where to cut."""
    columns: Columns
    """For .csv: where every row belongs, and its numbers."""

    def write(self, path: Path) -> None:
        """By the suffix of the file; atomically."""
        if path.suffix.lower() == ".csv":
            write_columns(path, self.columns)
        else:
            write_atomically(path, self._write_arrays)

    def _write_arrays(self, path: Path) -> None:
        with path.open("wb") as file:  # numpy would add a suffix to a bare name
            np.savez_compressed(file, **cast(dict[str, Any], self.arrays))


def write_columns(path: Path, columns: Columns) -> None:
    """A .csv file, atomically; numbers with all their digits."""

    def write(temporary: Path) -> None:
        with temporary.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(zip(*(each.astype(str) for each in columns.values()), strict=True))

    write_atomically(path, write)


def latents_of(estimator: RPMEstimator, data: Data) -> LatentFiles:
    """What the model says of these data, from whatever factors are there."""
    about = estimator.description
    latents = estimator.latents(data.for_model(about), **data.options(about))
    found = about.latent.arrays(latents)
    arrays = {name: _stacked(each) for name, each in found.items()}
    columns = about.latent.columns(arrays)
    # A model that counts rows knows less of their times than the data do.
    times = latents.times if about.takes_times else data.times
    if times is not None:
        arrays["times"] = _stacked(times)
    lengths = next(([len(each) for each in values] for values in found.values() if isinstance(values, list)), None)
    if lengths is not None:
        arrays["lengths"] = np.array(lengths)
    if data.trials is not None:
        arrays["trials"] = data.trials
    return LatentFiles(arrays, _beside(_index(arrays) if data.index is None else data.index, columns))


def _beside(index: Columns, columns: Columns) -> Columns:
    """Both; a column of the user's that is called like one of ours keeps its name."""
    return {**index, **{f"{name}_" if name in index else name: each for name, each in columns.items()}}


def _stacked(values: Any) -> NDArray[Any]:
    """Trials of a list one after the other; arrays as they are."""
    return np.concatenate(values) if isinstance(values, list) else np.asarray(values)


def _index(arrays: Columns) -> Columns:
    """Rows of arrays are known by their numbers, and times where there are some."""
    main = next(iter(arrays.values()))
    if main.ndim == 2:
        return {"time": arrays["times"]} if "times" in arrays else {"row": np.arange(len(main))}
    trials, length = main.shape[:2]
    times = np.broadcast_to(arrays.get("times", np.arange(length)), (trials, length))
    return {"trial": np.repeat(np.arange(trials), length), "time": times.ravel()}
