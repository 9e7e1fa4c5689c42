"""States without labels: wake and sleep along a night, and kinds of places in photographs some of whose views lack."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from rpmodels import RPHMM, RPCategorical, datasets, metrics
from rpmodels.estimators import States
from rpmodels.evaluation.comparison import scaled_bins
from rpmodels.evaluation.rivals import rivals_of
from rpmodels.observations import read
from rpmodels.paper.experiments.experiment import Outcome
from rpmodels.paper.experiments.real_sets import RealSet, Task

Labels = NDArray[Any]
"""Whole numbers, of any width."""


class Night(RealSet):
    """RP-HMM and its rivals: F1 of wake, NREM and REM on the second half of the night, each class weighing the same.

    Models are fitted to the first half, where states are named as well (`best_names`).
    """

    own = "RP-HMM"
    rivals = rivals_of(States())

    def measured(self, task: Task) -> Outcome:
        """One fit."""
        night, size = datasets.load_ca1_sleep(), int(task.condition)
        halves, truth = np.array_split(night.counts, 2), np.array_split(night.state, 2)
        if task.method == self.own:
            model = RPHMM(size, random_state=task.seed, **task.fit).fit([halves[0]])
            found = [np.asarray(each) for each in model.predict(halves)]
        else:
            bins = scaled_bins(read({"x": halves}, series=True), np.array([0]))
            peer = self.peer(task.method, [night.counts.shape[1]])
            found = peer.latents(bins[:1], bins, size, task.seed).states
        names = best_names(truth[0], found[0], size, len(night.names))
        scores = [balanced_f1(table(known, states, size, len(night.names)), names[None])[0]
                  for known, states in zip(truth, found, strict=True)]  # fmt: skip
        return Outcome({"f1": float(scores[1]), "f1_first_half": float(scores[0])})


class Places(RealSet):
    """RP-categorical with as many states as categories, and its rivals, which see the mean where a view lacks.

    As is usual for clusterings, models are judged by the rows that they were fitted to.
    """

    own = "RP-categorical"
    rivals = rivals_of(States())
    varied = "missing"
    n_factors = 3
    longest = 1

    def measured(self, task: Task) -> Outcome:
        """One fit; the seed chooses the views that lack, too."""
        scenes = datasets.load_scene15(task.condition, task.seed)
        size = int(scenes.category.max()) + 1
        if task.method == self.own:
            found = RPCategorical(size, random_state=task.seed, **task.fit).fit_predict(scenes.views)
        else:
            bins = scaled_bins(read(scenes.views), np.arange(len(scenes)))
            widths = [each.shape[1] for each in scenes.views.values()]
            peer = self.peer(task.method, widths)
            found = np.concatenate(peer.latents(bins, bins, size, task.seed).states)
        matching = metrics.match_states(scenes.category, found, size)
        return Outcome({
            "accuracy": float((matching[found] == scenes.category).mean()),
            "nmi": float(normalized_mutual_info_score(scenes.category, found)),
            "ari": float(adjusted_rand_score(scenes.category, found)),
        })  # fmt: skip


def table(truth: Labels, states: Labels, size: int, n_classes: int) -> NDArray[np.float64]:
    """(K, classes): how often they meet."""
    counts = np.zeros((size, n_classes))
    np.add.at(counts, (states, truth), 1.0)
    return counts


def balanced_f1(counts: NDArray[np.float64], names: Labels) -> NDArray[np.float64]:
    """(ways,): mean over classes of F1, for every way (ways, K) to give states the names of classes."""
    as_class = names[..., None] == np.arange(counts.shape[1])  # (ways, K, classes)
    hits = np.einsum("wkc,kc->wc", as_class, counts)
    called = np.einsum("wkc,k->wc", as_class, counts.sum(1))
    scores: NDArray[np.float64] = (2.0 * hits / np.maximum(called + counts.sum(0), 1.0)).mean(1)
    return scores


def best_names(truth: Labels, states: Labels, size: int, n_classes: int) -> Labels:
    """(K,): the class of every state by which the balanced F1 is highest; all ways are tried.

    Several states may have one name, and with K states for three classes there are 3^K ways: 59 049 for ten.
    """
    ways = np.array(list(product(range(n_classes), repeat=size)), np.int64)
    return np.asarray(ways[balanced_f1(table(truth, states, size, n_classes), ways).argmax()])
