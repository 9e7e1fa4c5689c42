"""Where a run starts: random weights, or weights taught to agree with k-means."""

from abc import ABC, abstractmethod
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA

from rpmodels.families import FiniteSupport
from rpmodels.learning.batches import Minibatches
from rpmodels.learning.seeding import seeded
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.recognition import RecognitionFactor, reinitialise


class Start(ABC):
    """Brings a prepared model to where training begins."""

    name: str

    @abstractmethod
    def __call__(self, model: RPM, observations: Observations, seed: int) -> None:
        """Change the model's weights in place."""


class AsGiven(Start):
    """The weights the networks came with."""

    name = "as given"

    def __call__(self, model: RPM, observations: Observations, seed: int) -> None:
        """Nothing to do."""


class RandomStart(Start):
    """Fresh weights."""

    name = "random"

    def __call__(self, model: RPM, observations: Observations, seed: int) -> None:
        """Draw the networks anew."""
        with seeded(seed):
            reinitialise(model.recognition)


class KMeansStart(Start):
    """Fresh weights, then a short supervised lesson: every factor learns the k-means cluster of its observation.

    Factors that share one network are averaged before clustering (the sum of their squared distances to
    a common centre is that of their mean); others are put side by side.
    """

    name = "k-means"

    def __init__(self, steps: int = 100, components: int = 50, learning_rate: float = 1e-3) -> None:
        self.steps = steps
        self.components = components
        self.learning_rate = learning_rate

    def __call__(self, model: RPM, observations: Observations, seed: int) -> None:
        """Cluster, then teach."""
        family = cast(FiniteSupport, model.prior.family)
        with seeded(seed):
            reinitialise(model.recognition)
        features = _features(model, observations)
        if min(features.shape) > self.components:
            features = PCA(self.components, svd_solver="randomized", random_state=seed % 2**32).fit_transform(features)
        clusters = KMeans(family.n_states, n_init=3, random_state=seed % 2**32).fit_predict(features)
        self._teach(model, observations, clusters.reshape(observations.exists.shape), seed)

    def _teach(self, model: RPM, observations: Observations, clusters: NDArray[Any], seed: int) -> None:
        family = model.prior.family
        optimiser = torch.optim.Adam(model.recognition.parameters(), self.learning_rate)
        batches = Minibatches(len(observations), 500, seed)
        model.train()
        for _ in range(self.steps):
            index = batches.next()
            batch = observations.batch(index, model.dtype, model.device)
            target = torch.as_tensor(clusters[index][:, : batch.sites.exists.shape[1]], device=model.device)
            loss = torch.zeros((), dtype=model.dtype, device=model.device)
            with seeded(batches.step_seed()):
                for factor in model.recognise(batch).values():
                    log_f = cast(FiniteSupport, family).log_probabilities(model.reference(batch.sites) + factor.g)
                    picked = log_f.gather(-1, target[..., None].long())[..., 0]
                    loss = loss - factor.masked(picked).sum() / factor.present.sum().clamp_min(1)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()


def _features(model: RPM, observations: Observations) -> NDArray[Any]:
    """Scaled inputs per site, (N·T, D): tied factors averaged, others side by side, absent ones zero."""
    tied: dict[int, list[tuple[str, RecognitionFactor]]] = {}
    for name, recogniser in zip(model.names, model.recognition, strict=True):
        each = cast(RecognitionFactor, recogniser)
        if not observations.specs[name].is_label:
            tied.setdefault(id(each.network), []).append((name, each))
    if not tied:  # labels only: one-hot
        return np.concatenate([_one_hot(observations, name) for name in model.names], 1)
    columns = []
    for group in tied.values():
        total = np.zeros(1)
        count = np.zeros((observations.exists.size, 1))
        for name, recogniser in group:
            values = observations.values[name]
            rows = torch.as_tensor(values.reshape(-1, *values.shape[2:]), device=model.device)
            have = observations.present[name].reshape(-1, 1)
            with torch.no_grad():
                scaled = recogniser.scaling(rows, model.dtype).flatten(1).cpu().numpy()
            total = total + scaled * have
            count += have
        columns.append(total / np.maximum(count, 1))
    return np.concatenate(columns, 1)


def _one_hot(observations: Observations, name: str) -> NDArray[Any]:
    codes = observations.values[name].reshape(-1)
    table = np.eye(len(observations.specs[name].vocabulary or ()))[codes]
    return np.asarray(table * observations.present[name].reshape(-1, 1))
