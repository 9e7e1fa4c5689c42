"""Where several chains, and states with an age, begin: every factor at clusters, over time, of what it speaks of.

Where no factor speaks of a chain alone, clusters are of all chains at once, as many as there are configurations. Which
of them is which is told by time: of all ways to call clusters by configurations, that is looked for in which the chains
move the most independently, which is the most likely one.
"""

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from rpmodels.families import JointStates
from rpmodels.learning.series_clusters import KMeansOverTime
from rpmodels.learning.starts import Lesson, TaughtStart
from rpmodels.learning.teaching import MANY
from rpmodels.model import RPM
from rpmodels.observations import Observations

MOST = 64
"""Configurations that are clustered and told apart."""
TRIED = 20_000
"""Exchanges of two clusters that are tried at most, from several beginnings."""


class ChainsStart(TaughtStart):
    """Every factor learns the clusters of the chains that it speaks of."""

    name = "k-means over time"

    def find(self, model: RPM, observations: Observations, seed: int) -> Lesson | None:
        """States of these chains at every site, zero for those that no factor speaks of."""
        family = cast(JointStates, model.prior.family)
        observations = observations.some(MANY)
        spoken = {name: model.speaks_of(name) for name in model.names}
        alone = {each[0] for each in spoken.values() if len(each) == 1}
        found = np.zeros((*observations.exists.shape, family.latents), np.int64)
        if alone == set().union(*spoken.values()):
            if observations.exists.sum() < max(family.states):
                return None
            for latent in sorted(alone):
                names = [name for name in model.names if spoken[name] == (latent,)]
                found[..., latent] = _clusters(model, observations, family.states[latent], seed, names)
            return Lesson(observations, found, self.longest)
        if not math.prod(family.states) <= min(MOST, int(observations.exists.sum())):
            return None
        joint = _clusters(model, observations, math.prod(family.states), seed, model.names)
        found = configurations(joint, observations.exists, family.states, seed)
        return Lesson(observations, found, self.longest)


def _clusters(
    model: RPM, observations: Observations, n_states: int, seed: int, names: Sequence[str]
) -> NDArray[np.int64]:
    found = KMeansOverTime()(model, observations, n_states, seed, names)
    return found.reshape(observations.exists.shape)


def configurations(
    clusters: NDArray[np.int64], there: NDArray[np.bool_], states: Sequence[int], seed: int
) -> NDArray[np.int64]:
    """(N, T) clusters as (N, T, A) states, by the names under which chains say least of each other's steps."""
    size = math.prod(states)
    counts = np.zeros((size, size))
    both = there[:, 1:] & there[:, :-1]
    np.add.at(counts, (clusters[:, :-1][both], clusters[:, 1:][both]), 1.0)
    random = np.random.default_rng(seed % 2**32)
    best, reached, tried = np.arange(size), -math.inf, 0
    while tried < TRIED:
        order, value, spent = _climbed(counts, states, random.permutation(size), random)
        tried += spent
        if value > reached:
            best, reached = order, value
    return np.stack(np.unravel_index(np.argsort(best)[clusters], list(states)), -1).astype(np.int64)


def _climbed(
    counts: NDArray[np.float64], states: Sequence[int], order: NDArray[np.int64], random: np.random.Generator
) -> tuple[NDArray[np.int64], float, int]:
    """Two clusters change places for as long as that makes chains likelier; `order[k]` is configuration k's cluster."""
    pairs = np.stack(np.triu_indices(len(order), 1), 1)
    value, spent, since = log_likelihood(counts[np.ix_(order, order)], states), 0, 0
    while since < len(pairs):
        for a, b in random.permutation(pairs):
            other = order.copy()
            other[[a, b]] = order[[b, a]]
            changed = log_likelihood(counts[np.ix_(other, other)], states)
            spent, since = spent + 1, since + 1
            if changed > value + 1e-9:
                order, value, since = other, changed, 0
            if since >= len(pairs):
                break
    return order, value, spent


def log_likelihood(counts: NDArray[np.float64], states: Sequence[int]) -> float:
    """Of steps between configurations by independent chains, each with its likeliest transitions."""
    table = counts.reshape(*states, *states)
    total = 0.0
    for a in range(len(states)):
        own = table.sum(tuple(i for i in range(2 * len(states)) if i % len(states) != a))
        rows = own.sum(1, keepdims=True)
        seen = own > 0
        total += float((own[seen] * np.log((own / np.maximum(rows, 1.0))[seen])).sum())
    return total
