"""The baselines of peer supervision (table 1): rates found in one way, and as many starts and steps as the RPM."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from rpmodels import metrics
from rpmodels.datasets import Images
from rpmodels.paper.baselines import VQVAE, DeepCCA, GumbelVAE, GumbelVQVAE, InfoNCE
from rpmodels.paper.baselines.autoencoders import DiscreteAutoencoder
from rpmodels.paper.baselines.contrastive import PairEmbedding
from rpmodels.paper.baselines.recognisers import TiedRecogniser
from rpmodels.paper.experiments.experiment import Outcome, Row

AUTOENCODERS: Mapping[str, type[DiscreteAutoencoder]] = {
    "VQ-VAE": VQVAE,
    "GS-VAE": GumbelVAE,
    "GS-soft-VQ-VAE": GumbelVQVAE,
}
EMBEDDINGS: Mapping[str, type[PairEmbedding]] = {"InfoNCE": InfoNCE, "DCCA": DeepCCA}
PEER = "target=peer"
PAPER = {"RPM": "0.87 ± 0.09", "VQ-VAE": "0.26 ± 0.25", "GS-VAE": "0.46 ± 0.06", "GS-soft-VQ-VAE": "0.77 ± 0.04"}
"""Table 1: accuracy."""
ROWS = (
    *(Row(model) for model in AUTOENCODERS),
    *(Row(model, condition=PEER) for model in AUTOENCODERS),
    *(Row(model) for model in EMBEDDINGS),
    Row("k-means"),
)
RATES = {
    "supervised": 1e-2,
    "VQ-VAE": 1e-3,
    "GS-VAE": 3e-3,
    "GS-soft-VQ-VAE": 3e-3,
    f"VQ-VAE-{PEER}": 1e-3,
    f"GS-VAE-{PEER}": 3e-3,
    f"GS-soft-VQ-VAE-{PEER}": 3e-3,
    "InfoNCE": 3e-3,
    "DCCA": 3e-3,
}
"""Learning rates of the rows beside the RPM, whose rate is its default: benchmarks/learning_rates.py."""


@dataclass(frozen=True)
class PeerData:
    """Pairs of one seed, their labels (for the ceiling alone), and the images that fits are judged by."""

    pairs: Mapping[str, NDArray[Any]]
    labels: NDArray[np.int64]
    images: Images


@dataclass(frozen=True)
class Budget:
    """What every row of the table has in common, K, starts and steps; and the rate, which is found for every row."""

    n_states: int
    n_init: int
    max_iter: int
    learning_rate: float


def run_baseline(row: Row, data: PeerData, budget: Budget, seed: int) -> Outcome:
    """One fit."""
    if row.model == "k-means":
        return _k_means(data, budget, seed)
    model = baseline(row, budget, seed).fit(data.pairs)
    found = _fitted(model, data.images, budget.n_states)
    if not isinstance(model, DiscreteAutoencoder):
        return found
    # Against the image itself, whatever it was trained to generate: test images have no peers.
    error = np.square(model.reconstruct(data.images.test_images) - _pixels(data.images.test_images)).mean()
    return Outcome({**found.metrics, "mse": float(error)}, found.extras)


def baseline(row: Row, budget: Budget, seed: int) -> TiedRecogniser:
    """The model of a row, to be fitted to pairs."""
    kind: Any = {**AUTOENCODERS, **EMBEDDINGS}[row.model]
    target = {"target": "peer" if row.condition == PEER else "same"} if row.model in AUTOENCODERS else {}
    model: TiedRecogniser = kind(
        budget.n_states,
        n_init=budget.n_init,
        max_iter=budget.max_iter,
        learning_rate=budget.learning_rate,
        random_state=seed,
        **target,
    )
    return model


def judged(images: Images, train: NDArray[Any], test: NDArray[Any], n_states: int) -> Outcome:
    """Probabilities (n, K) of single training and test images against their labels; states matched on training."""
    states, unseen = train.argmax(1), test.argmax(1)
    matching = metrics.match_states(images.train_labels, states, n_states)
    return Outcome(
        metrics={
            "accuracy": float((matching[unseen] == images.test_labels).mean()),
            "accuracy_train": float((matching[states] == images.train_labels).mean()),
            "entropy": metrics.entropy_of_average(test),
        },
        extras={
            "entropy_train": metrics.entropy_of_average(train),
            "confusion": metrics.confusion(images.test_labels, matching[unseen], n_states).tolist(),
        },
    )


def thinned(history: Mapping[str, NDArray[Any]]) -> dict[str, list[float]]:
    """Every tenth step, for the figure."""
    return {name: [round(float(v), 5) for v in values[::10]] for name, values in history.items()}


def _fitted(model: Any, images: Images, n_states: int) -> Outcome:
    train, test = (model.predict_proba(each) for each in (images.train_images, images.test_images))
    found = judged(images, train, test, n_states)
    restarts = [{"kind": each.kind, "free_energies": each.free_energies} for each in model.restarts_]
    return Outcome(found.metrics, {**found.extras, "history": thinned(model.history_), "restarts": restarts})


def _k_means(data: PeerData, budget: Budget, seed: int) -> Outcome:
    """Pixels, no network: the bound of every model with K codes, as evidence."""
    rows = _pixels(np.concatenate(list(data.pairs.values())))
    found = KMeans(budget.n_states, n_init=budget.n_init, random_state=seed).fit(rows.reshape(len(rows), -1))
    train, test = (_pixels(x).reshape(len(x), -1) for x in (data.images.train_images, data.images.test_images))
    chosen = found.predict(test)
    sure = np.eye(budget.n_states)  # no probabilities: each image belongs to its cluster
    outcome = judged(data.images, sure[found.predict(train)], sure[chosen], budget.n_states)
    error = np.square(found.cluster_centers_[chosen] - test).mean()
    return Outcome({**outcome.metrics, "mse": float(error)}, outcome.extras)


def _pixels(images: NDArray[Any]) -> NDArray[np.float32]:
    """In [0, 1]."""
    return np.asarray(images, np.float32) / np.float32(255.0 if images.dtype == np.uint8 else 1.0)
