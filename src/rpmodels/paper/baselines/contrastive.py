"""Two views compared without a decoder: InfoNCE and deep CCA on pairs of images; states by k-means on the embeddings.

Both learn a continuous embedding. That there are K states is told to k-means only, after the training.

Temperature and learning rates were chosen by training criteria alone, on MNIST pairs of seeds ≥ 1000:
benchmarks/learning_rates.py, docs/results/learning-rates-peer.json and peer-supervision/rates.json there.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Batch
from rpmodels.checks import Integer, Number
from rpmodels.estimators.arguments import argument
from rpmodels.observations import Observations, Scaling
from rpmodels.paper.baselines.pair_criteria import CanonicalCorrelations, NoiseContrast, PairCriterion
from rpmodels.paper.baselines.quantisers import squared_distances
from rpmodels.paper.baselines.recognisers import TiedRecogniser, in_parts
from rpmodels.paper.baselines.trained import BaselineModel

K_MEANS_STARTS = 10


class PairModel(BaselineModel):
    """A recognition network under a criterion of pairs; with more than two factors, of every pair of factors."""

    def __init__(self, network: nn.Module, criterion: PairCriterion, scaling: Scaling) -> None:
        super().__init__(network)
        self.criterion, self.scaling = criterion, scaling

    def terms(self, batch: Batch, n_observations: float) -> Mapping[str, Tensor]:
        """The criterion, averaged over pairs of factors."""
        found = [self.criterion(left, right) for left, right in self._pairs(batch)]
        return {"free_energy": torch.stack(found).mean()}

    def _pairs(self, batch: Batch) -> Iterator[tuple[Tensor, Tensor]]:
        """The network's output for every two factors, where both are there; each image goes through it once."""
        raw = {name: self.recognise(inputs[:, 0]) for name, inputs in batch.inputs.items()}
        for one, other in combinations(raw, 2):
            both = batch.present[one][:, 0] & batch.present[other][:, 0]
            if bool(both.any()):
                yield raw[one][both], raw[other][both]

    def recognise(self, images: Shaped[Tensor, "n *event"]) -> Float[Tensor, "n C"]:
        """The network's output for images as the user has them."""
        raw: Tensor = self.recognition(self.scaling(images, self.dtype))
        return raw

    def after_step(self) -> None:
        """Nothing."""

    @torch.no_grad()
    def collect(self, observations: Observations) -> None:
        """The criterion's own, from all pairs of all factors."""
        self.eval()
        parts = np.array_split(np.arange(len(observations)), max(1, len(observations) // 1024))
        batches = [observations.batch(part, self.dtype, self.device) for part in parts]
        left, right = zip(*(pair for batch in batches for pair in self._pairs(batch)), strict=True)
        self.criterion.collect(torch.cat(left), torch.cat(right))


class Centres:
    """What a fit leaves beside the model."""

    centres_: NDArray[Any]


class PairEmbedding(Centres, TiedRecogniser, ABC):
    """What the two have in common; their criterion is their own."""

    n_embedding: int = argument(Integer(1), "width of the embedding", default=64)

    @abstractmethod
    def _criterion(self) -> PairCriterion:
        """From the arguments."""

    @abstractmethod
    def _scale(self) -> float:
        """Of squared distances to centres, in probabilities."""

    def _least_factors(self) -> int:
        return 2

    def _width(self) -> int:
        return self.n_embedding

    def _build(self, network: nn.Module, scaling: Scaling, images: NDArray[Any]) -> PairModel:
        return PairModel(network, self._criterion(), scaling)

    def _finish(self, images: NDArray[Any], seed: int) -> None:
        found = KMeans(self.n_states, n_init=K_MEANS_STARTS, random_state=seed % 2**31).fit(self.transform(images))
        self.centres_ = found.cluster_centers_

    @torch.no_grad()
    def transform(self, images: Any) -> NDArray[Any]:
        """Embeddings, (n, n_embedding)."""
        parts = in_parts(self._read(images))
        model = self.model_.eval()
        return np.asarray(torch.cat([model.criterion.embed(model.recognise(part)) for part in parts]).numpy())

    def predict_proba(self, images: Any) -> NDArray[Any]:
        """Softmax of minus the squared distances to the centres: a choice, as k-means has no probabilities."""
        embedded, centres = torch.as_tensor(self.transform(images)), torch.as_tensor(self.centres_)
        return np.asarray(torch.softmax(-squared_distances(embedded, centres) / self._scale(), -1).numpy())

    def predict(self, images: Any) -> NDArray[np.int64]:
        """The nearest centre."""
        return np.asarray(self.predict_proba(images).argmax(1))


class InfoNCE(PairEmbedding):
    """Contrastive embedding of pairs, then k-means.

    Attributes:
        model_: the trained modules
        centres_: of k-means on the normalised embeddings of all training images
        history_: the criterion, one row a step
        restarts_: what became of every start
        n_iter_: steps taken

    """

    temperature: float = argument(Number(above=0.0), "of the cosine similarities", default=0.1)

    def _criterion(self) -> PairCriterion:
        return NoiseContrast(self.temperature)

    def _scale(self) -> float:
        # On the sphere −‖u − v‖²/2τ is the similarity of the criterion but for a constant.
        return 2.0 * float(self.temperature)


class DeepCCA(PairEmbedding):
    """Deep canonical correlation analysis of pairs, then k-means.

    Attributes:
        model_: the trained modules
        correlations_: canonical correlations over all training pairs
        centres_: of k-means on the embeddings of all training images
        history_: the criterion, one row a step
        restarts_: what became of every start
        n_iter_: steps taken

    """

    n_embedding = 10
    ridge: float = argument(Number(above=0.0), "added to the variances of the network's output", default=1e-3)

    def _criterion(self) -> PairCriterion:
        if self.batch_size is not None and self.batch_size <= self.n_embedding:
            raise errors.bad_value("batch_size", f"more than n_embedding = {self.n_embedding}", self.batch_size)
        return CanonicalCorrelations(self.n_embedding, self.ridge)

    def _scale(self) -> float:
        return 1.0

    @property
    def correlations_(self) -> NDArray[Any]:
        """Canonical correlations over all training pairs, the largest first."""
        if not hasattr(self, "model_"):
            raise errors.not_fitted(type(self).__name__)
        criterion = self.model_.criterion
        assert isinstance(criterion, CanonicalCorrelations)
        return np.asarray(criterion.correlations.numpy())
