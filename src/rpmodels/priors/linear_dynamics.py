"""K latents with linear dynamics, z_{t+1} = A z_t + B u_t + w_t with w ~ N(0, Q): conditioning is a Kalman smoother.

Every stable system has a basis in which its stationary covariance is I, and a full Gaussian family does not mind the
basis: so Q = I − AAᵀ, A is any strict contraction, and without inputs every site is N(0, I). With V free (below a
length that keeps digits) and LLᵀ = I + VᵀV,

    A = V L⁻ᵀ,   Q⁻¹ = I + VVᵀ,   Q⁻¹A = V L,   AᵀQ⁻¹A = LᵀL − I,

which is smooth, reaches every strict contraction once, and never subtracts AAᵀ from I. The blocks of the joint
precision are these and what the sites say. Sites that do not exist say nothing: integrating the end of the chain out
leaves the rest as it was.
"""

import torch
from jaxtyping import Complex, Float, Int
from torch import Tensor, nn
from torch.nn.functional import pad

from rpmodels import checks, errors, linalg
from rpmodels.carriers import Sites
from rpmodels.families import Family, Gaussian
from rpmodels.linalg.block_tridiagonal import accumulated, smoothed
from rpmodels.priors.driving import Inputs, wide
from rpmodels.priors.filters import Elapsed, GaussianFilter, HasFilter, State, said
from rpmodels.priors.kalman import LatentState, Transition, chained, moved, noise_like, stacked, updated
from rpmodels.priors.linear_dynamics_posterior import LinearDynamicsPosterior
from rpmodels.priors.prior import HasCovariance, HasLogDensity

