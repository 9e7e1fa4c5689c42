"""The questions that a profile answers of data, all of them counted (Bonferroni)."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from rpmodels.observations import Observations
from rpmodels.profile import statistics
from rpmodels.profile.departure import Departure, listed
from rpmodels.profile.profile import Asked, Profile
from rpmodels.profile.shown import Array, Shown, usual_step
from rpmodels.profile.sketch import Sketch
from rpmodels.profile.statistics import Differences, Statistic
from rpmodels.profile.wiring import APART, Sites, Wiring

CHANCE = 0.005
"""Of an alarm by averages, by how channels go together, and by single trials each, where there is nothing."""
OTHER_STEP = 0.01
"""Share by which steps of a clock may differ."""
Index = NDArray[np.int64]


def of_clock(profile: Profile, observations: Observations) -> list[Departure]:
    """Times that are further apart, or nearer."""
    step = usual_step(observations)
    if not step or not profile.step or math.isclose(step, profile.step, rel_tol=OTHER_STEP):
        return []
    text = (
        f"times are {step:g} apart, and were {profile.step:g} apart in the fit: {step / profile.step:.3g} times as far."
    )
    return [Departure("other clock", text, z=math.inf)]


def of_averages(profile: Profile, shown: Mapping[str, Shown]) -> list[Departure]:
    """Factors, channels and times of which averages over trials are off."""
    return off_average([each for each in profile.values(shown) if each[1].averages], shown, CHANCE)


def off_average(
    asked: Sequence[Asked], shown: Mapping[str, Shown], alarm: float, in_order: bool = False
) -> list[Departure]:
    """Of these statistics, with this chance of an alarm; `in_order`: trials are parts of one series."""
    count = sum(values.shape[1] for _, _, values, _ in asked)
    found: list[Departure] = []
    names: set[tuple[str, str]] = set()
    for name, statistic, values, sketch in asked:
        mean, z, chance = sketch.averages(values, in_order)
        off = np.abs(mean - sketch.mean)
        least = statistic.least * np.where(statistic.relative, np.maximum(np.abs(sketch.mean), 1e-6), 1.0)
        odd = np.flatnonzero((chance * count < alarm) & (off > least))
        explained = bool({(name, statistic.spoilt_by), (name, statistic.name)} & names)
        if len(odd) and not explained:
            names.add((name, statistic.name))
            found.append(_average(name, statistic, shown[name], odd, off, mean, sketch, z, chance * count))
    return found


def _average(
    name: str,
    statistic: Statistic,
    shown: Shown,
    odd: Index,
    off: Array,
    mean: Array,
    sketch: Sketch,
    z: Array,
    chance: Array,
) -> Departure:
    """The place that is farthest, and which others are off."""
    odd = odd[np.argsort(-off[odd], kind="stable")]
    first = int(odd[0])
    where = statistics.place_words(statistic, first, shown)
    text = (
        f"factor '{name}'{', ' * bool(where)}{where}: {statistic.words(float(mean[first]), float(sketch.mean[first]))}"
    )
    text += f" (z = {z[first]:.0f})" if np.isfinite(z[first]) else ""
    more = odd[1:].tolist()
    if more and statistic.places == "channel":
        text += f"; so are {listed('channel', more, len(mean))}" if len(more) > 1 else f"; so is channel {more[0]}"
    channels = tuple(odd.tolist()) if statistic.places == "channel" else ()
    sites = tuple(statistics.sites_of(np.sort(odd), shown.n_sites)) if statistic.places == "bin" else ()
    return Departure(
        statistic.name, text + ".", name, channels, (), sites, float(z[first]), float(min(1.0, chance[first]))
    )


def of_wiring(profile: Profile, shown: Mapping[str, Shown]) -> list[Departure]:
    """Channels that no longer go with the others, and what these do not foretell of them."""
    found = []
    usable = [each for each in profile.wirings if all(name in shown for name in each.names)]
    count = sum(2 * len(each.channel) + len(each.pace.mean) for each in usable)
    for wiring in usable:
        sites = wiring.sites(shown)
        if not len(sites.rows):
            continue
        agreement, off, _ = wiring.told(sites)
        now, z, chance = wiring.agreement.averages(agreement)
        lost = np.flatnonzero((chance * count < CHANCE) & (z < 0) & wiring.lost(now))
        lost = lost[np.argsort(now[lost] - wiring.agreement.mean[lost], kind="stable")]
        mean, z_off, chance_off = wiring.left.averages(off)
        apart = np.flatnonzero((chance_off * count < CHANCE) & (np.abs(mean - wiring.left.mean) > APART))
        apart = apart[np.argsort(-np.abs(mean[apart]), kind="stable")]
        pair = wiring.exchanged(shown, list(dict.fromkeys([*lost.tolist(), *apart.tolist()])))
        if pair is not None:
            found.append(_exchanged(wiring, pair, z, z_off))
        elif len(lost):
            found.append(_lost(wiring, lost, now, z, float(chance[lost[0]] * count)))
        if pair is None and len(apart):
            found.append(_unforetold(wiring, apart, mean, z_off, chance_off * count))
        found += _paces(wiring, sites, count)
    return found


def _paces(wiring: Wiring, sites: Sites, count: int) -> list[Departure]:
    """Whether what channels have in common moves as fast as it did."""
    paces = wiring.paces(sites)
    if paces.shape[1] != len(wiring.pace.mean):
        return []
    mean, z, chance = wiring.pace.averages(paces)
    odd = np.flatnonzero((chance * count < CHANCE) & (np.abs(mean - wiring.pace.mean) > Differences.least))
    if not len(odd):
        return []
    first = int(odd[np.argmax(np.abs(z[odd]))])
    words = Differences().words(float(mean[first]), float(wiring.pace.mean[first]))
    text = f"what the channels have in common, {statistics.lag_words(first)}: {words} (z = {z[first]:.0f})."
    return [Departure("other rate", text, z=float(z[first]), probability=float(min(1.0, chance[first] * count)))]


def _exchanged(wiring: Wiring, pair: tuple[int, int], z: Array, z_off: Array) -> Departure:
    factor, (one, other) = wiring.names[wiring.factor[pair[0]]], wiring.channel[list(pair)].tolist()
    most = float(max((*z[list(pair)], *z_off[list(pair)]), key=abs))
    text = (
        f"factor '{factor}', channels {one} and {other}: they look exchanged. In each other's place they go with the "
        f"other channels as in the fit, as they are they do not (z = {most:.0f})."
    )
    return Departure("exchanged channels", text, factor, (one, other), z=most)


def _lost(wiring: Wiring, lost: Index, now: Array, z: Array, chance: float) -> Departure:
    first, factor = int(lost[0]), wiring.names[wiring.factor[lost[0]]]
    channels = wiring.channel[lost[wiring.factor[lost] == wiring.factor[first]]].tolist()
    before = wiring.agreement.mean[first]
    text = (
        f"factor '{factor}', channel {wiring.channel[first]}: what the other channels say of it agrees with it by "
        f"{now[first]:.2g}, and by {before:.2g} in the fit (z = {z[first]:.0f})"
    )
    if len(channels) > 1:
        text += f"; in all {listed('channel', channels)} of this factor no longer go with the others"
    return Departure("other company", text + ".", factor, tuple(channels), z=float(z[first]), probability=chance)


def _unforetold(wiring: Wiring, apart: Index, mean: Array, z: Array, chance: Array) -> Departure:
    first, factor = int(apart[0]), wiring.names[wiring.factor[apart[0]]]
    channels = wiring.channel[apart[wiring.factor[apart] == wiring.factor[first]]]
    text = (
        f"factor '{factor}', channel {wiring.channel[first]}: on average {abs(mean[first]):.2g} sd "
        f"{'above' if mean[first] > 0 else 'below'} what the other channels foretell (z = {z[first]:.0f})"
    )
    if len(apart) > 1:
        text += f"; in all {len(apart)} of {len(wiring.channel)} channels are off"
    chances = float(min(1.0, chance[first]))
    return Departure("shifted", text + ".", factor, tuple(channels.tolist()), z=float(z[first]), probability=chances)
