"""Events in lists and dicts: times of units, or trials of times of units."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rpmodels import errors
from rpmodels.checks import shown
from rpmodels.observations.events.events import Events, Recorded, Scale, ordered
from rpmodels.observations.kinds import Clock, kind_of


def events_of_plain(spikes: Any, scale: Scale) -> Events:
    """From {unit: times}, a list of times, a list of either (trials), or {unit: a list of times by trial}."""
    if isinstance(spikes, Mapping):
        return _of_mapping(spikes, scale)
    depth = _depth(spikes)
    if depth == 1:
        return _session([0], [spikes], scale)
    if depth == 2 and not any(isinstance(each, Mapping) for each in spikes):
        return _session(range(len(spikes)), list(spikes), scale)
    if depth < 2 or depth > 3:
        raise errors.no_events(shown(spikes) if kind_of(spikes) == "" else kind_of(spikes))
    trials = [each if isinstance(each, Mapping) else dict(enumerate(each)) for each in spikes]
    named = any(isinstance(each, Mapping) for each in spikes)
    for n, each in enumerate(trials):
        if not named and len(each) != len(trials[0]):
            raise errors.other_units(n, len(each), len(trials[0]))
    units = list(dict.fromkeys(unit for trial in trials for unit in trial))
    return _trials(units, [[trial.get(unit, ()) for unit in units] for trial in trials], scale)


def _of_mapping(spikes: Mapping[Any, Any], scale: Scale) -> Events:
    units = list(spikes)
    depths = [_depth(each) for each in spikes.values()]
    if not units or max(depths) > 2 or min(depths) < 1:
        raise errors.no_events("a dict of something else" if units else "an empty dict")
    if max(depths) == 1:
        return _session(units, list(spikes.values()), scale)
    lengths = {str(unit): len(each) for unit, each in spikes.items()}
    if len(set(lengths.values())) > 1:
        raise errors.different_counts(lengths)
    return _trials(units, [list(trial) for trial in zip(*spikes.values(), strict=True)], scale)


def _session(units: Sequence[Any], times: Sequence[Any], scale: Scale) -> Events:
    found = [_times(f"spike times of unit {unit}", each, scale) for unit, each in zip(units, times, strict=True)]
    scale.check(found)
    return Events(tuple(units), (Recorded(tuple(map(ordered, found))),))


def _trials(units: Sequence[Any], trials: Sequence[Sequence[Any]], scale: Scale) -> Events:
    found = [
        [_times(f"spike times of trial {n}, unit {unit}", x, scale) for unit, x in zip(units, trial, strict=True)]
        for n, trial in enumerate(trials)
    ]
    scale.check([each for trial in found for each in trial])
    recorded = tuple(Recorded(tuple(map(ordered, trial))) for trial in found)
    return Events(tuple(units), recorded, tuple(range(len(trials))))


def _times(what: str, value: Any, scale: Scale) -> Clock:
    """Of one unit: a single one may stand for itself, none is an empty list or None."""
    if value is None or (not hasattr(value, "rescale") and np.size(value) == 0):
        return np.zeros(0)
    return scale(what, value)


def _depth(value: Any) -> int:
    """How many lists are inside each other; of empty ones as few as there may be."""
    if hasattr(value, "rescale") or getattr(value, "dtype", np.dtype(object)) != np.dtype(object):
        return 1 if np.ndim(value) == 1 else 9  # an array of more axes holds counts, or something else
    if isinstance(value, Mapping):
        return 1 + max((_depth(each) for each in value.values()), default=1)
    if value is None:
        return 1
    if isinstance(value, str | bytes) or not hasattr(value, "__len__"):
        return 0
    return 1 + max((_depth(each) for each in value), default=0)
