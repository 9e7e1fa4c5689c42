"""What a Kalman smoother's marginals are as natural and mean parameters, whatever the law of the chain is."""

from abc import ABC, abstractmethod
from functools import cached_property

from jaxtyping import Float
from torch import Tensor

from rpmodels.families import Gaussian
from rpmodels.linalg.block_tridiagonal import Smoothed
from rpmodels.priors.prior import Posterior


class SmoothedPosterior(Posterior, ABC):
    """Marginals of every site; numbers are rounded to the precision of the potentials last."""

    family: Gaussian
    potentials: Float[Tensor, "N T D"]

    @property
    @abstractmethod
    def of_latents(self) -> Smoothed:
        """q(Z), time first, in double precision."""

    def _rounded(self, values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return values.to(self.potentials.dtype)

    @property
    def latent_mean(self) -> Float[Tensor, "N T K"]:
        """m of every site."""
        return self._rounded(self.of_latents.mean.transpose(0, 1))

    @cached_property
    def _moments(self) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "..."]]:
        """Mean, and covariance in the family's form."""
        spread = self.family.spread(self.of_latents.covariance.transpose(0, 1)[:, :, None])
        return self.of_latents.mean.transpose(0, 1), spread

    @cached_property
    def _mu(self) -> Float[Tensor, "N T D"]:
        return self.family.mean_parameter(*self._moments)

    @cached_property
    def eta(self) -> Float[Tensor, "N T D"]:
        """η_q of every site's latents."""
        return self._rounded(self.family.natural(*self._moments))

    @cached_property
    def mu(self) -> Float[Tensor, "N T D"]:
        """μ_q of every site's latents."""
        return self._rounded(self._mu)
