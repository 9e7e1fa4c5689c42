"""One Gaussian latent per site (RP-FA): z ~ N(0, I), or learned. Conditioning adds precisions."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Sites
from rpmodels.families import Family, Gaussian
from rpmodels.priors.prior import HasCovariance, HasLogDensity, IndependentSites, Posterior


class GaussianPrior(HasLogDensity[Gaussian], HasCovariance[Gaussian]):
    """Sites independent, each N(0, I); `learned` makes mean and (co)variance parameters.

    Learned, it is one of many equivalent models (any linear map of the latents gives another), so it serves
    those who give some of the factors a meaning of their own, by a frozen network or absolute factors.
    """

    def __init__(self, family: Family, learned: bool = False) -> None:
        super().__init__()
        if not isinstance(family, Gaussian):
            raise errors.not_gaussian("GaussianPrior", type(family).__name__)
        self._family = family
        size = family.latents
        blocks = torch.eye(size // family.groups, dtype=torch.float64).expand(family.groups, -1, -1)
        raw = family.to_raw(family.natural(torch.zeros(size, dtype=torch.float64), family.spread(blocks)))
        self.raw = nn.Parameter(raw, requires_grad=learned)

    @property
    def family(self) -> Gaussian:
        """Diagonal or full Gaussian."""
        return self._family

    @property
    def learned(self) -> bool:
        """Whether mean and (co)variance are parameters."""
        return self.raw.requires_grad

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """The same for all sites."""
        return self.family.to_valid(self.raw)[None]

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> Posterior:
        """Natural parameters add."""
        eta = self.family.to_valid(self.raw)[None]
        return IndependentSites(self.family, eta, self.family.log_normaliser(eta), potentials, sites)

    @property
    def couples_sites(self) -> bool:
        """Sites are independent."""
        return False

    def sample(self, sites: Sites, generator: torch.Generator) -> Float[Tensor, "N T K"]:
        """Independent draws."""
        eta = self.family.to_valid(self.raw).expand(*sites.exists.shape, -1)
        return self.family.sample(eta, generator)

    def log_density(self, z: Float[Tensor, "*draws N T K"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """Σ_t log N(z_t)."""
        each = self.family.log_density(self.family.to_valid(self.raw), self.family.statistic(z))
        return torch.where(sites.exists, each, 0.0).sum(-1)

    def covariances(self, times: Float[Tensor, "T"], kept: Int[Tensor, "S"]) -> Float[Tensor, "S S K K"]:
        """None between sites."""
        each = self.family.covariance(self.family.to_valid(self.raw))
        return torch.eye(len(kept)).to(each)[:, :, None, None] * each

    def parameter_kl(self) -> Float[Tensor, ""]:
        """Point estimates."""
        return self.raw.new_zeros(())
