"""Clusters of a series: states that last longer than a site are told better from a site and its neighbours."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import correlate1d

from rpmodels.learning.clusters import Clusters
from rpmodels.learning.teaching import compact_features, k_means
from rpmodels.model import RPM
from rpmodels.observations import Observations

WIDTHS = (0.0, 1.0, 2.0, 4.0, 8.0)
"""Sites (sd of a Gaussian) that a cluster may see at once."""
FARTHEST = 4.0
"""Of an average, in sds."""


class KMeansOverTime(Clusters):
    """k-means of sites averaged over their neighbours, by as much as makes states follow from each other.

    For every width centres are found. Then the average of the sites up to t and that of those after t, which have none
    in common, go to their nearest centres: the width by which the one state says most of the other (mutual information)
    is taken. Too little of an average leaves noise, too much mixes states.
    """

    name = "k-means over time"

    def __init__(self, widths: tuple[float, ...] = WIDTHS, n_init: int = 3) -> None:
        self.widths, self.n_init = widths, n_init

    def __call__(
        self,
        model: RPM,
        observations: Observations,
        n_states: int,
        seed: int,
        names: Collection[str] | None = None,
    ) -> NDArray[np.int64]:
        """Of averaged sites; those where nothing was observed take no part. `names`: by these factors alone."""
        there = np.any([observations.present[name] for name in names or model.names], 0)
        rows = compact_features(model, observations, seed, names=names).reshape(*there.shape, -1).astype(np.float64)
        found, best = np.zeros(there.shape, np.int64), -np.inf
        for width in self.widths if there.shape[1] > 1 else (0.0,):
            wide = averaged(rows, there, gaussian(width))[there]
            states = k_means(wide, n_states, seed, self.n_init)
            centres = np.stack([wide[states == each].mean(0) for each in np.unique(states)])
            said = told_of_the_next(rows, there, width, centres)
            if said > best:
                found[there], best = states, said
        return found.ravel()


def gaussian(width: float) -> NDArray[np.float64]:
    """Weights of the sites before, at, and after one."""
    far = np.arange(-np.ceil(FARTHEST * width), np.ceil(FARTHEST * width) + 1)
    return np.asarray(np.exp(-0.5 * np.square(far / max(width, 1e-6))))


def averaged(rows: NDArray[np.float64], there: NDArray[np.bool_], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """(N, T, D): every site an average of those of its trial that are there."""
    seen = there[..., None].astype(np.float64)
    total, count = (np.asarray(correlate1d(each, weights, axis=1, mode="constant")) for each in (rows * seen, seen))
    return np.asarray(total / np.maximum(count, np.finfo(np.float64).tiny))


def told_of_the_next(
    rows: NDArray[np.float64], there: NDArray[np.bool_], width: float, centres: NDArray[np.float64]
) -> float:
    """Mutual information, in nats, of the cluster of what was until a site and that of what is after it."""
    weights = gaussian(width)
    until = weights * (np.arange(len(weights)) <= len(weights) // 2)
    both = there[:, 1:] & there[:, :-1]
    before = _nearest(averaged(rows, there, until)[:, :-1][both], centres)
    after = _nearest(averaged(rows, there, until[::-1])[:, 1:][both], centres)
    pairs = np.zeros((len(centres), len(centres)))
    np.add.at(pairs, (before, after), 1.0)
    share = pairs / max(1.0, pairs.sum())
    alone = share.sum(1, keepdims=True) * share.sum(0, keepdims=True)
    seen = share > 0
    return float((share[seen] * np.log(share[seen] / alone[seen])).sum())


def _nearest(rows: NDArray[np.float64], centres: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.asarray((np.square(centres).sum(1) - 2.0 * rows @ centres.T).argmin(1))
