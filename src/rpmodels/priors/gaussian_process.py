"""K independent Gaussian processes with inducing points (RP-GPFA, A21–A31): conditioning is a sparse GP regression.

Inducing variables are whitened, u = L v with LLᵀ = κ(τ, τ) and v ~ N(0, I). With A = L⁻¹κ(τ, t), potentials
g·t(z_t) give q(v) the precision I + A diag(−2g⁽²⁾) Aᵀ and the shift A g⁽¹⁾: the exact maximiser of
−KL(q(v)‖p(v)) + Σ⟨g·t⟩, and the exact posterior when τ are the times. Latents stay independent when the
family is diagonal; a full family couples them in one K·M × K·M matrix.
"""

from typing import Any

import torch
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from gpytorch.settings import lazily_evaluate_kernels
from jaxtyping import Float, Int
from torch import Tensor, nn

from rpmodels import errors, linalg
from rpmodels.carriers import Doubles, Sites
from rpmodels.families import Family, Gaussian
from rpmodels.priors.conditioning import conditioned
from rpmodels.priors.inducing import HasInducing, InducingPosterior, InducingState, Projection, Seen, by_groups
from rpmodels.priors.kalman import LatentState
from rpmodels.priors.prior import HasCovariance, HasLogDensity, Posterior
from rpmodels.priors.process import ProcessPrior


