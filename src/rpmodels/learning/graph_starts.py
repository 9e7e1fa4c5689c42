"""Where graphs of discrete latents begin: every latent at clusters of what speaks of it, and tables at those of EM.

Latents are found one after the other, those that some factor speaks of alone first. A factor that speaks of others too
shows a latent in what is left when the means of the states that are known already are taken away. What no factor speaks
of is for the tables: with the factors as they are, these are learned in closed form from several random beginnings.
"""

from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels.families import JointStates
from rpmodels.fitted import FittedRPM
from rpmodels.learning.starts import Lesson, Start, TaughtStart
from rpmodels.learning.teaching import MANY, compact, features, k_means
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors import DiscreteGraph, GraphPosterior
from rpmodels.recognition import reinitialise
from rpmodels.seeding import seeded

STARTS = 20
"""Of k-means: with three, one latent in three had two of its six states merged (benchmarks/graph_worlds.py)."""
BEGINNINGS = 8
"""Of the tables."""
ROUNDS = 40
"""Of EM from each."""
ENOUGH = 5_000
"""Observations for these."""


class RandomGraph(Start):
    """Fresh weights, and fresh tables."""

    name = "random"

    def __call__(self, model: RPM, observations: Observations, seed: int) -> None:
        """Draw both anew."""
        with seeded(seed):
            reinitialise(model.recognition)
            cast(DiscreteGraph, model.prior).redraw()


class ScopesStart(TaughtStart):
    """Every factor learns the clusters of the latents that it speaks of."""

    name = "k-means by latent"

    def find(self, model: RPM, observations: Observations, seed: int) -> Lesson | None:
        """A state of every latent for every observation."""
        observations = observations.some(MANY)
        if len(observations) < max(cast(JointStates, model.prior.family).states):
            return None
        return Lesson(observations, clusters_of_latents(model, observations, seed)[:, None], self.longest)

    def begin(self, model: RPM, lesson: Lesson | None, seed: int) -> int | None:
        """Teach them, then learn the tables."""
        taken = super().begin(model, lesson, seed)
        with seeded(seed):
            cast(DiscreteGraph, model.prior).redraw()
            if lesson is not None:
                learn_tables(model, lesson.observations)
        return taken


def clusters_of_latents(model: RPM, observations: Observations, seed: int) -> NDArray[np.int64]:
    """(N, A): k-means, latent after latent; zero for those that no factor speaks of."""
    family = cast(JointStates, model.prior.family)
    spoken = {name: set(model.speaks_of(name)) for name in model.names}
    tables = {name: compact(features(model, observations, [name])[0][0], seed) for name in model.names}
    found: dict[int, NDArray[np.int64]] = {}
    left = set().union(*spoken.values())
    while left:
        # Of the latents left, the one that some factor speaks of with the fewest others that are unknown.
        strangers = {a: min(len(s & left) for s in spoken.values() if a in s) for a in left}
        chosen = min(left, key=lambda a: (strangers[a], a))
        speaking = [name for name, s in spoken.items() if chosen in s and len(s & left) == strangers[chosen]]
        rest = [_without(tables[name], [found[a] for a in sorted(spoken[name] - left)]) for name in speaking]
        rows = np.concatenate([each / max(float(each.std()), 1e-12) / np.sqrt(each.shape[1]) for each in rest], 1)
        found[chosen] = k_means(rows, family.states[chosen], seed + chosen, STARTS)
        left.discard(chosen)
    states = np.zeros((len(observations), family.latents), np.int64)
    for a, each in found.items():
        states[:, a] = each
    return states


def _without(table: NDArray[Any], known: list[NDArray[np.int64]]) -> NDArray[Any]:
    """What is left when the mean of every joint state is taken away."""
    if not known:
        return table
    groups = np.unique(np.stack(known, 1), axis=0, return_inverse=True)[1].ravel()
    sums = np.zeros((int(groups.max()) + 1, table.shape[1]))
    np.add.at(sums, groups, table)
    return np.asarray(table - (sums / np.bincount(groups)[:, None])[groups])


@torch.no_grad()
def learn_tables(model: RPM, observations: Observations) -> None:
    """EM for the tables alone, the factors as they are: from several beginnings, the best is kept."""
    prior, training = cast(DiscreteGraph, model.prior), model.training
    part = observations.some(ENOUGH)
    inferred = list(FittedRPM.collected(model.eval(), part).posterior(part))
    said = [cast(GraphPosterior, each.posterior) for each in inferred]
    weights = [each.batch.weights * len(observations) / len(part) for each in inferred]

    def conditioned() -> list[GraphPosterior]:
        return [prior.condition(each.potentials, each.sites) for each in said]

    def goodness(posteriors: list[GraphPosterior]) -> float:
        found = [float(q.log_partition @ w) for q, w in zip(posteriors, weights, strict=True)]
        return sum(found) - float(prior.parameter_kl())

    best, kept = -np.inf, {name: each.clone() for name, each in prior.state_dict().items()}
    for _ in range(BEGINNINGS):
        prior.redraw()
        for _ in range(ROUNDS):
            sums = [prior.sums(q, w) for q, w in zip(conditioned(), weights, strict=True)]
            prior.update({name: torch.stack([each[name] for each in sums]).sum(0) for name in sums[0]}, 1.0)
        reached = goodness(conditioned())
        if reached > best:
            best, kept = reached, {name: each.clone() for name, each in prior.state_dict().items()}
    prior.load_state_dict(kept)
    model.train(training)
