"""The posterior of linear dynamics, as the free energy and the user read it."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels.carriers import Sites
from rpmodels.families import Gaussian
from rpmodels.linalg.block_tridiagonal import Smoothed, drawn
from rpmodels.priors.kalman import noise_like
from rpmodels.priors.smoothed_posterior import SmoothedPosterior


@dataclass(frozen=True)
class LinearDynamicsPosterior(SmoothedPosterior):
    """q(Z) of linear dynamics: marginals, covariances of neighbours, KL, joint draws."""

    family: Gaussian
    potentials: Float[Tensor, "N T D"]
    """Zero at sites that do not exist, where the marginals are forecasts."""
    smoothed: Smoothed
    """Time first; in double precision, as is `log_z`."""
    log_z: Float[Tensor, "N"]
    sites: Sites

    @property
    def of_latents(self) -> Smoothed:
        """As it came."""
        return self.smoothed

    @property
    def covariance(self) -> Float[Tensor, "N T K K"]:
        """S of every site."""
        return self._rounded(self.smoothed.covariance.transpose(0, 1))

    @property
    def pairwise(self) -> Float[Tensor, "N S K K"]:
        """Cov(z_{t+1}, z_t), of the S = T − 1 steps."""
        return self._rounded(self.smoothed.pairwise.transpose(0, 1))

    @property
    def log_partition(self) -> Float[Tensor, "N"]:
        """log ∫ p(Z) exp(Σ potentials·t): with the exact potentials, log W (eq 4)."""
        return self._rounded(self.log_z)

    @cached_property
    def kl(self) -> Float[Tensor, "N"]:
        """Σ_t potentials·μ_q − log_partition."""
        return self._rounded((self.potentials * self._mu).sum((1, 2)) - self.log_z)

    def draw(self, generator: torch.Generator) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "N"]]:
        """Jointly over the sites of every trial; log p/q = log_partition − Σ_t potentials·t(z_t)."""
        z = drawn(self.smoothed, noise_like(self.smoothed.mean, generator)).transpose(0, 1)
        said = self.potentials * self.family.statistic(z)
        return self._rounded(z), self._rounded(self.log_z - said.sum((1, 2)))
