"""K latents with linear dynamics, z_{t+1} = A z_t + B u_t + w_t with w ~ N(0, Q): conditioning is a Kalman smoother.

They are stationary with covariance I but for inputs (`contraction`). The blocks of the joint precision are those of a
step and what the sites say. Sites that do not exist say nothing: integrating the end of the chain out leaves the rest
as it was.

A, B and Q are point estimates, or the mean of a q(A, B, Q) of the conjugate form (`matrix_normal_wishart`).
"""

from collections.abc import Mapping
from functools import cache

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn

from rpmodels import checks, errors, linalg
from rpmodels.carriers import Sites
from rpmodels.families import Family, Gaussian
from rpmodels.linalg.block_tridiagonal import accumulated, smoothed
from rpmodels.priors import contraction, kalman
from rpmodels.priors.driving import Inputs, wide
from rpmodels.priors.dynamics_filter import DynamicsFilter, dynamics_filter
from rpmodels.priors.equal_steps import check_equal_steps
from rpmodels.priors.filters import HasFilter, said
from rpmodels.priors.kalman import LatentState, Transition
from rpmodels.priors.linear_dynamics_posterior import LinearDynamicsPosterior
from rpmodels.priors.matrix_normal_wishart import (
    Doubt,
    Dynamics,
    belief_in,
    followed,
)
from rpmodels.priors.prior import HasCovariance, HasLogDensity, Posterior