class GaussianProcessPrior(HasInducing, ProcessPrior, HasLogDensity[Gaussian], HasCovariance[Gaussian]):
    """z_k ~ GP(mean_k, κ_k), k = 1 … K.

    Args:
        family: of one site: diagonal (independent latents) or full (coupled a posteriori)
        kernel: a GPyTorch kernel over one input dimension, batch shape () for all latents or (K,)
        inducing: places τ, (M,) shared or (K, M) per latent
        learn_inducing: whether τ are parameters
        mean: a GPyTorch mean of batch shape () or (K,); zero by default
        time_scale, time_origin: kernel, mean and τ see (time − origin)/scale

    """

    tau: Tensor

    def __init__(
        self,
        family: Family,
        kernel: Kernel,
        inducing: Float[Tensor, "*K M"],
        *,
        learn_inducing: bool = False,
        mean: Mean | None = None,
        time_scale: float = 1.0,
        time_origin: float = 0.0,
    ) -> None:
        super().__init__()
        if not isinstance(family, Gaussian):
            raise errors.not_gaussian("GaussianProcessPrior", type(family).__name__)
        self._family = family
        for what, part in (("kernel", kernel), ("mean", mean)):
            shape = tuple(getattr(part, "batch_shape", ()))
            if isinstance(part, Mean) and not hasattr(part, "batch_shape"):  # some means only show it
                dtype = next((each.dtype for each in part.parameters()), torch.get_default_dtype())
                shape = tuple(part(torch.zeros(1, 1, dtype=dtype)).shape[:-1])
            if shape not in ((), (family.latents,)):
                raise errors.wrong_batch_shape(what, family.latents, shape)
        self.kernel = kernel
        self.mean_function = mean
        self.clock = Doubles(torch.tensor([time_origin, time_scale], dtype=torch.float64))
        places = (inducing.detach().double() - time_origin) / time_scale
        if learn_inducing:
            self.tau = nn.Parameter(places)
        else:
            self.register_buffer("tau", places)

    @property
    def family(self) -> Gaussian:
        """Diagonal or full Gaussian."""
        return self._family

    @property
    def latents(self) -> int:
        """K."""
        return self._family.latents

    @property
    def n_inducing(self) -> int:
        """M."""
        return int(self.tau.shape[-1])

    @property
    def approach(self) -> str:
        """How many inducing points there are."""
        return f"{self.n_inducing} inducing points"

    @property
    def inducing(self) -> Float[Tensor, "*K M"]:
        """τ in the user's units."""
        origin, scale = self.clock.values
        places: Tensor = self.tau.detach().to(origin.dtype) * scale + origin
        return places

    @property
    def learn_inducing(self) -> bool:
        """Whether τ are parameters."""
        return isinstance(self.tau, nn.Parameter)

    @property
    def mean(self) -> Mean | None:
        """The mean function; None for zero."""
        return self.mean_function

    @property
    def couples_sites(self) -> bool:
        """The sites of a trial teach each other."""
        return True

    def inducing_shape(self) -> tuple[int, int]:
        """Independent groups of latents, and the inducing numbers of each: (K, M), or (1, K·M) when coupled."""
        groups = self._family.groups
        return groups, self.latents // groups * self.n_inducing

    def numbers(self, trials: int, sites: int) -> int:
        """Products of what every site sees of every inducing point, for each trial or once for all."""
        groups, size = self.inducing_shape()
        coupled, pairs = self.latents // groups, self.n_inducing**2
        seen = self.n_inducing if self.n_inducing > 2 * trials else pairs // trials
        return trials * (self.latents * coupled * sites * max(1, seen) + groups * size**2)

    # ---- kernel algebra ----------------------------------------------------------------------

    def _scaled(self, times: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return self._on_clock(times).to(self.tau.dtype)

    def _covariance(self, left: Float[Tensor, "*k a"], right: Float[Tensor, "*k b"]) -> Float[Tensor, "K a b"]:
        """κ_k(left, right), dense at once, computed in double precision: squared distances cancel in float32."""
        wide = left.dtype if left.device.type == "mps" else torch.float64
        with lazily_evaluate_kernels(False):
            evaluated: Any = self.kernel(left[..., None].to(wide), right[..., None].to(wide))
        dense: Tensor = evaluated.to_dense().to(left.dtype)
        return dense.expand(self.latents, -1, -1)

    def _whitened(self, times: Float[Tensor, "U"]) -> Float[Tensor, "K M U"]:
        """A = L⁻¹κ(τ, t)."""
        every = torch.cat([self.tau, times.expand(*self.tau.shape[:-1], -1)], -1)
        inside, across = torch.split(self._covariance(self.tau, every), [self.n_inducing, len(times)], -1)
        factor = linalg.kernel_cholesky(inside, "the kernel of the inducing points")
        solved: Tensor = torch.linalg.solve_triangular(factor, across, upper=False)
        return solved

    def _variance(self, times: Float[Tensor, "U"]) -> Float[Tensor, "K U"]:
        # With a leading axis: without, GPyTorch takes K variances of K times for a matrix.
        values: Tensor = self.kernel(times[None, :, None], diag=True).to(times.dtype)
        return values.expand(self.latents, -1)

    def _mean(self, times: Float[Tensor, "U"]) -> Float[Tensor, "K U"]:
        if self.mean_function is None:
            return times.new_zeros(1, 1).expand(self.latents, len(times))
        kind = next((each.dtype for each in self.mean_function.parameters()), times.dtype)
        values: Tensor = self.mean_function(times[:, None].to(kind)).to(times.dtype)
        return values.expand(self.latents, -1)

    def project(self, sites: Sites) -> Projection:
        """A, the variance that inducing points leave over, and the mean, at these sites."""
        times, index = sites.distinct
        scaled = self._scaled(times)
        projection = self._whitened(scaled)
        rest = (self._variance(scaled) - projection.square().sum(-2)).clamp_min(0.0)
        mean = self._mean(scaled)
        if index is None:
            return self._grouped(projection[None], rest[None], mean[None])
        return self._grouped(
            projection[:, :, index].permute(2, 0, 1, 3), rest[:, index].movedim(1, 0), mean[:, index].movedim(1, 0)
        )

    def _grouped(
        self, a: Float[Tensor, "n K M T"], rest: Float[Tensor, "n K T"], mean: Float[Tensor, "n K T"]
    ) -> Projection:
        groups = self.inducing_shape()[0]
        shape = (groups, self.latents // groups)
        return Projection(*(torch.unflatten(each, 1, shape) for each in (a, rest, mean)))

    def residual_root(self, sites: Sites) -> Float[Tensor, "n K T T"]:
        """A root of κ(t, t) − AᵀA, for joint draws of the latents given the inducing points."""
        times, index = sites.distinct
        scaled = self._scaled(times)
        projection = self._whitened(scaled)
        covariance = self._covariance(scaled, scaled) - projection.mT @ projection
        return linalg.root(_per_trial(covariance, index))

    # ---- the contract ------------------------------------------------------------------------

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """The prior's marginal at every site of a common grid, or the moment-matched average over all sites."""
        times, index = sites.distinct
        scaled = self._scaled(times)
        mean, variance = self._mean(scaled).mT, self._variance(scaled).mT
        if shared:
            counts = (sites.exists if index is None else sites.exists.new_ones(1)).to(mean.dtype)
            share = counts.sum(0) / counts.sum() if index is None else _frequencies(index, sites, len(times)).to(mean)
            average = share @ mean
            spread = share @ (variance + (mean - average).square())
            mean, variance = average[None], spread[None]
        blocks = torch.diag_embed(torch.unflatten(variance, -1, (self._family.groups, -1)))
        return self._family.natural(mean, self._family.spread(blocks))

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> Posterior:
        """q(v) with precision I + A diag(−2g⁽²⁾) Aᵀ, and the marginals it implies."""
        projection = self.project(sites)
        first, weight = self._sites_say(potentials, sites, projection)
        if not projection.by_products(len(first)):
            return InducingPosterior(self, sites, projection.condition(first, weight), projection)
        # Flattened, not indexed: the derivative of an index is an array of zeros to write into.
        q = conditioned(projection.a.flatten(0, 1), first, weight)
        state = InducingState(q.mean, q.covariance, q.log_det)
        return InducingPosterior(self, sites, state, projection, Seen(q.seen_mean, q.seen_spread), q.kl)

    def state_of(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> InducingState:
        """q(v) given potentials at sites that exist."""
        projection = self.project(sites)
        return projection.condition(*self._sites_say(potentials, sites, projection))

    def _sites_say(
        self, potentials: Float[Tensor, "N T D"], sites: Sites, projection: Projection
    ) -> tuple[Float[Tensor, "N G B T"], Float[Tensor, "N G B B T"]]:
        """What the sites that exist add to the shift and to the precision, relative to the mean function."""
        first, weight = by_groups(self._family, potentials)
        if self.mean_function is not None:
            first = first - torch.einsum("ngbct,ngct->ngbt", weight, projection.mean.expand_as(first))
        if not sites.complete:
            exists = sites.exists[:, None, None, :]
            first = torch.where(exists, first, 0.0)
            weight = torch.where(exists[:, :, None], weight, 0.0)
        return first, weight

    def from_state(self, state: InducingState, sites: Sites) -> InducingPosterior:
        """The posterior of the latents under a given q(v) (A24–A28)."""
        return InducingPosterior(self, sites, state, self.project(sites))

    def filter(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> LatentState:
        """One conditioning for every site: T times the cost of `condition`. Sites are in the order of time."""
        place = torch.arange(potentials.shape[1], device=potentials.device)[:, None]
        known = (torch.where(place <= t, potentials, 0.0) for t in range(len(place)))
        eta = torch.stack([self.condition(each, sites).eta[:, t] for t, each in enumerate(known)], 1)
        return LatentState(self._family.moments(eta)[0], self._family.covariance(eta))

    def sample(self, sites: Sites, generator: torch.Generator) -> Float[Tensor, "N T K"]:
        """Joint draws over the sites of every trial."""
        groups, size = self.inducing_shape()
        count = sites.exists.shape[0]
        zero = self.tau.new_zeros(count, groups, size)
        eye = torch.eye(size, dtype=zero.dtype, device=zero.device).expand(count, groups, -1, -1)
        return self.from_state(InducingState(zero, eye, zero[..., 0]), sites).sample(generator)

    def log_density(self, z: Float[Tensor, "*draws N T K"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """Σ_k log N(z_k; mean_k, κ_k(t, t)) with all times of a trial in one dense matrix, in double precision."""
        times, index = sites.distinct
        clock = self._on_clock(times)
        mean, covariance = self._mean(clock), _per_trial(self._covariance(clock, clock), index)
        off = z.mT.to(mean.dtype) - (mean if index is None else mean[:, index].movedim(1, 0))
        exists = sites.exists[:1] if sites.complete else sites.exists
        each = linalg.normal_log_density(off, covariance, exists[:, None], "the kernel at all times of a trial")
        return each.sum(-1).to(z.dtype)

    @property
    def driven(self) -> bool:
        """By a mean function."""
        return self.mean_function is not None

    def covariances(self, times: Float[Tensor, "T"], kept: Int[Tensor, "S"]) -> Float[Tensor, "S S K K"]:
        """κ_k of every latent by itself."""
        clock = self._on_clock(times[kept])
        return torch.diag_embed(self._covariance(clock, clock).movedim(0, -1))

    def parameter_kl(self) -> Float[Tensor, ""]:
        """Point estimates."""
        return self.tau.new_zeros(())


def _frequencies(index: Int[Tensor, "N T"], sites: Sites, count: int) -> Float[Tensor, "U"]:
    share = torch.zeros(count, dtype=torch.float64, device=index.device)
    share = share.index_add(0, index[sites.exists], torch.ones_like(index[sites.exists], dtype=torch.float64))
    return share / share.sum()


def _per_trial(covariance: Float[Tensor, "K U U"], index: Int[Tensor, "N T"] | None) -> Float[Tensor, "n K T T"]:
    """Of the times that every trial has; one for all where they share a grid."""
    return covariance[None] if index is None else covariance[:, index[:, :, None], index[:, None]].movedim(1, 0)
