"""What two views of the same things can be trained for without a decoder: noise contrast, canonical correlations."""

import math
from abc import ABC, abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rpmodels import linalg


class PairCriterion(nn.Module, ABC):
    """What two views of the same things are trained for, and the embedding that comes of it."""

    @abstractmethod
    def forward(self, left: Float[Tensor, "n C"], right: Float[Tensor, "n C"]) -> Float[Tensor, ""]:
        """To be maximised: row n of one belongs to row n of the other."""

    @abstractmethod
    def collect(self, left: Float[Tensor, "n C"], right: Float[Tensor, "n C"]) -> None:
        """What the embedding needs to know of all pairs, after the last step."""

    @abstractmethod
    def embed(self, raw: Float[Tensor, "n C"]) -> Float[Tensor, "n C"]:
        """From the network's output to the embedding."""


class NoiseContrast(PairCriterion):
    """InfoNCE (van den Oord et al., 2018): which row of the batch belongs to which, both ways.

    log n less the cross-entropy, a lower bound on the information that the views share, in nats.
    """

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, left: Float[Tensor, "n C"], right: Float[Tensor, "n C"]) -> Float[Tensor, ""]:
        """By cosine similarities."""
        similarities = self.embed(left) @ self.embed(right).T / self.temperature
        own = similarities.diagonal()
        both = 0.5 * (similarities.logsumexp(0) + similarities.logsumexp(1))
        return (own - both).mean() + math.log(len(left))

    def collect(self, left: Float[Tensor, "n C"], right: Float[Tensor, "n C"]) -> None:
        """Nothing."""

    def embed(self, raw: Float[Tensor, "n C"]) -> Float[Tensor, "n C"]:
        """On the unit sphere."""
        return nn.functional.normalize(raw, dim=1)


class CanonicalCorrelations(PairCriterion):
    """Deep CCA (Andrew et al., 2013): the sum of the canonical correlations of the batch.

    It does not change under linear maps of the network's output, so distances there mean nothing. The embedding is
    that of probabilistic CCA (Bach and Jordan, 2005): the canonical variates over all pairs, of unit variance, times
    the square roots of their correlations.
    """

    centre: Tensor
    projection: Tensor
    correlations: Tensor

    def __init__(self, width: int, ridge: float) -> None:
        super().__init__()
        self.ridge = ridge
        self.register_buffer("centre", torch.zeros(width))
        self.register_buffer("projection", torch.eye(width))
        self.register_buffer("correlations", torch.zeros(width))

    def forward(self, left: Float[Tensor, "n C"], right: Float[Tensor, "n C"]) -> Float[Tensor, ""]:
        """Singular values of L₁⁻¹ S₁₂ L₂⁻ᵀ, summed."""
        a, b = left - left.mean(0), right - right.mean(0)
        across = a.T @ b / len(a)
        whitened = self._whitened(self._root(a.T @ a / len(a)), across, self._root(b.T @ b / len(b)))
        total: Tensor = torch.linalg.svdvals(whitened).sum()
        return total

    def collect(self, left: Float[Tensor, "n C"], right: Float[Tensor, "n C"]) -> None:
        """One network for both views: one mean and one covariance, and a cross-covariance that is symmetric."""
        every = torch.cat([left, right])
        self.centre.copy_(every.mean(0))
        a, b = left - self.centre, right - self.centre
        root = self._root((a.T @ a + b.T @ b) / len(every))
        whitened = self._whitened(root, (a.T @ b + b.T @ a) / len(every), root)
        values, vectors = linalg.spectrum(0.5 * (whitened + whitened.mT))
        self.correlations.copy_(values.flip(0).clamp(0.0, 1.0))
        variates = torch.linalg.solve_triangular(root.mT, vectors.flip(1), upper=True)
        self.projection.copy_(variates * self.correlations.sqrt())

    def embed(self, raw: Float[Tensor, "n C"]) -> Float[Tensor, "n C"]:
        """Canonical variates, the most correlated first."""
        return (raw - self.centre) @ self.projection

    def _root(self, covariance: Float[Tensor, "C C"]) -> Float[Tensor, "C C"]:
        return linalg.cholesky(covariance + self.ridge * torch.eye(len(covariance)), "a covariance of deep CCA")

    @staticmethod
    def _whitened(
        left: Float[Tensor, "C C"], across: Float[Tensor, "C C"], right: Float[Tensor, "C C"]
    ) -> Float[Tensor, "C C"]:
        half: Tensor = torch.linalg.solve_triangular(left, across, upper=False)
        whole: Tensor = torch.linalg.solve_triangular(right, half.mT, upper=False).mT
        return whole
