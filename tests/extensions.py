"""Parts that the library does not have, as somebody else would write them: docs/extending.md shows this file."""

from functools import cached_property

import gpytorch
import torch
from torch import nn

import rpmodels as rp
from rpmodels.families import DiagonalGaussian
from rpmodels.inference import EStep
from rpmodels.inference.e_step import summed_potentials
from rpmodels.priors import HasLogDensity, Posterior


class ClusteredPosterior(Posterior):
    """q(z, c) ∝ p(c) p(z|c) exp(g·t(z)), exactly: every component absorbs the potential, and is weighed anew."""

    def __init__(self, prior, potentials, sites):
        self.family, self.potentials, self.sites = prior.family, potentials, sites
        members = prior.members()
        self.components = members + potentials[..., None, :]  # (N, T, C, D)
        gained = self.family.log_normaliser(self.components) - self.family.log_normaliser(members)
        self.log_joint = prior.log_weights() + gained
        self.log_partition = self._summed(torch.logsumexp(self.log_joint, -1))

    def _summed(self, values):
        return torch.where(self.sites.exists, values, torch.zeros_like(values)).sum(-1)

    @cached_property
    def mu(self):
        shares = torch.softmax(self.log_joint, -1)[..., None]
        return (shares * self.family.mean(self.components)).sum(-2)

    @cached_property
    def eta(self):
        """The normal with the mean and variance of q: what ⟨log F⟩ is computed under."""
        mean, second = self.mu.chunk(2, -1)
        return self.family.natural(mean, second - mean.square())

    @property
    def kl(self):
        return self._summed((self.potentials * self.mu).sum(-1)) - self.log_partition

    def draw(self, generator):
        shares = torch.softmax(self.log_joint, -1)
        chosen = torch.multinomial(shares.flatten(0, 1), 1, generator=generator).view(*shares.shape[:2], 1, 1)
        member = self.components.take_along_dim(chosen, 2)[:, :, 0]
        z = self.family.sample(member, generator)
        return z, self.log_partition - self._summed((self.potentials * self.family.statistic(z)).sum(-1))


class ClusteredPrior(HasLogDensity[DiagonalGaussian]):
    """z ~ Σ_c N(m_c, v)/C, with learned means."""

    couples_sites = False

    def __init__(self, n_components, n_latents=1, sd=0.4):
        super().__init__()
        self.sd = sd
        start = torch.linspace(-1.5, 1.5, n_components)[:, None].repeat(1, n_latents)
        self.means = nn.Parameter(start)

    @property
    def family(self):
        return DiagonalGaussian(self.means.shape[1])

    def members(self):
        return self.family.natural(self.means, torch.full_like(self.means, self.sd**2))

    def log_weights(self):
        return -torch.full_like(self.means[:, 0], len(self.means)).log()

    def reference(self, sites, shared):
        """N(0, I), whatever the means: the reference cancels between f_j and F_j."""
        return self.family.natural(*(each(self.means[:1]) for each in (torch.zeros_like, torch.ones_like)))

    def condition(self, potentials, sites):
        return ClusteredPosterior(self, potentials, sites)

    def sample(self, sites, generator):
        chosen = torch.randint(len(self.means), sites.exists.shape, generator=generator)
        return self.family.sample(self.members().detach()[chosen], generator)

    def log_density(self, z, sites):
        each = self.family.log_density(self.members(), self.family.statistic(z)[..., None, :])
        return torch.where(sites.exists, torch.logsumexp(each + self.log_weights(), -1), 0.0).sum(-1)

    def parameter_kl(self):
        return self.means.new_zeros(())


class RPClusters(rp.RPFA):
    """RPFA whose latents come in clusters."""

    def _prior(self, family, observations):
        return ClusteredPrior(3, self.n_latents)


class Cautious(EStep):
    """The amortised q from potentials that count for less: factors whose errors are alike are not quite independent."""

    def __init__(self, share=0.8):
        self.share = share

    def check(self, prior, mixture, relative):
        pass

    def __call__(self, step, approximation):
        return step.prior.condition(self.share * summed_potentials(step.factors), step.sites)


class Waves(nn.Module):
    """A network: sines of the input, then a linear map."""

    def __init__(self, n_in, n_out, n_waves=8):
        super().__init__()
        self.inner, self.outer = nn.Linear(n_in, n_waves), nn.Linear(n_waves, n_out)

    def forward(self, x):
        return self.outer(torch.sin(self.inner(x)))


class Tent(gpytorch.kernels.Kernel):
    """A kernel: correlation falls in a straight line, and ends."""

    has_lengthscale = True

    def forward(self, x1, x2, diag=False, **params):
        distance = self.covar_dist(x1 / self.lengthscale, x2 / self.lengthscale, diag=diag)
        return (1.0 - distance).clamp_min(0.0)
