"""K independent Gaussian processes as a chain of states: O(T), no inducing points.

A Matérn process and its ν − ½ derivatives are Markov, so that potentials at T sites are absorbed by one pass there and
one back, whatever the clock; so are sums and products of such (`state_space`). The numbers are those of
`GaussianProcessPrior` with an inducing point at every time, without the jitter. Squared-exponential and periodic
kernels are approximated, and `approach` says how well. All is computed in double precision and rounded.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float, Int
from torch import Tensor

from rpmodels import checks, errors
from rpmodels.carriers import Doubles, Sites
from rpmodels.families import Family, Gaussian
from rpmodels.priors import derivatives, state_space
from rpmodels.priors.all_pole import POLES
from rpmodels.priors.conditioned_chain import ConditionedChain, LatentMoments
from rpmodels.priors.driving import wide
from rpmodels.priors.filters import HasFilter, said
from rpmodels.priors.gaussian_chain import GaussianChain, InTime
from rpmodels.priors.inducing import by_groups
from rpmodels.priors.kalman import LatentState, updated
from rpmodels.priors.matern import Steps
from rpmodels.priors.prior import HasCovariance, HasLogDensity, Posterior, Predicts
from rpmodels.priors.process import ProcessPrior
from rpmodels.priors.process_filter import ProcessFilter


class MarkovianProcessPrior(ProcessPrior, HasLogDensity[Gaussian], HasCovariance[Gaussian], HasFilter[Gaussian]):
    """z_k ~ GP(0, κ_k), k = 1 … K.

    Args:
        family: of one site: diagonal (independent latents) or full (coupled a posteriori)
        kernel: a GPyTorch kernel over one input dimension, of batch shape () for all latents or (K,): Matérn, RBF,
            periodic, and sums, products and scalings of these
        poles: 3 to 6, by which a squared-exponential kernel is approximated (off by 7e-3 to 2e-4)
        harmonics: of a periodic kernel
        time_scale, time_origin: the kernel sees (time − origin)/scale

    """

    def __init__(
        self,
        family: Family,
        kernel: Kernel,
        *,
        poles: int = 4,
        harmonics: int = 6,
        time_scale: float = 1.0,
        time_origin: float = 0.0,
    ) -> None:
        super().__init__()
        if not isinstance(family, Gaussian):
            raise errors.not_gaussian("MarkovianProcessPrior", type(family).__name__)
        if poles not in POLES:
            raise errors.bad_value("poles", f"one of {list(POLES)}", poles)
        if tuple(kernel.batch_shape) not in ((), (family.latents,)):
            raise errors.wrong_batch_shape("kernel", family.latents, tuple(kernel.batch_shape))
        self._family = family
        self.kernel = kernel
        self.poles, self.harmonics = poles, checks.integer("harmonics", harmonics, 1)
        state_space.of(kernel, poles, self.harmonics)  # refuses what is no chain
        self.clock = Doubles(torch.tensor([time_origin, time_scale], dtype=torch.float64))

    @property
    def family(self) -> Gaussian:
        """Diagonal or full Gaussian."""
        return self._family

    @property
    def latents(self) -> int:
        """K."""
        return self._family.latents

    @property
    def space(self) -> state_space.StateSpace:
        """The kernel as a chain, with the parameters that it has now."""
        return state_space.of(self.kernel, self.poles, self.harmonics)

    @property
    def approach(self) -> str:
        """Without inducing points, and how far the kernel is from the one it stands for."""
        if not self.space.approximate:
            return "exact without inducing points"
        return f"a chain without inducing points (kernel to {float(self.space.error().max()):.0e})"

    @property
    def couples_sites(self) -> bool:
        """The sites of a trial teach each other."""
        return True

    @property
    def _kind(self) -> torch.dtype:
        kind: torch.dtype = next(self.kernel.parameters()).dtype
        return kind

    def _steps(self, path: InTime) -> tuple[Steps, Int[Tensor, "n T"]]:
        """Those that differ, and which leads to every site; the first of a trial follows from nothing."""
        gaps, which = path.distinct()
        A, Q = self.space.steps(gaps[:, None])
        shape = (len(gaps) + 1, self.latents, *A.shape[-2:])
        A = torch.cat([A, torch.zeros_like(A[:1])]).expand(shape)
        Q = torch.cat([Q.expand(len(gaps), *Q.shape[1:]), self.space.stationary().expand_as(Q[:1])]).expand(shape)
        return Steps(A, Q), which

    def chain(self, path: InTime) -> GaussianChain:
        """Of the states, before anything is said."""
        steps, which = self._steps(path)
        return GaussianChain.of_latents(*steps, which, self._family.groups)

    # ---- the contract ------------------------------------------------------------------------

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """N(0, κ(0)) at every site."""
        variance = self.space.stationary()[:, 0, 0].expand(self.latents).to(self._kind)
        blocks = torch.diag_embed(torch.unflatten(variance, 0, (self._family.groups, -1)))
        one = self._family.natural(torch.zeros_like(variance)[None], self._family.spread(blocks[None]))
        return one if shared else one.expand(sites.exists.shape[1], -1)

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> "MarkovianProcessPosterior":
        """q(Z) ∝ p(Z) exp(Σ_t potentials_t·t(z_t))."""
        potentials = torch.where(sites.exists[..., None], potentials, 0.0)
        path = InTime.of(sites, self._on_clock(sites.times))
        chain = self.chain(path)
        first, weight = by_groups(self._family, wide(potentials))
        h, W = path.arranged(first.movedim(-1, 1)), path.arranged(weight.movedim(-1, 1))
        return MarkovianProcessPosterior(self, sites, potentials, path, chain.condition(h, 0.5 * (W + W.mT)))

    def filter(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> LatentState:
        """In one pass."""
        return self.condition(potentials, sites).filtered

    def filtering(self) -> "ProcessFilter":
        """One time after the other, however far apart."""
        return ProcessFilter(self)

    def sample(self, sites: Sites, generator: torch.Generator) -> Float[Tensor, "N T K"]:
        """Joint draws over the sites of every trial."""
        nothing = torch.zeros(*sites.exists.shape, self._family.natural_size, dtype=self._kind)
        return self.condition(nothing.to(sites.exists.device), sites).sample(generator)

    def log_density(self, z: Float[Tensor, "*draws N T K"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """Of z at each site given those before it, derivatives integrated out; O(T)."""
        path = InTime.of(sites, self._on_clock(sites.times))
        draws, (count, length) = z.shape[:-3], sites.exists.shape
        exists = path.arranged(sites.exists)
        latents = torch.where(sites.exists[..., None], wide(z), 0.0).reshape(-1, count, length, self.latents)
        known = torch.stack([path.arranged(each) for each in latents.unbind()])
        steps, which = self._steps(path)
        each = derivatives.log_density(Steps(*(table[which] for table in steps)), known, exists)
        density: Tensor = each.reshape(*draws, count).to(z.dtype)
        return density

    def covariances(self, times: Float[Tensor, "T"], kept: Int[Tensor, "S"]) -> Float[Tensor, "S S K K"]:
        """κ_k of every latent by itself."""
        clock = self._on_clock(times[kept])
        found = self.space.covariance((clock[:, None] - clock).abs())
        return torch.diag_embed(found.expand(*found.shape[:2], self.latents))

    def parameter_kl(self) -> Float[Tensor, ""]:
        """Point estimates."""
        return torch.zeros((), dtype=self._kind, device=self.clock.values.device)


@dataclass(frozen=True)
class MarkovianProcessPosterior(Predicts):
    """q(Z) of Markovian processes: marginals, KL, joint draws, predictions at any other times."""

    prior: MarkovianProcessPrior
    sites: Sites
    potentials: Float[Tensor, "N T D"]
    """Zero at sites that do not exist."""
    path: InTime
    chain: ConditionedChain

    def _rounded(self, values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return values.to(self.potentials.dtype)

    def _in_form(self, moments: LatentMoments) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "..."]]:
        """Mean, and covariance in the family's form, site by site."""
        spread = self.prior.family.spread(self.path.back(moments.covariance))
        return self.path.back(moments.mean).flatten(2), spread

    @cached_property
    def _moments(self) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "..."]]:
        return self._in_form(self.chain.marginals)

    @property
    def filtered(self) -> LatentState:
        """Moments of every site given the past and the present alone."""
        before = self.chain.ahead
        h, W = said(self.prior.family, self.potentials)
        groups = updated(LatentState(self.path.back(before.mean), self.path.back(before.covariance)), h, W)
        covariance = groups.covariance
        whole = covariance[:, :, 0] if covariance.shape[2] == 1 else torch.diag_embed(covariance.flatten(2))
        return LatentState(self._rounded(groups.mean.flatten(2)), self._rounded(whole))

    @property
    def latent_mean(self) -> Float[Tensor, "N T K"]:
        """m of every site."""
        return self._rounded(self._moments[0])

    @property
    def log_partition(self) -> Float[Tensor, "N"]:
        """log ∫ p(Z) exp(Σ potentials·t): with the exact potentials, log W (eq 4)."""
        return self._rounded(self.chain.log_z)

    @cached_property
    def eta(self) -> Float[Tensor, "N T D"]:
        """η_q of every site."""
        return self._rounded(self.prior.family.natural(*self._moments))

    @cached_property
    def _mu(self) -> Float[Tensor, "N T D"]:
        return self.prior.family.mean_parameter(*self._moments)

    @cached_property
    def mu(self) -> Float[Tensor, "N T D"]:
        """μ_q of every site."""
        return self._rounded(self._mu)

    @cached_property
    def kl(self) -> Float[Tensor, "N"]:
        """Σ_t potentials·μ_q − log_partition."""
        return self._rounded((self.potentials * self._mu).sum((1, 2)) - self.chain.log_z)

    def at(self, sites: Sites) -> Posterior:
        """The same of other sites: predictions at new times."""
        both = Sites(
            torch.cat([sites.times.to(self.sites.times), self.sites.times], 1),
            torch.cat([sites.exists, self.sites.exists], 1),
        )
        nothing = self.potentials.new_zeros(*sites.exists.shape, self.potentials.shape[-1])
        whole = self.prior.condition(torch.cat([nothing, self.potentials], 1), both)
        return SomeSites(whole, sites.exists.shape[1])

    def draw(self, generator: torch.Generator) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "N"]]:
        """Jointly over the sites of every trial; log p/q = log_partition − Σ_t potentials·t(z_t)."""
        z = self.path.back(self.chain.draw(generator)).flatten(2)
        said = self.potentials * self.prior.family.statistic(z)
        return self._rounded(z), self._rounded(self.chain.log_z - said.sum((1, 2)))


@dataclass(frozen=True)
class SomeSites(Posterior):
    """The first sites of a posterior, its others unseen."""

    whole: MarkovianProcessPosterior
    count: int

    @property
    def latent_mean(self) -> Float[Tensor, "N T K"]:
        """m of every site."""
        return self.whole.latent_mean[:, : self.count]

    @property
    def eta(self) -> Float[Tensor, "N T D"]:
        """η_q of every site."""
        return self.whole.eta[:, : self.count]

    @property
    def mu(self) -> Float[Tensor, "N T D"]:
        """μ_q of every site."""
        return self.whole.mu[:, : self.count]

    @property
    def kl(self) -> Float[Tensor, "N"]:
        """Of the whole: what is seen elsewhere is known here."""
        return self.whole.kl

    def draw(self, generator: torch.Generator) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "N"]]:
        """Jointly over these sites, with log p/q of the whole."""
        z, log_ratio = self.whole.draw(generator)
        return z[:, : self.count], log_ratio
