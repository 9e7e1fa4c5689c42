"""`rpmodels decode`: how well behaviour of a table can be read from the latents of a fit."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors, evaluation
from rpmodels.commands.columns import spread_out
from rpmodels.commands.folders import fit_record
from rpmodels.commands.frames import open_table
from rpmodels.commands.reading import Reading
from rpmodels.evaluation import Decoding

MAIN = ("mean", "probabilities")
"""What latents are called in the files of fits; the first that is there."""


def decode_files(folder: Path, table: Path, columns: Sequence[str], reading: Reading, **options: Any) -> Decoding:
    """Cross-validated by trials; behaviour has the names of trials and times on the same clock, at its own rate.

    Columns `reading.trial` and `reading.time` default to those of the fit.
    """
    record = fit_record(folder)
    if record is None:
        raise errors.nothing_to_tell(str(folder))
    if not table.is_file():
        raise errors.no_data_file(str(table))
    before = record["command"]
    reading = replace(reading, trial=reading.trial or before["trial"], time=reading.time or before["time"])
    with np.load(folder / "latents.npz") as stored:
        files = dict(stored)
    name = next((each for each in MAIN if each in files), None)
    if name is None or not {"lengths", "times", "trials"} <= set(files):
        raise errors.no_trials_to_decode(str(folder))
    ends = np.cumsum(files["lengths"])[:-1]
    latents, times = np.split(files[name], ends), np.split(files["times"], ends)
    behaviour, at = _behaviour(table, columns, reading, files["trials"].astype(str))
    return evaluation.decode(latents, behaviour, times=times, at=at, **options)


def _behaviour(
    table: Path, columns: Sequence[str], reading: Reading, trials: NDArray[Any]
) -> tuple[list[NDArray[Any]], list[NDArray[np.float64]]]:
    """Values and times of every trial, in the order of the latents."""
    frame = open_table(table, set())
    names = [str(name) for name in frame.columns]
    for option, column in (("--trial", reading.trial), ("--time", reading.time)):
        if column not in names:
            raise errors.no_such_column(option, str(column), names)
    chosen = spread_out("--y", columns, names)
    groups = {str(label): group.sort_values(reading.time) for label, group in frame.groupby(reading.trial)}
    for trial in trials:
        if trial not in groups:
            raise errors.bad_value(
                f"--trial {reading.trial}", f"rows of every trial of the fit in {table}", f"none of {trial}"
            )
    parts = [groups[trial] for trial in trials]
    at = [part[reading.time].to_numpy(dtype=np.float64) for part in parts]
    if reading.align:
        at = [each - each[0] for each in at]
    one = len(chosen) == 1 and frame[chosen[0]].dtype.kind not in "f"
    return [part[chosen[0] if one else chosen].to_numpy() for part in parts], at
