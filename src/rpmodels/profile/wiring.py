"""Whether channels still go with the others as they did: each is foretold from all others by least squares.

With Q the inverse of the channels' correlations, what is left of a channel is e = (Q x)_c / Q_cc. What is kept of the
fit is cross-fitted: every fifth of the trials by the Q of the others, so that fit and new data are measured alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import NDArray

from rpmodels.profile.shown import CLIP, FEW_TRIALS, Array, Shown
from rpmodels.profile.sketch import Sketch
from rpmodels.profile.statistics import by_lag

MOST = 256
"""Channels; of more, evenly spaced ones."""
FOLDS = 5
RIDGE = 0.01
WHOLE = 0.5
"""Share of the sites at which all factors are there: else every factor by itself."""
AGREED = 5.0
"""Standard errors above zero that agreement must have in the fit to be missed."""
LOST, LEAST_LOST = 0.3, 0.02
"""Of the agreement in the fit, and at least: what is less is no news."""
APART = 0.25
"""Sds of what is left of a channel: smaller means of it are no news."""
LEADING = 2
"""Principal components."""
TRIED = 12
"""Channels, of which pairs are exchanged to see whether they were."""

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Sites:
    """Channels of several factors where all of them are known, one row a site."""

    rows: Float[np.ndarray, "M D"]
    trial: Int[np.ndarray, "M"]
    site: Int[np.ndarray, "M"]
    trials: int
    n_sites: int

    def by_trial(self, values: Float[np.ndarray, "M P"]) -> Float[np.ndarray, "N P"]:
        """Means over the sites of a trial, NaN where it has none."""
        count = np.bincount(self.trial, minlength=self.trials)
        total = np.zeros((self.trials, values.shape[1]))
        np.add.at(total, self.trial, values)
        known = (count > 0)[:, None]
        return np.where(known, total / np.maximum(count, 1)[:, None], np.nan)

    def paces(self, projected: Float[np.ndarray, "M L"]) -> Float[np.ndarray, "N P"]:
        """Half the squared differences of some projections at several lags, by trial."""
        grid = np.full((self.trials, self.n_sites, projected.shape[1]), np.nan)
        grid[self.trial, self.site] = projected
        return by_lag(grid)


@dataclass(frozen=True)
class Wiring:
    """Of the channels of some factors, as the fit had them."""

    names: tuple[str, ...]
    factor: Int[np.ndarray, "D"]
    channel: Int[np.ndarray, "D"]
    inverse: Float[np.ndarray, "D D"]
    """Q."""
    sd: Float[np.ndarray, "D"]
    """Of what is left of a channel."""
    agreement: Sketch
    """Of every channel with what the others say of it."""
    left: Sketch
    """What they leave, in sds of that."""
    size: Sketch
    """Of a trial: log mean square of it."""
    leading: Float[np.ndarray, "D L"]
    """What channels have most in common, by principal components of variance one."""
    pace: Sketch
    """How far these are from where they were some sites before."""

    @staticmethod
    def of(shown: Mapping[str, Shown], names: Sequence[str]) -> "Wiring | None":
        """From the data of the fit; None where they are too few."""
        factor = np.concatenate([np.full(shown[n].n_channels, j) for j, n in enumerate(names)])
        channel = np.concatenate([np.arange(shown[name].n_channels) for name in names])
        if len(factor) > MOST:
            chosen = np.linspace(0, len(factor) - 1, MOST).astype(np.int64)
            factor, channel = factor[chosen], channel[chosen]
        sites = sites_of(shown, names, factor, channel)
        if len(factor) < 2 or len(sites.rows) < 2 * len(factor) or len(np.unique(sites.trial)) < 2 * FOLDS:
            return None
        products = [each.T @ each for each in (sites.rows[sites.trial % FOLDS == f] for f in range(FOLDS))]
        counts = np.bincount(sites.trial % FOLDS, minlength=FOLDS).tolist()
        whole, total = sum(products[1:], start=products[0]), sum(counts)
        left, projected = np.empty_like(sites.rows), np.empty((len(sites.rows), LEADING))
        for f, (product, count) in enumerate(zip(products, counts, strict=True)):
            own = sites.trial % FOLDS == f
            left[own] = remainder(sites.rows[own], _inverse(whole - product, total - count))
            projected[own] = sites.rows[own] @ _leading(whole - product, total - count)
        inverse = _inverse(whole, total)
        sd = np.sqrt(np.square(left).mean(0)) + 1e-12
        agreement, off, size = _by_trial(sites, left, sd)
        # Rounded as it is kept, so that a model and its file say the same.
        kept, leading = (each.astype(np.float32) for each in (inverse, _leading(whole, total)))
        one, two, three = (Sketch.of(each) for each in (agreement, off, size))
        pace = Sketch.of(sites.paces(projected))
        return Wiring(tuple(names), factor, channel, kept, sd, one, two, three, leading, pace)

    def told(self, sites: Sites) -> tuple[Array, Array, Array]:
        """Of every trial: agreement and what is left by channel (N, D), and the size of the latter (N, 1)."""
        return _by_trial(sites, remainder(sites.rows, np.asarray(self.inverse, np.float64)), self.sd)

    def paces(self, sites: Sites) -> Float[np.ndarray, "N P"]:
        """How far new data are from where they were some sites before, by what channels have in common."""
        return sites.paces(sites.rows @ np.asarray(self.leading, np.float64))

    def sites(self, shown: Mapping[str, Shown]) -> Sites:
        """New data."""
        return sites_of(shown, self.names, self.factor, self.channel)

    def lost(self, now: Float[np.ndarray, "D"]) -> NDArray[np.bool_]:
        """Channels whose agreement with the others is gone."""
        before = self.agreement.mean
        error = np.sqrt(self.agreement.variance / np.maximum(self.agreement.count, 1.0))
        return np.asarray((before > AGREED * error) & (before - now > np.maximum(LOST * before, LEAST_LOST)))

    def exchanged(self, shown: Mapping[str, Shown], suspects: Sequence[int]) -> tuple[int, int] | None:
        """Two channels, one of them suspect, that agree with the others again when they change places, if any do."""
        if not suspects:
            return None
        sites, before, best, found = self.sites(shown), self.agreement.mean, 0.0, None
        agreement, off, _ = (np.nanmean(each, 0) for each in self.told(sites))
        others = np.argsort(agreement - before - np.abs(off), kind="stable").tolist()
        tried = list(dict.fromkeys([*list(suspects)[:TRIED], *others]))[: 2 * TRIED]
        for place, a in enumerate(tried[: min(TRIED, len(suspects))]):
            for b in tried[place + 1 :]:
                if self.factor[a] != self.factor[b]:
                    continue
                pair = np.array([a, b])
                again, apart = self._told_of(self._with_exchanged(shown, sites, a, b), pair)
                agrees = again > (1.0 - LOST) * before[pair] - LEAST_LOST
                good = agrees & (np.abs(apart - self.left.mean[pair]) < APART)
                gained = float(np.sum(again - agreement[pair]) + np.sum(np.abs(off[pair]) - np.abs(apart)))
                if bool(good.all()) and gained > best:
                    best, found = gained, (a, b)
        return found

    def _told_of(self, sites: Sites, some: Index) -> tuple[Array, Array]:
        """The averages of agreement and of what is left, of some channels alone."""
        inverse = np.asarray(self.inverse, np.float64)[:, some]
        left = sites.rows @ inverse / inverse[some, np.arange(len(some))]
        own = replace(sites, rows=sites.rows[:, some])
        agreement, off, _ = (np.nanmean(each, 0) for each in _by_trial(own, left, self.sd[some]))
        return agreement, off

    def _with_exchanged(self, shown: Mapping[str, Shown], sites: Sites, a: int, b: int) -> Sites:
        """Sites with two channels in each other's place, each on the scale of its new place."""
        each = shown[self.names[self.factor[a]]]
        c, d = self.channel[a], self.channel[b]
        whole = np.all([shown[name].known.all(-1) for name in self.names], axis=0)
        numbers, scale, rows = each.numbers[whole], each.scale, sites.rows.copy()
        for place, to, of in ((a, c, d), (b, d, c)):
            rows[:, place] = np.clip((numbers[:, of] - scale.offset[to]) / scale.spread[to], -CLIP, CLIP)
        return replace(sites, rows=rows)


