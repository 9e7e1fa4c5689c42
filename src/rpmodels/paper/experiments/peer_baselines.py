"""The baselines of peer supervision (table 1), each fitted by its defaults for as many steps as the RPM."""

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


@dataclass(frozen=True)
class PeerData:
    """Pairs of one seed, their labels (for the ceiling alone), and the images that fits are judged by."""

    pairs: Mapping[str, NDArray[Any]]
    labels: NDArray[np.int64]
    images: Images


@dataclass(frozen=True)
class Budget:
    """What every row of the table has in common: K, starts and steps."""

    n_states: int
    n_init: int
    max_iter: int


def run_baseline(row: Row, data: PeerData, budget: Budget, seed: int) -> Outcome:
    """One default fit."""
    if row.model in AUTOENCODERS:
        return _autoencoder(row, data, budget, seed)
    return _embedding(row, data, budget, seed) if row.model in EMBEDDINGS else _k_means(data, budget, seed)


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


def _autoencoder(row: Row, data: PeerData, budget: Budget, seed: int) -> Outcome:
    target = "peer" if row.condition == PEER else "same"
    model = AUTOENCODERS[row.model](
        budget.n_states, target=target, n_init=budget.n_init, max_iter=budget.max_iter, random_state=seed
    )
    found = _fitted(model.fit(data.pairs), data.images, budget.n_states)
    # Against the image itself, whatever it was trained to generate: test images have no peers.
    error = np.square(model.reconstruct(data.images.test_images) - _pixels(data.images.test_images)).mean()
    return Outcome({**found.metrics, "mse": float(error)}, found.extras)


def _embedding(row: Row, data: PeerData, budget: Budget, seed: int) -> Outcome:
    model = EMBEDDINGS[row.model](budget.n_states, n_init=budget.n_init, max_iter=budget.max_iter, random_state=seed)
    return _fitted(model.fit(data.pairs), data.images, budget.n_states)


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
