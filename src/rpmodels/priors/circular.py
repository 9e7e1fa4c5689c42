"""One angle per site: uniform on the circle, or von Mises with a learned mean direction and concentration."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rpmodels.carriers import Sites
from rpmodels.families import VonMises
from rpmodels.priors.prior import HasLogDensity, IndependentSites, Posterior


class CircularPrior(HasLogDensity[VonMises]):
    """Sites independent, each uniform; `learned` makes mean direction and concentration parameters.

    A uniform prior has no place to begin and no way round, so angles are found up to a rotation and a reflection.
    """

    def __init__(self, learned: bool = False) -> None:
        super().__init__()
        self.eta = nn.Parameter(torch.zeros(2), requires_grad=learned)

    @property
    def family(self) -> VonMises:
        """Von Mises."""
        return VonMises()

    @property
    def learned(self) -> bool:
        """Whether direction and concentration are parameters."""
        return self.eta.requires_grad

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """The same for all sites."""
        return self.eta[None]

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> Posterior:
        """Natural parameters add."""
        eta = self.eta[None]
        return IndependentSites(self.family, eta, self.family.log_normaliser(eta), potentials, sites)

    @property
    def couples_sites(self) -> bool:
        """Sites are independent."""
        return False

    def sample(self, sites: Sites, generator: torch.Generator) -> Float[Tensor, "N T"]:
        """Independent draws."""
        return self.family.sample(self.eta.detach().expand(*sites.exists.shape, -1), generator)

    def log_density(self, z: Float[Tensor, "*draws N T"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """Σ_t log p(z_t)."""
        each = self.family.log_density(self.eta, self.family.statistic(z))
        return torch.where(sites.exists, each, 0.0).sum(-1)

    def parameter_kl(self) -> Float[Tensor, ""]:
        """Point estimates."""
        return self.eta.new_zeros(())