def groups(shown: Mapping[str, Shown]) -> list[list[str]]:
    """Factors whose channels are foretold from each other: all, or where they are rarely all there, one by one."""
    names = [name for name, each in shown.items() if each.scale.form != "pictures"]
    if not names:
        return []
    exists = next(iter(shown.values())).exists
    whole = np.all([shown[name].known.all(-1) for name in names], axis=0)
    together = whole.sum() >= WHOLE * max(1, int(exists.sum()))
    return [names] if together else [[name] for name in names]


def sites_of(shown: Mapping[str, Shown], names: Sequence[str], factor: Index, channel: Index) -> Sites:
    """Where all channels are known."""
    whole = np.all([shown[name].known.all(-1) for name in names], axis=0)
    parts = [shown[name].values[whole][:, channel[factor == j]] for j, name in enumerate(names)]
    trial, site = np.nonzero(whole)
    return Sites(np.concatenate(parts, 1), trial, site, whole.shape[0], whole.shape[1])


def remainder(rows: Float[np.ndarray, "M D"], inverse: Float[np.ndarray, "D D"]) -> Float[np.ndarray, "M D"]:
    """What the other channels leave of each."""
    left: Array = rows @ inverse / np.diag(inverse)
    return left


def _by_trial(sites: Sites, left: Array, sd: Array) -> tuple[Array, Array, Array]:
    """Agreement (about the mean, where it is no matter of chance), what is left in its sds, and how large that is."""
    scaled = left / sd
    size = sites.by_trial(np.square(scaled).mean(1, keepdims=True))
    agreeing = sites.rows * (sites.rows - left)
    if len(np.unique(sites.trial)) >= FEW_TRIALS:
        agreeing = agreeing - sites.rows.mean(0) * (sites.rows - left).mean(0)
    return sites.by_trial(agreeing), sites.by_trial(scaled), np.log(size + 1e-2)


def _leading(product: Array, count: int) -> Array:
    values, vectors = np.linalg.eigh(product / max(count, 1))
    return np.asarray(vectors[:, -LEADING:] / np.sqrt(np.maximum(values[-LEADING:], 1e-9)))


def _inverse(product: Array, count: int) -> Array:
    """Of correlations, and a little more noise where there are few sites for them."""
    size = len(product)
    ridge = RIDGE + size / max(count, 1)
    return np.asarray(np.linalg.inv(product / max(count, 1) + ridge * np.eye(size)), np.float64)
