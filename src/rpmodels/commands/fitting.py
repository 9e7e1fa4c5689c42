"""`rpmodels fit`: from files to a folder with the model, its latents, its history, and a record of all of it."""

import math
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from rpmodels import checks
from rpmodels.commands.events import with_bins
from rpmodels.commands.folders import PAGE, RECORD, Writers, claimed, replace_files
from rpmodels.commands.latents import latents_of, write_columns
from rpmodels.commands.models import make_estimator
from rpmodels.commands.reading import Data, Reading, read_files
from rpmodels.errors import RPModelsWarning
from rpmodels.estimators import RPMEstimator, estimator_named
from rpmodels.estimators.names import flat
from rpmodels.free_energy import Score
from rpmodels.learning.distributed import communicator
from rpmodels.observations import FactorSpec
from rpmodels.report import model_page
from rpmodels.versions import versions
from rpmodels.writing import write_json, write_text


def fit_files(
    paths: Sequence[Path],
    model: str,
    out: Path,
    reading: Reading,
    *,
    latents: int | None = None,
    states: int | None = None,
    settings: Sequence[str] = (),
    seed: int = 0,
    checkpoint: Path | None = None,
    checkpoint_every: float = 30.0,
    force: bool = False,
) -> RPMEstimator:
    """Fit a model to files and write everything about it into the folder `out`; returns the fitted estimator."""
    estimator = make_estimator(estimator_named(model), latents, states, settings, checks.integer("--seed", seed, 0))
    with noted() as notes:
        reading, widths = with_bins(paths, estimator, reading)
        command = {
            "data": [str(path) for path in paths], "model": model, "latents": latents, "states": states,
            "set": list(settings), "seed": seed, **reading.plain(),
        }  # fmt: skip
        data = read_files(paths, estimator.description, reading)
        X, beside = data.for_model(estimator.description), data.options(estimator.description)
        options = {"checkpoint": checkpoint, "checkpoint_every": checkpoint_every, **beside}
        if communicator().rank > 0:  # the first process of a group writes for all of them
            return estimator.fit(X, **options)
        with claimed(out, force, paths):
            began = time.perf_counter()
            estimator.fit(X, **options)
            seconds = time.perf_counter() - began
            record = {"command": command, **_record(estimator, data), "widths": widths}
            record |= {"seconds": seconds, "warnings": notes}
            replace_files(out, _writers(estimator, data, {**record, "versions": versions()}))
            # After everything else: whatever becomes of the page, the fit is safe.
            write_text(out / PAGE, model_page(estimator, X, f"rpmodels: {out.resolve().name}", **beside))
    return estimator


@contextmanager
def noted() -> Iterator[list[str]]:
    """The library's warnings as lines on stderr, without the places in the code where they came up."""
    notes: list[str] = []
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        if not issubclass(category, RPModelsWarning):
            usual(message, category, *where, **more)
            return
        notes.append(str(message))
        sys.stderr.write(f"rpmodels: note: {message}\n")

    with warnings.catch_warnings():
        warnings.simplefilter("always", RPModelsWarning)
        warnings.showwarning = show
        yield notes


def score_plain(score: Score) -> dict[str, Any]:
    """A score with everything that belongs to it, for JSON."""
    values = {"nats": float(score), "ceiling": score.ceiling, "median": score.median}
    finite = {name: each if math.isfinite(each) else None for name, each in values.items()}
    return {
        **finite,
        "label": score.label,
        "standard_error": score.standard_error,
        "quadrature_error": score.quadrature_error,
    }


def count_plain(count: float) -> float:
    """How many observations there were: a whole number, unless they had weights."""
    return int(count) if float(count).is_integer() else float(count)


def factor_plain(spec: FactorSpec) -> dict[str, Any]:
    """The shape of an observation, or the number of labels."""
    return {"shape": list(spec.event_shape)} if spec.vocabulary is None else {"labels": len(spec.vocabulary)}


def _record(estimator: RPMEstimator, data: Data) -> dict[str, Any]:
    sizes = {name: _size(each) for name, each in data.factors.items()}
    specs: Mapping[str, FactorSpec] = estimator.model_.specs
    return {
        "estimator": type(estimator).__name__,
        "parameters": flat(estimator),
        "score": score_plain(estimator.score_),
        "steps": estimator.n_iter_,
        "stopped": estimator.stop_reason_,
        "observations": count_plain(estimator.model_.n_observations),
        "units": {name: list(units) for name, units in data.units.items()},
        "factors": {name: {**factor_plain(spec), **sizes.get(name, {})} for name, spec in specs.items()},
    }


def _size(values: Any) -> dict[str, Any]:
    """What was handed in: the shape of an array, or trials and their rows."""
    if isinstance(values, list):
        return {"trials": len(values), "rows": sum(map(len, values))}
    return {"array": list(values.shape)}


def _writers(estimator: RPMEstimator, data: Data, record: Mapping[str, Any]) -> Writers:
    """What becomes of every file; the record comes last."""
    latents = latents_of(estimator, data)
    files: dict[str, Any] = {"model.rpm": estimator.save, "latents.npz": latents.write}
    if data.index is not None:
        files["latents.csv"] = latents.write
    files["history.csv"] = partial(write_columns, columns=estimator.history_)
    files[RECORD] = partial(write_json, value=record)
    return files
