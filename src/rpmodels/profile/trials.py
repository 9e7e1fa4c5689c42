"""Single trials that are far from all others, and those in which there is nothing."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray

from rpmodels.profile.asking import CHANCE
from rpmodels.profile.departure import Departure, listed
from rpmodels.profile.profile import Profile
from rpmodels.profile.shown import Array, Shown
from rpmodels.profile.sketch import MEDIAN, Sketch
from rpmodels.profile.statistics import Statistic, lag_words

Index = NDArray[np.int64]
Told = Mapping[str, Float[np.ndarray, "N"]]
"""What the model says of every trial, by words: its score, how far its q is from the prior, what each factor says."""
LOW_IS_BAD = "the score (nats a site)"
"""The one of these that is low where a trial does not belong; the others are high."""
NATS_APART = 0.5
"""Nats a site that what a model says of a trial must be off, at least."""
FARTHER = 3.0
"""Times as far as any trial of the fit: what models say has tails of any kind."""
SURE = 8.0
"""Robust sds, at least, that a trial must be off."""


@dataclass(frozen=True)
class _Question:
    """A number for every trial, and those of the fit."""

    factor: str | None
    asks: "Statistic | str"
    """A statistic, or the words for what a model says."""
    values: Float[np.ndarray, "N"]
    sketch: Sketch
    by_model: bool = False
    """Whether this is what a model says."""

    def far(self, middle: float) -> NDArray[np.bool_]:
        """(N,): far enough to be news, on the side that is bad."""
        away = self.values - middle
        if not self.by_model:
            return np.ones(len(away), bool)
        low, high = self.sketch.quantiles[[0, -1], 0] - self.sketch.quantiles[MEDIAN, 0]
        bad, edge = (-away, -low) if self.asks == LOW_IS_BAD else (away, high)
        return np.asarray(bad > np.maximum(FARTHER * edge, NATS_APART))

    def words(self, new: float, old: float) -> str:
        """What is different about a trial."""
        if isinstance(self.asks, Statistic):
            where = f"{lag_words(0)}: " if self.asks.places == "lag" else ""
            return where + self.asks.words(new, old)
        return f"{self.asks} is {new:.3g}, and {old:.3g} in most trials"


def of_trials(profile: Profile, shown: Mapping[str, Shown], told: Told, trial: Index, begins: Index) -> list[Departure]:
    """`trial` and `begins` say which trial of the user's every one of these (pieces) is, and from which site on."""
    found = list(_of_emptiness(profile, shown, trial))
    asked = list(_questions(profile, shown, told))
    count = sum(int(np.sum(~np.isnan(each.values))) for each in asked)
    for each in asked:
        z, chance, middle = each.sketch.single(each.values[:, None])
        z, chance = z[:, 0], 2.0 * np.minimum(chance[:, 0], each.sketch.farther(each.values - middle[0]))
        odd = np.flatnonzero((chance * count < CHANCE) & (np.abs(z) > SURE) & each.far(float(middle[0])))
        if len(odd):
            odd = odd[np.argsort(-np.abs(z[odd]), kind="stable")]
            found.append(_odd(each, odd, float(middle[0]), z, chance * count, trial, begins))
    return found


def _questions(profile: Profile, shown: Mapping[str, Shown], told: Told) -> Iterator[_Question]:
    for name, statistic, values, sketch in profile.values(shown):
        if statistic.single:
            yield _Question(name, statistic, values[:, 0], sketch.first())
    for wiring in profile.wirings:
        if all(name in shown for name in wiring.names):
            size = wiring.told(wiring.sites(shown))[2][:, 0]
            yield _Question(None, "what the channels leave of each other (log of its mean square)", size, wiring.size)
    for what, values in told.items():
        if what in profile.told:
            yield _Question(None, what, values, profile.told[what], by_model=True)


def _odd(
    question: _Question, odd: Index, usual: float, z: Array, chance: Array, trial: Index, begins: Index
) -> Departure:
    first = int(odd[0])
    where = f"trial {trial[first]}" + (f" from site {begins[first]} on" if begins.any() else "")
    where += "" if question.factor is None else f", factor '{question.factor}'"
    text = f"{where}: {question.words(float(question.values[first]), usual)} (z = {z[first]:.0f})"
    trials = _distinct(trial[odd])
    if len(trials) > 1:
        text += f"; in all {listed('trial', trials, len(np.unique(trial)))}"
    probability = float(min(1.0, chance[first]))
    return Departure("odd trials", text + ".", question.factor, (), trials, (), float(z[first]), probability)


def _of_emptiness(profile: Profile, shown: Mapping[str, Shown], trial: Index) -> Iterator[Departure]:
    total = len(np.unique(trial))
    for name, each in shown.items():
        emptiness = profile.factors[name].emptiness
        empty = emptiness.empty(each)
        dropped, share = emptiness.dropped(each)
        if empty.any():
            trials = _distinct(trial[empty])
            shows = "show" if len(trials) > 1 else "shows"
            text = f"factor '{name}': {listed('trial', trials, total)} {shows} nothing at all: {nothing_words(each)}."
            yield Departure("empty trials", text, name, (), trials, (), math.inf)
        if dropped.any():
            trials = _distinct(trial[dropped])
            text = f"factor '{name}': {listed('trial', trials, total)} with all zeros at up to "
            yield Departure(
                "empty times", f"{text}{share[dropped].max():.0%} of the sites.", name, (), trials, (), math.inf
            )


def nothing_words(shown: Shown) -> str:
    """What it means to show nothing."""
    return "every count is zero" if shown.scale.counted else "every number is zero, or the same"


def _distinct(trials: Index) -> tuple[int, ...]:
    return tuple(dict.fromkeys(trials.tolist()))
