"""A discrete latent above Gaussian ones: z comes from one of C normals. Exact, by the sum over the components.

p(z) = Σ_c π_c N(z; m_c, S_c). Potentials that are added to every component reweigh it by what it gains, Φ(η_c + g) −
Φ(η_c); q(z, c) is a mixture again, and its log-partition log W (eq 4).
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rpmodels import checks, errors, linalg
from rpmodels.carriers import SiteMarginal, Sites, Targets
from rpmodels.families import Family, Gaussian
from rpmodels.priors.prior import HasLogDensity, Posterior

BETWEEN = 0.75
"""Share of a variance of one that lies between the components where they begin."""


class GaussianMixturePrior(HasLogDensity[Gaussian]):
    """Sites independent, each from one of C normals; weights, means and (co)variances learned by gradient.

    Factors are relative to the normal with the mean and (co)variance of all components.
    """

    def __init__(self, family: Family, n_components: int) -> None:
        super().__init__()
        if not isinstance(family, Gaussian):
            raise errors.not_gaussian("GaussianMixturePrior", type(family).__name__)
        self._family = family
        self.n_components = checks.integer("n_components", n_components, 2)
        block = family.latents // family.groups
        sd = (1.0 - BETWEEN) ** 0.5
        self.logits = nn.Parameter(torch.zeros(self.n_components))
        self.means = nn.Parameter(BETWEEN**0.5 * torch.randn(self.n_components, family.latents))
        # Below the diagonal L itself, on it log L.
        self.roots = nn.Parameter(
            (torch.eye(block) * torch.tensor(sd).log()).repeat(self.n_components, family.groups, 1, 1)
        )

    @property
    def family(self) -> Gaussian:
        """Diagonal or full Gaussian."""
        return self._family

    # ---- the components ---------------------------------------------------------------------

    def log_weights(self) -> Float[Tensor, "C"]:
        """log π."""
        return torch.log_softmax(self.logits, -1)

    def _blocks(self) -> Float[Tensor, "C G B B"]:
        """S_c of every group of latents."""
        root = torch.tril(self.roots, -1) + torch.diag_embed(self.roots.diagonal(dim1=-2, dim2=-1).exp())
        return root @ root.mT

    def members(self) -> Float[Tensor, "C D"]:
        """Natural parameters of the components."""
        return self.family.natural(self.means, self.family.spread(self._blocks()))

    def covariances(self) -> Float[Tensor, "C K K"]:
        """S_c as matrices."""
        return self.family.covariance(self.members())

    @torch.no_grad()
    def restart(
        self, weights: Float[Tensor, "C"], means: Float[Tensor, "C K"], covariances: Float[Tensor, "C K K"]
    ) -> None:
        """Learn anew from these components on; covariances between independent groups are left out."""
        groups, size = self.family.groups, self.family.latents // self.family.groups
        whole = covariances.reshape(self.n_components, groups, size, groups, size)
        blocks = whole.diagonal(dim1=1, dim2=3).permute(0, 3, 1, 2)
        root = linalg.cholesky(blocks, "the covariances of the components")
        self.logits.copy_(weights.log())
        self.means.copy_(means)
        self.roots.copy_(torch.tril(root, -1) + torch.diag_embed(root.diagonal(dim1=-2, dim2=-1).log()))

    # ---- the contract -----------------------------------------------------------------------

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """The normal with the moments of the mixture."""
        weights = self.log_weights().exp()
        mean = weights @ self.means
        return mixed(self.family, weights, self.means, self.family.spread(self._blocks()), mean)[None]

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> "GaussianMixturePosterior":
        """Every component absorbs the potentials, and is weighed anew."""
        return GaussianMixturePosterior(self.family, self.log_weights(), self.members(), potentials, sites)

    @property
    def couples_sites(self) -> bool:
        """Sites are independent."""
        return False

    def sample(self, sites: Sites, generator: torch.Generator) -> Float[Tensor, "N T K"]:
        """A component for every site, then a draw from it."""
        weights = self.log_weights().exp().detach()
        chosen = torch.multinomial(weights, sites.exists.numel(), True, generator=generator)
        return self.family.sample(self.members()[chosen.reshape(sites.exists.shape)], generator)

    def log_density(self, z: Float[Tensor, "*draws N T K"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """Σ_t log Σ_c π_c N(z_t; m_c, S_c)."""
        each = self.family.log_density(self.members(), self.family.statistic(z)[..., None, :])
        total = torch.logsumexp(each + self.log_weights(), -1)
        return torch.where(sites.exists, total, 0.0).sum(-1)

    def parameter_kl(self) -> Float[Tensor, ""]:
        """Point estimates."""
        return self.logits.new_zeros(())


@dataclass(frozen=True)
class GaussianMixturePosterior(Posterior):
    """q(z, c) of every site of a batch."""

    family: Gaussian
    log_weights: Float[Tensor, "C"]
    before: Float[Tensor, "C D"]
    potentials: Float[Tensor, "N T D"]
    sites: Sites

    @cached_property
    def components(self) -> Float[Tensor, "N T C D"]:
        """Natural parameters of q(z | c)."""
        return self.before + self.potentials[..., None, :]

    @cached_property
    def log_joint(self) -> Float[Tensor, "N T C"]:
        """log π_c and what the component gains."""
        gained = self.family.log_normaliser(self.components) - self.family.log_normaliser(self.before)
        return self.log_weights + gained

    @cached_property
    def shares(self) -> Float[Tensor, "N T C"]:
        """q(c)."""
        return torch.softmax(self.log_joint, -1)

    def _summed(self, values: Float[Tensor, "N T"]) -> Float[Tensor, "N"]:
        return torch.where(self.sites.exists, values, 0.0).sum(-1)

    @cached_property
    def log_partition(self) -> Float[Tensor, "N"]:
        """log ∫ p(Z) exp(Σ potentials·t): with the exact potentials, log W (eq 4)."""
        return self._summed(torch.logsumexp(self.log_joint, -1))

    @cached_property
    def eta(self) -> Float[Tensor, "N T D"]:
        """The normal with the mean and (co)variance of q."""
        means, spreads = self.family.moments(self.components)
        mean = (self.shares[..., None] * means).sum(-2)
        return mixed(self.family, self.shares, means, spreads, mean)

    @cached_property
    def mu(self) -> Float[Tensor, "N T D"]:
        """⟨t(z)⟩, exactly."""
        return (self.shares[..., None] * self.family.mean(self.components)).sum(-2)

    @cached_property
    def kl(self) -> Float[Tensor, "N"]:
        """Σ_t potentials·μ_q − log partition: that of z and c together, which is that of z."""
        return self._summed((self.potentials * self.mu).sum(-1)) - self.log_partition

    def members(self, targets: Targets) -> list[tuple[Float[Tensor, "N T"], SiteMarginal]]:
        """Component after component."""
        return [(self.shares[..., c], self._member(c, targets)) for c in range(len(self.before))]

    def _member(self, c: int, targets: Targets) -> SiteMarginal:
        eta = self.components[..., c, :]
        return SiteMarginal(lambda: targets.natural(eta), lambda: targets.mean(self.family.mean(eta)))

    def most_probable(self) -> Int[Tensor, "N T"]:
        """Components."""
        return self.log_joint.argmax(-1)

    def draw(self, generator: torch.Generator) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "N"]]:
        """A component, then z from it; log p/q = log partition − potentials·t(z)."""
        chosen = torch.multinomial(self.shares.flatten(0, -2), 1, generator=generator)
        member = self.components.take_along_dim(chosen.view(*self.shares.shape[:-1], 1, 1), -2)[..., 0, :]
        z = self.family.sample(member, generator)
        t = self.family.statistic(z).to(self.potentials.dtype)
        return z, self.log_partition - self._summed((self.potentials * t).sum(-1))


def mixed(
    family: Gaussian,
    weights: Float[Tensor, "*b C"],
    means: Float[Tensor, "*b C K"],
    spreads: Float[Tensor, "..."],
    mean: Float[Tensor, "*b K"],
) -> Float[Tensor, "*b D"]:
    """The normal with this mean and the (co)variance within and between components."""
    apart = (means - mean[..., None, :]).reshape(*means.shape[:-1], family.groups, -1)
    whole = spreads + family.spread(apart[..., :, None] * apart[..., None, :])
    shares = weights.reshape(*weights.shape, *[1] * (whole.ndim - weights.ndim))
    return family.natural(mean, (shares * whole).sum(weights.ndim - 1))
