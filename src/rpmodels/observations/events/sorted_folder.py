"""Events in the folder of a spike sorter, as Kilosort writes it and phy curates it."""

import ast
import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.observations.events.events import Events, Recorded, Scale, by_code

TIMES, CLUSTERS, SETTINGS = "spike_times.npy", "spike_clusters.npy", "params.py"
GROUPS = ("cluster_group.tsv", "cluster_groups.csv", "cluster_info.tsv", "cluster_KSLabel.tsv")
"""Where it says what clusters are; the first one that is there counts."""
LABELS = ("group", "KSLabel")
GOOD = "good"


def events_of_folder(folder: Path, time_unit: Any = None, groups: tuple[str, ...] | None = (GOOD,)) -> Events:
    """Spikes of the good clusters; of all of them where the folder does not say which are good.

    Times are samples: `sample_rate` stands in params.py, which is read and never run, or `time_unit` says how many
    seconds a sample takes.
    """
    samples, clusters = (_array(folder / name) for name in (TIMES, CLUSTERS))
    if len(samples) != len(clusters):
        raise errors.different_counts({TIMES: len(samples), CLUSTERS: len(clusters)})
    times = Scale(1.0 / _sample_rate(folder) if time_unit is None else time_unit)(TIMES, samples)
    kept = _labelled(folder, groups)
    units = np.unique(clusters) if kept is None else np.intersect1d(clusters, kept)
    if not len(units):
        raise errors.no_events(f"a folder without spikes of clusters that are {' or '.join(groups or ())}")
    chosen = np.isin(clusters, units)
    codes = np.searchsorted(units, clusters[chosen])
    return Events(tuple(units.tolist()), (Recorded(by_code(times[chosen], codes, len(units))),))


def _array(path: Path) -> NDArray[Any]:
    if not path.is_file():
        raise errors.no_sorted_spikes(str(path.parent), path.name)
    try:
        return np.asarray(np.load(path, allow_pickle=False)).ravel()
    except (OSError, ValueError, EOFError) as failure:
        raise errors.unreadable(str(path), "an array as numpy.save writes it", failure) from failure


def _sample_rate(folder: Path) -> float:
    """As it is written: a number after `sample_rate =`."""
    path = folder / SETTINGS
    try:
        for each in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(each, ast.Assign) and any(getattr(to, "id", "") == "sample_rate" for to in each.targets):
                rate = float(ast.literal_eval(each.value))
                if 0 < rate < np.inf:
                    return rate
    except (OSError, ValueError, TypeError, SyntaxError):
        pass
    raise errors.no_sample_rate(str(folder), SETTINGS)


def _labelled(folder: Path, groups: tuple[str, ...] | None) -> NDArray[np.int64] | None:
    """The clusters that somebody called so; None for all."""
    path = next((folder / name for name in GROUPS if (folder / name).is_file()), None)
    if groups is None or path is None:
        return None
    text = path.read_text(encoding="utf-8").splitlines()
    rows = list(csv.DictReader(text, delimiter="\t" if text and "\t" in text[0] else ","))
    label = next((name for name in LABELS if rows and name in rows[0]), None)
    if label is None or "cluster_id" not in rows[0]:
        raise errors.unreadable(str(path), f"columns cluster_id and {' or '.join(LABELS)}", text[:1] or "nothing")
    return np.array([int(row["cluster_id"]) for row in rows if row[label] in groups], np.int64)
