"""Categorical over K states: t(z) one-hot, η the unnormalised log-probabilities."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from rpmodels.families.family import FiniteSupport, HasStatisticCovariance, Samplable


@dataclass(frozen=True)
class Categorical(FiniteSupport, Samplable, HasStatisticCovariance):
    """K states. The parametrisation is not minimal: adding a constant to η changes nothing but Φ."""

    states: int

    @property
    def n_states(self) -> int:
        """K."""
        return self.states

    @property
    def natural_size(self) -> int:
        """K."""
        return self.states

    @property
    def raw_size(self) -> int:
        """K."""
        return self.states

    def log_normaliser(self, eta: Float[Tensor, "*b K"]) -> Float[Tensor, "*b"]:
        """Φ(η) = log Σ_k exp η_k."""
        return torch.logsumexp(eta, -1)

    def mean(self, eta: Float[Tensor, "*b K"]) -> Float[Tensor, "*b K"]:
        """The probabilities."""
        return torch.softmax(eta, -1)

    def statistic(self, z: Int[Tensor, "*b"]) -> Float[Tensor, "*b K"]:
        """One-hot."""
        return torch.nn.functional.one_hot(z, self.states).to(torch.get_default_dtype())

    def to_valid(self, raw: Float[Tensor, "*b K"]) -> Float[Tensor, "*b K"]:
        """Every vector is valid."""
        return raw

    def to_potential(self, raw: Float[Tensor, "*b K"]) -> Float[Tensor, "*b K"]:
        """Every vector is a potential."""
        return raw

    def values(self) -> Int[Tensor, "K"]:
        """0, …, K − 1."""
        return torch.arange(self.states)

    def log_probabilities(self, eta: Float[Tensor, "*b K"]) -> Float[Tensor, "*b K"]:
        """log softmax η."""
        return torch.log_softmax(eta, -1)

    def potential(self, values: Float[Tensor, "*b K"]) -> Float[Tensor, "*b K"]:
        """The one-hot statistic picks the value itself."""
        return values

    def sample(self, eta: Float[Tensor, "*b K"], generator: torch.Generator) -> Shaped[Tensor, "*b"]:
        """A state for every leading index."""
        flat = self.mean(eta).reshape(-1, self.states)
        return torch.multinomial(flat, 1, generator=generator).reshape(eta.shape[:-1])

    def basis(self) -> Float[Tensor, "P D"]:
        """All states but the last: a constant over the states is no potential."""
        return torch.eye(self.states)[:-1]

    def covariance_root(self, eta_q: Float[Tensor, "*b K"], g: Float[Tensor, "*c K"]) -> Float[Tensor, "..."]:
        """V_q = diag(π) − ππᵀ, so u = √π (g − π·g)."""
        probabilities = self.mean(eta_q)
        return probabilities.sqrt() * (g - (probabilities * g).sum(-1, keepdim=True))
