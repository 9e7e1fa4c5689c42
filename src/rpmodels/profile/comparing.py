"""A profile made of the data of a fit, and new data compared with it."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rpmodels.observations import Observations
from rpmodels.profile import asking, trials
from rpmodels.profile.departure import Departure
from rpmodels.profile.emptiness import Emptiness
from rpmodels.profile.profile import FactorProfile, Profile
from rpmodels.profile.shown import NUMBERS, Shown, parts_of, piece_length, shown_of, usual_step
from rpmodels.profile.sketch import Sketch
from rpmodels.profile.statistics import STATISTICS, Differences
from rpmodels.profile.trials import Told
from rpmodels.profile.wiring import Wiring, groups

Index = NDArray[np.int64]
FEWEST = 8
"""Trials of which what the model says can be told apart."""


def profile_of(observations: Observations, told: Told) -> Profile:
    """From the data of a fit that counted, or some of them where there are very many."""
    counted = observations.usable()
    index = counted[_some(observations, len(counted))]
    part = observations.subset(index)
    piece = piece_length(part)
    cut, trial, begins = parts_of(part, piece)
    shown = {name: shown_of(cut, name) for name in part.specs if cut.present[name].any()}
    factors = {name: _factor(each) for name, each in shown.items()}
    found = (Wiring.of(shown, names) for names in groups(shown))
    wirings = tuple(each for each in found if each is not None)
    some = {what: values[index] for what, values in told.items() if len(part) >= FEWEST}
    sketches = {what: Sketch.of(values[:, None]) for what, values in some.items()}
    profile = Profile(factors, wirings, sketches, observations.n_sites, usual_step(part), piece)
    return replace(profile, own=tuple(trials.of_trials(profile, shown, some, index[trial], begins)))


def departures(profile: Profile, observations: Observations, told: Told | None = None) -> list[Departure]:
    """In what these data are other than those of the fit: nothing in 98 of 100 sets that are not."""
    if not len(observations):
        return []
    shown, trial, begins = compared(profile, observations)
    index = _some(observations, len(observations))
    averages = asking.of_averages(profile, shown)
    spread = any(each.name == Differences.spoilt_by for each in averages)
    wiring = [each for each in asking.of_wiring(profile, shown) if not (spread and each.name == Differences.name)]
    some = {what: values[index] for what, values in (told or {}).items()}
    single = trials.of_trials(profile, shown, some, trial, begins)
    return [*asking.of_clock(profile, observations), *averages, *wiring, *single]


def compared(profile: Profile, observations: Observations) -> tuple[dict[str, Shown], Index, Index]:
    """New data on the scale of the fit, in pieces where those were; of each the trial, and the site where it begins."""
    index = _some(observations, len(observations))
    cut, trial, begins = parts_of(observations.subset(index), profile.piece)
    known = {name: each for name, each in profile.factors.items() if cut.present[name].any()}
    return {name: shown_of(cut, name, each.scale) for name, each in known.items()}, index[trial], begins


def _some(observations: Observations, count: int) -> NDArray[np.int64]:
    """As many evenly spaced ones as have so many numbers."""
    each = max(int(np.prod(spec.event_shape)) for spec in observations.specs.values()) * observations.n_sites
    limit = max(4 * FEWEST, NUMBERS // max(1, each))
    return np.arange(count) if count <= limit else np.linspace(0, count - 1, limit).astype(np.int64)


def _factor(shown: Shown) -> FactorProfile:
    sketches = {}
    for statistic in STATISTICS:
        values = statistic.of(shown)
        if values.shape[1]:
            sketches[type(statistic).__name__] = Sketch.of(values)
    return FactorProfile(shown.scale, sketches, Emptiness.of(shown))
