"""Latents as files: whatever a fitted model says of data, in .npz by name, or in .csv by column."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rpmodels.commands.models import LATENTS, Kind
from rpmodels.commands.reading import Data
from rpmodels.estimators import RPFA, RPGPFA, RPHMM, RPLDA, RPLDS, RPCategorical, RPMEstimator
from rpmodels.writing import write_atomically

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Latents:
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


def latents_of(estimator: RPMEstimator, kind: Kind, data: Data) -> Latents:
    """What the model says of these data, from whatever factors are there."""
    X, options = data.for_model(kind), data.options(kind)
    if isinstance(estimator, RPLDA):
        return _of_topics(estimator, X, data)
    found, times = _found(estimator, X, options)
    main = next(iter(found.values()))
    arrays = {name: _stacked(each) for name, each in found.items()}
    if times is not None:
        arrays["times"] = _stacked(times)
    elif data.times is not None:
        arrays["times"] = _stacked(data.times)
    if isinstance(main, list):
        arrays["lengths"] = np.array([len(each) for each in main])
    if data.trials is not None:
        arrays["trials"] = data.trials
    index = _index(arrays) if data.index is None else data.index
    columns = _columns({name: arrays[name] for name in found}, kind.option == LATENTS)
    return Latents(arrays, _beside(index, columns))


def _found(estimator: Any, X: Any, options: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """Results by name, the main one first, and when they are if the model knows."""
    if isinstance(estimator, RPFA | RPGPFA | RPLDS):
        posterior = estimator.posterior(X, **options)
        return {"mean": posterior.mean, "variance": posterior.variance}, posterior.times
    assert isinstance(estimator, RPCategorical | RPHMM)
    return {"probabilities": estimator.predict_proba(X), "states": estimator.predict(X)}, None


def _of_topics(estimator: RPLDA, X: Any, data: Data) -> Latents:
    """A mixture for every observation, a topic for every part; columns have the mixtures alone."""
    parts = estimator.predict_proba(X)
    arrays = {"proportions": estimator.transform(X), "probabilities": _stacked(parts)}
    arrays["topics"] = arrays["probabilities"].argmax(-1)
    if isinstance(parts, list):
        arrays["lengths"] = np.array([len(each) for each in parts])
    if data.trials is not None:
        arrays["trials"] = data.trials
    index = {"row": np.arange(len(arrays["proportions"]))} if data.index is None else data.index
    topics = {f"topic{k}": each for k, each in enumerate(arrays["proportions"].T)}
    return Latents(arrays, _beside(index, topics))


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


def _columns(arrays: Columns, continuous: bool) -> Columns:
    """(rows, K) of every result as K columns."""
    flat = {name: each.reshape(-1, each.shape[-1]) for name, each in arrays.items() if name != "states"}
    if not continuous:
        probabilities = {f"p{k}": each for k, each in enumerate(flat["probabilities"].T)}
        return {"state": arrays["states"].ravel(), **probabilities}
    means = {f"latent{k}": each for k, each in enumerate(flat["mean"].T)}
    return {**means, **{f"variance{k}": each for k, each in enumerate(flat["variance"].T)}}
