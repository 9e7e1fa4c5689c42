"""`rpmodels transform`: latents of new data from a saved model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rpmodels import errors
from rpmodels.commands.fitting import noted
from rpmodels.commands.folders import fit_record
from rpmodels.commands.latents import latents_of
from rpmodels.commands.reading import Data, Reading, are_tables, read_files
from rpmodels.estimators import Description, RPMEstimator, load
from rpmodels.observations import FactorSpec

SUFFIXES = (".npz", ".csv")


def transform_files(model: Path, paths: Sequence[Path], out: Path, reading: Reading, *, force: bool = False) -> None:
    """Write the latents of these files, from whatever factors of the model they hold, to `out`."""
    if out.suffix.lower() not in SUFFIXES:
        raise errors.unknown_suffix(str(out), SUFFIXES)
    if out.resolve() in [path.resolve() for path in (model, *paths)]:
        raise errors.is_an_input(str(out))
    if out.exists() and not force:
        raise errors.would_overwrite(str(out))
    with noted():
        estimator, data = opened(model, paths, reading)
        latents_of(estimator, data).write(out)


def opened(model: Path, paths: Sequence[Path], reading: Reading) -> tuple[RPMEstimator, Data]:
    """A saved model, and files read as it wants them."""
    estimator = load(model)
    reading = _completed(reading, model, paths)
    if are_tables(paths):
        reading = replace(reading, labels=_labels(reading, estimator.description, estimator.model_.specs))
    return estimator, read_files(paths, estimator.description, reading, estimator.model_.specs)


def _completed(reading: Reading, model: Path, paths: Sequence[Path]) -> Reading:
    """What the user did not say is read as it was for the fit, where its record still lies beside the model."""
    record = fit_record(model.resolve().parent) or {}
    before: dict[str, Any] = record.get("command", {})
    if not before or are_tables([Path(each) for each in before["data"]]) != are_tables(paths):
        return reading
    if not reading.factors and before["factors"]:
        reading = replace(reading, factors=before["factors"], optional=True)
    trial, time = reading.trial or before["trial"], reading.time or before["time"]
    reading = replace(reading, trial=trial, time=time, align=reading.align or before["align"])
    if not before.get("events"):
        return reading
    same = [str(path) for path in paths] == before["data"]  # whose epochs are those of the fit, too
    return replace(
        reading, events=reading.events or before["events"], bins=reading.bins or before["bins"],
        time_unit=reading.time_unit or before["time_unit"], units=record["units"],
        epochs=reading.epochs or (before["epochs"] if same else None),
    )  # fmt: skip


def _labels(reading: Reading, model: Description, specs: Mapping[str, FactorSpec]) -> list[str]:
    """The factors that are labels to the model."""
    labels = [name for name, spec in specs.items() if spec.is_label]
    if labels and model.one_factor:
        return list(reading.factors)  # the one factor may have any name
    return [name for name in labels if name in reading.factors]
