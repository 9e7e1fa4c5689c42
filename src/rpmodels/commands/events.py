"""Tables of events (spikes) as trials of counts, and bins as wide as the data want them."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from rpmodels import errors, evaluation
from rpmodels.commands.columns import spread_out
from rpmodels.commands.frames import BIN, open_table
from rpmodels.commands.reading import UNNAMED, Data, Reading
from rpmodels.estimators import Description, RPMEstimator
from rpmodels.observations import adapters

FOLDS = 5
"""By which bins are chosen, or as many as there are trials."""


def read_events(path: Path, model: Description, reading: Reading) -> Data:
    """Counts of every unit in bins, trials of which a factor has all units or those that it names."""
    if not model.in_time:
        raise errors.option_not_for("--events", model.name, "it knows no time")
    if reading.labels:
        raise errors.option_not_for("--label", "tables of events", "units are counted")
    frame = open_table(path, set())
    options = {"unit": reading.events, "time": reading.time, "trial": reading.trial}
    width = (reading.bins or (BIN,))[0]
    epochs = None if reading.epochs is None else _epochs(Path(reading.epochs), frame, reading.trial)
    counted = adapters.binned(frame, width, epochs, time_unit=reading.time_unit, align=reading.align, **options)
    chosen = reading.units or _shared_out([str(unit) for unit in counted.units], reading.factors)
    new = set(map(str, counted.units)) - {unit for units in chosen.values() for unit in units}
    if reading.units and new:
        warnings.warn(errors.new_units(sorted(new)), stacklevel=2)
    factors = {name: _counts_of(counted, units) for name, units in chosen.items()}
    lengths = [len(each) for each in counted.times]
    labels = np.asarray(counted.labels)
    trial = reading.trial or "trial"
    index = {trial: np.repeat(labels, lengths), reading.time or "time": np.concatenate(counted.times)}
    return Data(factors, counted.times, labels, index, chosen)


def _shared_out(units: Sequence[str], factors: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """The units of every factor; all of them in one, where nobody says."""
    if not factors:
        return {UNNAMED: list(units)}
    return {name: spread_out(f"--factor {name}", words, units) for name, words in factors.items()}


def _counts_of(counted: adapters.Binned, units: Sequence[str]) -> list[NDArray[Any]]:
    """Columns of these units; one that is not there was silent."""
    places = {str(unit): place for place, unit in enumerate(counted.units)}
    kept = [place for place, unit in enumerate(units) if unit in places]
    there = [places[units[place]] for place in kept]
    trials = []
    for counts in counted.trials:
        wide = np.zeros((len(counts), len(units)), counts.dtype)
        wide[:, kept] = counts[:, there]
        trials.append(wide)
    return trials


def _epochs(path: Path, frame: Any, trial: str | None) -> Any:
    """A table of beginnings and ends; by trial in the order of the events, where it names trials."""
    if not path.is_file():
        raise errors.no_data_file(str(path))
    epochs = open_table(path, set())
    if trial is None or trial not in epochs.columns or trial not in frame.columns:
        return epochs
    return epochs.set_index(trial).reindex(frame[trial].unique())


def with_bins(
    paths: Sequence[Path], estimator: RPMEstimator, reading: Reading
) -> tuple[Reading, dict[str, dict[str, float]] | None]:
    """One width of bins: of several the first, from wide to narrow, whose held-out score is near the highest."""
    if reading.events is None or len(reading.bins) < 2:
        return replace(reading, bins=reading.bins or (BIN,)) if reading.events else reading, None
    widths = sorted(reading.bins)
    times = [round(width / widths[0]) for width in widths]
    if any(abs(n * widths[0] - width) > 1e-6 * width for n, width in zip(times, widths, strict=True)):
        raise errors.bad_value("--bin", "multiples of the narrowest bin", ", ".join(map("{:g}".format, widths)))
    model = estimator.description
    data = read_events(paths[0], model, replace(reading, bins=(widths[0],)))
    quiet = clone(estimator).set_params(verbose=0)
    options = data.options(model)
    folds = min(FOLDS, len(next(iter(data.factors.values()))))
    found = evaluation.choose_bins(quiet, data.for_model(model), times[::-1], bin_width=widths[0], cv=folds, **options)
    scores = {}
    for n, each in found.tried.items():
        mean, error = each.measured("score")
        scores[f"{n * widths[0]:g}"] = {"nats per second": mean, "standard error": error}
    return replace(reading, bins=(float(f"{found.best * widths[0]:g}"),)), scores
