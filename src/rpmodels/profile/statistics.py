"""What is asked of a factor's data: each statistic an object with its words. To add one is to add it to a list."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from rpmodels.profile.shown import CLIP, Array, Shown, known_mean

BINS = 32
"""Of the time of a trial."""
FEWEST_STEPS = 5
FAR = 16.0
"""Standardised values of a trial are clipped here."""
LAGS = (1, 2, 3, 5, 8, 13)
"""Steps apart."""
SAMPLED = "were these data sampled, binned and smoothed as those were?"


class Statistic(ABC):
    """A number for every trial, at one place or more: channels, bins of time, lags, or the factor as a whole."""

    name: ClassVar[str]
    """Of findings, for programs."""
    places: ClassVar[str] = "channel"
    """What its places are: "channel", "bin", "lag", or "" for one of all."""
    averages: ClassVar[bool] = True
    """Whether means over trials are compared."""
    single: ClassVar[bool] = False
    """Whether every trial is."""
    least: ClassVar[float] = 0.0
    """Smaller differences of averages are no news."""
    relative: ClassVar[bool] = False
    """Whether that is a share of the average of the fit."""

    spoilt_by: ClassVar[str] = ""
    """The name of what explains differences of this one as well, where it was found of the same factor."""

    @abstractmethod
    def of(self, shown: Shown) -> Array:
        """(N, P), NaN where it cannot be told; P = 0 where it makes no sense."""

    @abstractmethod
    def words(self, new: float, old: float) -> str:
        """What is different, between its place and the numbers of the test."""


class Mean(Statistic):
    """Where a channel is, in its sds."""

    name, least = "shifted", 0.2

    def of(self, shown: Shown) -> Array:
        """Clipped, so that a few values far outside are no shift."""
        return known_mean(shown.values, 1)

    def words(self, new: float, old: float) -> str:
        """In sds of the fit."""
        return f"mean {abs(new - old):.2g} sd {'above' if new > old else 'below'} what the fit saw"


class Size(Statistic):
    """How far a channel swings about its new mean."""

    name, least, relative = "other spread", 0.4, True

    def of(self, shown: Shown) -> Array:
        """Squares of clipped values."""
        if shown.scale.form == "labels":
            return np.zeros((len(shown.raw), 0))
        return known_mean(np.square(shown.values - shown.centre), 1)

    def words(self, new: float, old: float) -> str:
        """As sds."""
        return f"sd {np.sqrt(new / max(old, 1e-12)):.2g} times what the fit saw"


class Beyond(Statistic):
    """How often a channel is far outside."""

    name, least = "beyond the range", 0.02

    def of(self, shown: Shown) -> Array:
        """Shares."""
        if shown.scale.form == "labels":
            return np.zeros((len(shown.raw), 0))
        return known_mean(np.where(shown.known, np.abs(shown.unclipped) > CLIP, np.nan), 1)

    def words(self, new: float, old: float) -> str:
        """As shares."""
        return f"{new:.1%} of the values more than {CLIP:g} sd from the mean of the fit ({old:.1%} there)"


class Missing(Statistic):
    """How often a channel is missing, of those that are not left out altogether."""

    name, least = "missing", 0.1

    def of(self, shown: Shown) -> Array:
        """Shares of the sites."""
        missing = np.where(shown.exists[..., None] & ~shown.left_out, ~shown.known, np.nan)
        return known_mean(missing, 1)

    def words(self, new: float, old: float) -> str:
        """As shares."""
        return f"missing at {new:.0%} of the sites ({old:.0%} in the fit)"


class Still(Statistic):
    """How often a number is the one before it, exactly."""

    name, least = "stuck", 0.2

    def of(self, shown: Shown) -> Array:
        """Of numbers that are not counted."""
        if shown.n_sites < FEWEST_STEPS or shown.scale.form != "numbers":
            return np.zeros((len(shown.raw), 0))
        steps = np.diff(shown.raw, axis=1)
        return known_mean(np.where(np.isnan(steps), np.nan, steps == 0.0), 1)

    def words(self, new: float, old: float) -> str:
        """As shares."""
        return f"does not move at {new:.0%} of the steps ({old:.0%} in the fit)"


def by_lag(x: Array) -> Array:
    """(N, P): half the mean squared differences of (N, T, C), at every lag that there is in a trial."""
    lags = [lag for lag in LAGS if lag <= x.shape[1] // 2]
    if x.shape[1] < FEWEST_STEPS:
        return np.zeros((len(x), 0))
    return np.stack([0.5 * known_mean(np.square(x[:, lag:] - x[:, :-lag]), (1, 2)) for lag in lags], 1)


class Differences(Statistic):
    """How far values are from those some sites on, wherever a trial is as a whole."""

    name, places, single, least = "other rate", "lag", True, 0.02
    spoilt_by = "other spread"

    def of(self, shown: Shown) -> Array:
        """Half the squared differences of all channels together: of independent values their variance."""
        return np.zeros((len(shown.raw), 0)) if shown.scale.form == "labels" else by_lag(shown.values)

    def words(self, new: float, old: float) -> str:
        """A change of the sampling rate is the usual reason."""
        return f"differences of {new:.2g} of the variance, and {old:.2g} in the fit: {SAMPLED}"


class Parting(Differences):
    """The same, relative to that of neighbours: whatever the scale of the values."""

    single, least, relative, spoilt_by = False, 0.04, True, ""

    def of(self, shown: Shown) -> Array:
        """NaN where neighbours are the same."""
        apart = super().of(shown)
        if apart.shape[1] < 2:
            return apart[:, :0]
        return np.where(apart[:, :1] > 1e-9, apart / np.maximum(apart[:, :1], 1e-9), np.nan)

    def words(self, new: float, old: float) -> str:
        """In the same way."""
        return f"squared differences {new:.3g} times those of neighbours, and {old:.3g} times in the fit: {SAMPLED}"


class OverTime(Statistic):
    """How large values are at every part of a trial."""

    name, places, least, relative = "odd times", "bin", 0.5, True

    def of(self, shown: Shown) -> Array:
        """Mean squares."""
        sites = shown.n_sites
        if sites < FEWEST_STEPS:
            return np.zeros((len(shown.raw), 0))
        bins = np.array_split(np.arange(sites), min(sites, BINS))
        return np.stack([known_mean(np.square(shown.values[:, each] - shown.centre), (1, 2)) for each in bins], 1)

    def words(self, new: float, old: float) -> str:
        """As sds."""
        return f"values {np.sqrt(new / max(old, 1e-12)):.2g} times as far from the mean as in the fit"


class TrialLevel(Statistic):
    """Where a trial is, all channels together."""

    name, places, averages, single = "odd trials", "", False, True

    def of(self, shown: Shown) -> Array:
        """The mean of all, clipped where one value alone would move it, and no sooner: a trial may be far away."""
        return known_mean(np.clip(shown.unclipped, -FAR, FAR), (1, 2))[:, None]

    def words(self, new: float, old: float) -> str:
        """In sds of single values."""
        return f"its mean is {new:.2g} sd, and {old:.2g} in most trials"


class TrialSize(Statistic):
    """How far a trial swings, all channels together."""

    name, places, averages, single = "odd trials", "", False, True

    def of(self, shown: Shown) -> Array:
        """Logarithm of the mean square, of values that are not clipped."""
        size = known_mean(np.square(np.clip(shown.unclipped, -1e6, 1e6)), (1, 2))
        return np.log(size + 1e-2)[:, None]

    def words(self, new: float, old: float) -> str:
        """As sds."""
        return f"its values are {np.exp(0.5 * (new - old)):.2g} times as far from the mean as in most trials"


STATISTICS: tuple[Statistic, ...] = (
    Mean(), Size(), Beyond(), Missing(), Still(), Differences(), Parting(), OverTime(), TrialLevel(), TrialSize(),
)  # fmt: skip
"""Of every factor."""


def lag_words(place: int) -> str:
    """How far apart."""
    return "neighbouring sites" if place == 0 else f"sites {LAGS[place]} apart"


def place_words(statistic: Statistic, place: int, shown: Shown) -> str:
    """Such as "channel 12"."""
    if statistic.places == "bin":
        bins = np.array_split(np.arange(shown.n_sites), min(shown.n_sites, BINS))[place]
        return f"time {bins[0]}" if len(bins) == 1 else f"times {bins[0]} to {bins[-1]}"
    if statistic.places == "lag":
        return lag_words(place)
    if statistic.places == "channel" and shown.scale.form == "pictures":
        return ("mean of the event", "sd of the event")[place]
    if statistic.places == "channel" and shown.scale.form == "labels":
        return f"label {place}"
    return f"{statistic.places} {place}" if statistic.places else ""


def sites_of(places: NDArray[np.int64], n_sites: int) -> list[int]:
    """The sites of some bins."""
    bins = np.array_split(np.arange(n_sites), min(n_sites, BINS))
    return [int(site) for place in places for site in bins[int(place)]]