class LinearDynamicsPrior(HasLogDensity[Gaussian], HasCovariance[Gaussian], HasFilter[Gaussian]):
    """z_1 ~ N(0, I), z_{t+1} = A z_t + B u_t + w_t, for times that are equally spaced.

    Everything is computed in double precision and rounded (as kernels are): when latents are slow, Q⁻¹ is large and
    almost cancels.

    Args:
        family: FullGaussian(K). The latents of a site are correlated a posteriori even where the factors are not,
            and a diagonal family cannot say so: it is refused for K > 1.
        n_inputs: how many inputs u drive the latents; they come with the sites (`Sites.u`)
        memory: of the initial dynamics, A = memory · rotation
        rotation: by how much (radians per step) A turns at first: dynamics that begin symmetric find no oscillation
        counts: how many steps a conjugate prior over A, B and Q is worth (variational Bayes); None for point estimates

    """

    def __init__(
        self,
        family: Family,
        *,
        n_inputs: int = 0,
        memory: float = 0.9,
        rotation: float = 0.05,
        counts: float | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(family, Gaussian):
            raise errors.not_gaussian("LinearDynamicsPrior", type(family).__name__)
        if family.groups != 1:
            expected = f"FullGaussian({family.latents}), as the posterior of linear dynamics correlates latents"
            raise errors.bad_value("family", expected, family)
        self._family = family
        self.memory = checks.number("memory", memory, least=0.0, below=0.9999)
        self.rotation = checks.number("rotation", rotation)
        size = family.latents
        self.raw = nn.Parameter(contraction.turning(size, self.memory, self.rotation).to(torch.get_default_dtype()))
        self.inputs = Inputs(size, checks.integer("n_inputs", n_inputs, 0))
        self.counts = counts
        self.belief = belief_in(size, n_inputs, counts, self.memory)

    @property
    def family(self) -> Gaussian:
        """A full Gaussian."""
        return self._family

    @property
    def latents(self) -> int:
        """K."""
        return self._family.latents

    @property
    def n_inputs(self) -> int:
        """How many inputs drive the latents."""
        return int(self.inputs.B.shape[1])

    @property
    def couples_sites(self) -> bool:
        """The sites of a trial teach each other."""
        return True

    # ---- the dynamics ------------------------------------------------------------------------

    def transition(self) -> Transition:
        """One step, as a differentiable function of the parameters."""
        return contraction.transition(wide(self.raw))

    def _eye(self) -> Float[Tensor, "K K"]:
        return torch.eye(self.latents, dtype=wide(self.raw).dtype, device=self.raw.device)

    def dynamics(self) -> Float[Tensor, "K K"]:
        """A."""
        return self.transition().A.to(self.raw.dtype)

    def noise(self) -> Float[Tensor, "K K"]:
        """Q = I − AAᵀ."""
        return self.transition().Q.to(self.raw.dtype)

    @torch.no_grad()
    def eigenvalues(self) -> Complex[Tensor, "K"]:
        """Of A, slowest first: |λ| is the memory of one step, the angle of λ how far an oscillation turns in it."""
        values: Tensor = torch.linalg.eigvals(self.transition().A)
        return values[values.abs().argsort(descending=True)]

    # ---- the contract ------------------------------------------------------------------------

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """N(0, I) at every site; with inputs, what they make of it on average over trials and times."""
        if not self.n_inputs:
            return _standard(self._family).to(self.raw)
        transition = self.transition()
        mean, covariance = self.inputs.spread(transition.A, transition.Q)
        natural: Tensor = self._family.natural(mean[None], self._family.spread(covariance[None, None]))
        return natural.to(self.raw.dtype)

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> LinearDynamicsPosterior:
        """q(Z) ∝ exp ⟨log p(Z)⟩ exp(Σ_t potentials_t·t(z_t)), p(Z) itself where the dynamics are known.

        In x = z − ⟨z⟩_p, whose prior has no inputs: what the sites say of z moves the shift and the constant.
        """
        self.check_sites(sites)
        transition = self.transition()
        mean = self._driven(transition, sites)
        potentials = torch.where(sites.exists[..., None], potentials, 0.0)
        first, weight = self._split(potentials)
        doubt = self._doubt(sites)
        if doubt is not None:
            first, weight = first + doubt.h, weight + doubt.W
        said = first if mean is None else first - (weight @ mean[..., None])[..., 0]
        q = smoothed(kalman.chained(transition, said, weight))
        x = q.mean.transpose(0, 1)
        log_det = q.log_det - (said.shape[1] - 1) * transition.log_det
        log_partition = 0.5 * ((said * x).sum((1, 2)) - log_det)
        if mean is not None:
            log_partition = log_partition + 0.5 * ((first + said) * mean).sum((1, 2))
            q = q._replace(mean=(x + mean).transpose(0, 1))
        if doubt is not None:
            log_partition = log_partition + doubt.constant.sum(1)
        return LinearDynamicsPosterior(self._family, potentials, q, log_partition, sites)

    def _doubt(self, sites: Sites) -> Doubt | None:
        """At sites that another one follows."""
        doubt = self.belief.doubt(self.inputs.known(sites))
        return None if doubt is None else doubt.where(followed(sites))

    def _mean(self) -> Dynamics:
        return Dynamics(self.transition(), wide(self.inputs.B))

    def _driven(self, transition: Transition, sites: Sites) -> Float[Tensor, "N T K"] | None:
        """⟨z⟩ under the prior, which is where the inputs have brought it."""
        pushes = self.inputs.pushes(sites)
        return None if pushes is None else accumulated(transition.A, pushes)

    def _split(self, potentials: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "*b K K"]]:
        """h and W, latents being one group."""
        h, W = said(self._family, potentials)
        return h[..., 0, :], W[..., 0, :, :]

    def check_sites(self, sites: Sites) -> None:
        """Refuse times that are not equally spaced within a trial, in whatever unit they are, and other inputs."""
        given = 0 if sites.u is None else sites.u.shape[-1]
        if given != self.n_inputs:
            raise errors.bad_value("inputs", f"{self.n_inputs} numbers at every time, as in training", given)
        check_equal_steps(sites)

    def sample(self, sites: Sites, generator: torch.Generator) -> Float[Tensor, "N T K"]:
        """Joint draws over the sites of every trial."""
        self.check_sites(sites)
        transition = self.transition()
        noise = kalman.noise_like(transition.A.new_empty(*sites.exists.shape, self.latents), generator)
        root = linalg.cholesky(transition.Q, "the noise of the dynamics")
        increments = torch.cat([noise[:, :1], noise[:, 1:] @ root.mT], 1)
        pushes = self.inputs.pushes(sites)
        return accumulated(transition.A, increments if pushes is None else increments + pushes).to(self.raw.dtype)

    def log_density(self, z: Float[Tensor, "*draws N T K"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """log N(z_1; 0, I) + Σ_t log N(z_{t+1}; A z_t + B u_t, Q)."""
        self.check_sites(sites)
        transition, states = self.transition(), wide(z)
        pushes = self.inputs.pushes(sites)
        x = states if pushes is None else states - pushes
        off = x[..., 1:, :] - states[..., :-1, :] @ transition.A.mT
        first = x[..., :1, :].square().sum(-1)
        steps = ((off @ transition.precision) * off).sum(-1) - transition.log_det
        each = -0.5 * (torch.cat([first, steps], -1) + self.latents * linalg.LOG_2PI)
        return torch.where(sites.exists, each, 0.0).sum(-1).to(z.dtype)

    @property
    def driven(self) -> bool:
        """By inputs."""
        return self.n_inputs > 0

    def covariances(self, times: Float[Tensor, "T"], kept: Int[Tensor, "S"]) -> Float[Tensor, "S S K K"]:
        """A^(t−s) for t ≥ s, and its transpose for t ≤ s."""
        lags, place = torch.unique((kept[:, None] - kept).abs(), return_inverse=True)
        A = self.transition().A
        powers = torch.stack([torch.linalg.matrix_power(A, int(lag)) for lag in lags])[place]
        return torch.where((kept[:, None] >= kept)[:, :, None, None], powers, powers.mT)

    def sums(self, posterior: Posterior, weights: Float[Tensor, "N"]) -> dict[str, Tensor]:
        """What is known of the dynamics, where that is asked; their mean is learned by gradient."""
        assert isinstance(posterior, LinearDynamicsPosterior)
        return self.belief.sums(posterior, self.inputs.known(posterior.sites), weights)

    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """The same from these."""
        self.belief.update(sums, fraction)

    def parameter_kl(self) -> Float[Tensor, ""]:
        """KL(q(A, B, Q)‖p(A, B, Q)); zero for point estimates."""
        return self.belief.kl(self._mean).to(self.raw)

    # ---- as time goes by -----------------------------------------------------------------------

    def filtering(self) -> DynamicsFilter:
        """z′ = A z + B u + w, step after step."""
        known = self.inputs.scaled(torch.eye(self.n_inputs, dtype=torch.float64, device=self.raw.device))
        with torch.no_grad():
            doubt = self.belief.doubt(known if self.n_inputs else None)
            return dynamics_filter(self._family, self._mean(), known, doubt)

    def _later(self, step: Transition, state: LatentState, u: Float[Tensor, "N U"] | None) -> LatentState:
        """One time-step later, with nothing seen there."""
        doubt = self.belief.doubt(u)
        if doubt is not None:
            state = kalman.updated(state, doubt.h, doubt.W)
        return kalman.moved(step, state, None if u is None else u @ wide(self.inputs.B).mT)

    def filter(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> LatentState:
        """Marginals of every site given the past and the present alone."""
        self.check_sites(sites)
        first, weight = self._split(torch.where(sites.exists[..., None], potentials, 0.0))
        transition, known, eye = self.transition(), self.inputs.known(sites), self._eye()
        first_of_all = LatentState(eye.new_zeros(len(potentials), self.latents), eye.expand(len(potentials), -1, -1))
        states: list[LatentState] = []
        for t, now in enumerate(zip(first.unbind(1), weight.unbind(1), strict=True)):
            driven = None if known is None or t == 0 else known[:, t - 1]
            state = first_of_all if t == 0 else self._later(transition, states[-1], driven)
            states.append(kalman.updated(state, *now))
        return kalman.stacked(states).to(potentials.dtype)

    def predict(
        self,
        mean: Float[Tensor, "N K"],
        covariance: Float[Tensor, "N K K"],
        steps: int,
        u: Float[Tensor, "N steps U"] | None = None,
    ) -> LatentState:
        """Forecasts 1 … `steps` steps after a time with these moments, [N, steps, K] and [N, steps, K, K].

        u are the inputs at that time and the steps − 1 after it. Where dynamics are not known, moments of the mixture.
        """
        steps, now = checks.integer("steps", steps, 1), LatentState(wide(mean), wide(covariance))
        known = None if u is None else self.inputs.scaled(u)
        paths = [kalman.ahead(each.step, each.B, now, steps, known) for each in self.belief.drawn(self._mean())]
        return kalman.mixed(paths).to(mean.dtype)


@cache
def _standard(family: Gaussian) -> Float[Tensor, "1 D"]:
    """N(0, I), in double precision."""
    eye = torch.eye(family.latents, dtype=torch.float64)
    return family.natural(eye[:1] * 0.0, family.spread(eye[None, None]))
