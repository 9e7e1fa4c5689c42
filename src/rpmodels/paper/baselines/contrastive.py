"""Two views compared without a decoder: InfoNCE and deep CCA on pairs of images; states by k-means on the embeddings.

Both learn a continuous embedding. That there are K states is told to k-means only, after the training.

Learning rates and temperature were chosen by training criteria alone, on MNIST pairs of seeds ≥ 1000:
benchmarks/learning_rates.py, docs/results/learning-rates-peer.json.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from torch import Tensor, nn

from rpmodels import checks, errors
from rpmodels.carriers import Batch
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


class PairEmbedding(TiedRecogniser, ABC):
    """What the two have in common; their criterion is their own."""

    model_: PairModel
    centres_: NDArray[Any]
    n_embedding: int

    @abstractmethod
    def _criterion(self) -> PairCriterion:
        """From the arguments."""

    @abstractmethod
    def _scale(self) -> float:
        """Of squared distances to centres, in probabilities."""

    def _least_factors(self) -> int:
        return 2

    def _width(self) -> int:
        return checks.integer("n_embedding", self.n_embedding, 1)

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

    Args:
        n_states: K, clusters
        n_embedding: width of the embedding
        temperature: of the cosine similarities
        max_iter, learning_rate, batch_size, n_init, random_state: as in `RPCategorical`; all starts are random
        weight_decay, dropout: of the recognition network; "auto": stronger as data shrink
        callbacks: called after every step of the last run, see `rp.callbacks`

    Attributes:
        model_: the trained modules
        centres_: of k-means on the normalised embeddings of all training images
        history_: the criterion, one row a step
        restarts_: what became of every start
        n_iter_: steps taken

    """

    def __init__(
        self,
        n_states: int = 10,
        *,
        n_embedding: int = 64,
        temperature: float = 0.1,
        max_iter: int = 1000,
        learning_rate: float = 3e-3,
        batch_size: int | None = 500,
        n_init: int = 4,
        random_state: int | None = None,
        weight_decay: float | str = "auto",
        dropout: float | str = "auto",
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self._remember(locals())

    def _criterion(self) -> PairCriterion:
        return NoiseContrast(checks.number("temperature", self.temperature, above=0.0))

    def _scale(self) -> float:
        # On the sphere −‖u − v‖²/2τ is the similarity of the criterion but for a constant.
        return 2.0 * float(self.temperature)


class DeepCCA(PairEmbedding):
    """Deep canonical correlation analysis of pairs, then k-means.

    Args:
        n_states: K, clusters
        n_embedding: canonical variates; K states that the views share are K − 1 of correlation 1
        ridge: added to the variances of the network's output
        max_iter, learning_rate, batch_size, n_init, random_state: as in `RPCategorical`; all starts are random
        weight_decay, dropout: of the recognition network; "auto": stronger as data shrink
        callbacks: called after every step of the last run, see `rp.callbacks`

    Attributes:
        model_: the trained modules
        correlations_: canonical correlations over all training pairs
        centres_: of k-means on the embeddings of all training images
        history_: the criterion, one row a step
        restarts_: what became of every start
        n_iter_: steps taken

    """

    def __init__(
        self,
        n_states: int = 10,
        *,
        n_embedding: int = 10,
        ridge: float = 1e-3,
        max_iter: int = 1000,
        learning_rate: float = 3e-3,
        batch_size: int | None = 500,
        n_init: int = 4,
        random_state: int | None = None,
        weight_decay: float | str = "auto",
        dropout: float | str = "auto",
        callbacks: Sequence[Any] | None = None,
    ) -> None:
        self._remember(locals())

    def _criterion(self) -> PairCriterion:
        if self.batch_size is not None and self.batch_size <= self.n_embedding:
            raise errors.bad_value("batch_size", f"more than n_embedding = {self.n_embedding}", self.batch_size)
        return CanonicalCorrelations(self.n_embedding, checks.number("ridge", self.ridge, above=0.0))

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