LARGEST = 100.0
"""Of V, per latent: a memory of 0.99995 a step. What lasts longer is a constant, and would cost the smoother digits."""
UNEVEN = 0.01
"""How far a step between two times may be from the trial's mean step, relative to it."""


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

    """

    def __init__(self, family: Family, *, n_inputs: int = 0, memory: float = 0.9, rotation: float = 0.05) -> None:
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
        upper = torch.ones(size, size, dtype=torch.float64).triu(1)
        turn = torch.linalg.matrix_exp(self.rotation * (upper.mT - upper))
        # A = memory · turn ⟺ V = memory/√(1 − memory²) · turn; `raw` is V before it is held below LARGEST.
        length = self.memory / (1.0 - self.memory**2) ** 0.5
        length /= (1.0 - (length / LARGEST) ** 2) ** 0.5
        self.raw = nn.Parameter((length * turn).to(torch.get_default_dtype()))
        self.inputs = Inputs(size, checks.integer("n_inputs", n_inputs, 0))

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
        raw = wide(self.raw)
        eye = self._eye()
        V = raw / (1.0 + raw.square().sum() / (self.latents * LARGEST**2)).sqrt()
        L = linalg.cholesky(eye + V.mT @ V, "the dynamics")
        A: Tensor = torch.linalg.solve_triangular(L, V.mT, upper=False).mT
        precision = eye + V @ V.mT
        Q, log_det = linalg.inverse_and_log_det(precision, "the dynamics")
        return Transition(A, Q, precision, V @ L, L.mT @ L - eye, log_det)

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
        eye = self._eye()
        mean, covariance = eye[0] * 0.0, eye
        if self.n_inputs:
            transition = self.transition()
            mean, covariance = self.inputs.spread(transition.A, transition.Q)
        natural: Tensor = self._family.natural(mean[None], self._family.spread(covariance[None, None]))
        return natural.to(self.raw.dtype)

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> LinearDynamicsPosterior:
        """q(Z) ∝ p(Z) exp(Σ_t potentials_t·t(z_t)).

        In x = z − ⟨z⟩_p, whose prior has no inputs: what the sites say of z moves the shift and the constant.
        """
        self.check_sites(sites)
        transition = self.transition()
        mean = self._driven(transition, sites)
        potentials = torch.where(sites.exists[..., None], potentials, 0.0)
        first, weight = self._split(potentials)
        said = first if mean is None else first - (weight @ mean[..., None])[..., 0]
        q = smoothed(chained(transition, said, weight))
        x = q.mean.transpose(0, 1)
        log_det = q.log_det - (said.shape[1] - 1) * transition.log_det
        log_partition = 0.5 * ((said * x).sum((1, 2)) - log_det)
        if mean is not None:
            log_partition = log_partition + 0.5 * ((first + said) * mean).sum((1, 2))
            q = q._replace(mean=(x + mean).transpose(0, 1))
        return LinearDynamicsPosterior(self._family, potentials, q, log_partition)

    def _pushes(self, sites: Sites) -> Float[Tensor, "N T K"] | None:
        """B u of the step that leads to every site; u_t acts from site t to t + 1, so that of the last does nothing."""
        if sites.u is None:
            return None
        known = torch.where(sites.exists[..., None], sites.u, 0.0)
        return pad(self.inputs.push(known[:, :-1]), (0, 0, 1, 0))

    def _driven(self, transition: Transition, sites: Sites) -> Float[Tensor, "N T K"] | None:
        """⟨z⟩ under the prior, which is where the inputs have brought it."""
        pushes = self._pushes(sites)
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
        steps = torch.where(sites.exists[:, 1:] & sites.exists[:, :-1], sites.times.diff(dim=1), torch.nan)
        mean = steps.nanmean(1, keepdim=True)
        uneven = ((steps - mean).abs() > UNEVEN * mean).any(1) | (mean[:, 0] <= 0)
        if bool(uneven.any()):
            trial = int(uneven.nonzero()[0])
            known = steps[trial][~steps[trial].isnan()]
            got = f"steps between {known.min():g} and {known.max():g} in trial {trial} of the batch"
            expected = "equally spaced, increasing times in every trial (or choose a Gaussian-process prior)"
            raise errors.bad_value("times under linear dynamics", expected, got)

    def sample(self, sites: Sites, generator: torch.Generator) -> Float[Tensor, "N T K"]:
        """Joint draws over the sites of every trial."""
        self.check_sites(sites)
        transition = self.transition()
        noise = noise_like(transition.A.new_empty(*sites.exists.shape, self.latents), generator)
        root = linalg.cholesky(transition.Q, "the noise of the dynamics")
        increments = torch.cat([noise[:, :1], noise[:, 1:] @ root.mT], 1)
        pushes = self._pushes(sites)
        return accumulated(transition.A, increments if pushes is None else increments + pushes).to(self.raw.dtype)

    def log_density(self, z: Float[Tensor, "*draws N T K"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """log N(z_1; 0, I) + Σ_t log N(z_{t+1}; A z_t + B u_t, Q)."""
        self.check_sites(sites)
        transition, states = self.transition(), wide(z)
        pushes = self._pushes(sites)
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

    def parameter_kl(self) -> Float[Tensor, ""]:
        """Point estimates."""
        return self.raw.new_zeros(())

    # ---- as time goes by -----------------------------------------------------------------------

    def filtering(self) -> "DynamicsFilter":
        """z′ = A z + B u + w, step after step."""
        return DynamicsFilter(self)

    def filter(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> LatentState:
        """Marginals of every site given the past and the present alone."""
        self.check_sites(sites)
        first, weight = self._split(torch.where(sites.exists[..., None], potentials, 0.0))
        transition = self.transition()
        eye = self._eye()
        state = LatentState(eye.new_zeros(len(potentials), self.latents), eye.expand(len(potentials), -1, -1))
        states = []
        pushes = self._pushes(sites)
        for t, now in enumerate(zip(first.unbind(1), weight.unbind(1), strict=True)):
            state = updated(moved(transition, state, None if pushes is None else pushes[:, t]), *now)
            states.append(state)
        return stacked(states).to(potentials.dtype)

    def predict(
        self,
        mean: Float[Tensor, "N K"],
        covariance: Float[Tensor, "N K K"],
        steps: int,
        u: Float[Tensor, "N steps U"] | None = None,
    ) -> LatentState:
        """Forecasts 1 … `steps` steps after a time with these moments, [N, steps, K] and [N, steps, K, K].

        u are the inputs at that time and the steps − 1 after it.
        """
        transition = self.transition()
        states = [LatentState(wide(mean), wide(covariance))]
        for t in range(checks.integer("steps", steps, 1)):
            push = None if u is None else self.inputs.push(u[:, t])
            states.append(moved(transition, states[-1], push))
        return stacked(states[1:]).to(mean.dtype)


class DynamicsFilter(GaussianFilter):
    """Linear dynamics as time goes by; steps have no length."""

    A: Tensor
    Q: Tensor
    by_inputs: Tensor
    """B in the inputs' own units, transposed."""

    @torch.no_grad()
    def __init__(self, prior: LinearDynamicsPrior) -> None:
        transition = prior.transition()
        super().__init__(prior.family, torch.eye(prior.latents).to(transition.A)[None])
        self.n_inputs = prior.n_inputs
        self.register_buffer("A", transition.A)
        self.register_buffer("Q", transition.Q)
        if self.n_inputs:
            self.register_buffer("by_inputs", prior.inputs.push(torch.eye(self.n_inputs).to(transition.A)))

    def along(self, elapsed: Elapsed, u: Float[Tensor, "N U"] | None) -> State:
        """A, Q, and B u where there are inputs."""
        if u is None or not self.n_inputs:
            return self.A, self.Q
        return self.A, self.Q, (wide(u) @ self.by_inputs)[:, None, :, None]
