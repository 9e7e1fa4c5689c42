"""What is known of linear dynamics (A, B, Q) beside their mean: nothing more, or by variational Bayes.

With y_t = (z_t, u_t) a step is z_{t+1} | y_t ~ N(C y_t, Λ⁻¹), C = [A B], Λ = Q⁻¹. The conjugate prior is

    Λ ~ Wishart(ν₀, V₀),   C | Λ ~ MN(C₀, Λ⁻¹, Ω₀⁻¹),

and q(C, Λ) has the same form with ν, Ω, the mean M of C and the mean P of Λ. Then

    ⟨log N(z_{t+1}; C y_t, Λ⁻¹)⟩ = log N(z_{t+1}; M y_t, P⁻¹) − ½ y_tᵀR y_t + ½ (⟨log|Λ|⟩ − log|P|),   R = K Ω⁻¹:

the mean dynamics, and a potential beside them where a step begins. Given q(Z) the best q has ν = ν₀ + number of steps
and Ω = Ω₀ + Σ⟨y yᵀ⟩, whatever M and P are. Those are held where latents are stationary with covariance I,
P⁻¹ = I − M_A M_Aᵀ, and found by gradient. Any q is a bound, and a free mean would leave the unit of the latents to the
first sites of trials alone: z_1 ~ N(0, I) would be all that says so.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from rpmodels import checks, linalg
from rpmodels.carriers import Sites, kept_double
from rpmodels.priors.driving import wide
from rpmodels.priors.kalman import Transition, noise_like
from rpmodels.priors.linear_dynamics_posterior import LinearDynamicsPosterior

DRAWS = 256
"""Of the dynamics, in forecasts."""
TRIES = 4
"""Times as many are drawn, as unstable ones do not count."""
STARTED = 1000.0
"""Steps after which learning starts: as if so many had agreed with the first dynamics."""


class Doubt(NamedTuple):
    """exp(hᵀz − ½ zᵀWz + constant) of sites: what ⟨log p(Z)⟩ has beside the mean dynamics."""

    h: Float[Tensor, "*b K"]
    W: Float[Tensor, "*b K K"]
    constant: Float[Tensor, "*b"]

    def where(self, there: Bool[Tensor, "N T"]) -> "Doubt":
        """At these sites alone."""
        h, W = (torch.where(there.reshape(*there.shape, *[1] * n), each, 0.0) for n, each in ((1, self.h), (2, self.W)))
        return Doubt(h, W, torch.where(there, self.constant, 0.0))


class Dynamics(NamedTuple):
    """One step, and what inputs (in units of their sizes) do in it."""

    step: Transition
    B: Float[Tensor, "K U"]


class Belief(nn.Module, ABC):
    """What is known of the dynamics beside their mean."""

    @abstractmethod
    def doubt(self, u: Float[Tensor, "*b U"] | None) -> Doubt | None:
        """Of a step, said of where it begins and by the inputs there; None where the dynamics are known."""

    @abstractmethod
    def sums(
        self, q: LinearDynamicsPosterior, u: Float[Tensor, "N T U"] | None, weights: Float[Tensor, "N"]
    ) -> dict[str, Tensor]:
        """What the closed-form part of the M-step needs."""

    @abstractmethod
    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """The closed-form part of the M-step, from a batch that is this fraction of the data."""

    @abstractmethod
    def kl(self, mean: Callable[[], Dynamics]) -> Float[Tensor, ""]:
        """KL(q(A, B, Q)‖p(A, B, Q)), q with this mean, which is found where it is wanted."""

    @abstractmethod
    def drawn(self, mean: Dynamics) -> list[Dynamics]:
        """What forecasts average over."""


class PointEstimate(Belief):
    """Nothing: dynamics are their mean."""

    def doubt(self, u: Float[Tensor, "*b U"] | None) -> None:
        """None."""

    def sums(
        self, q: LinearDynamicsPosterior, u: Float[Tensor, "N T U"] | None, weights: Float[Tensor, "N"]
    ) -> dict[str, Tensor]:
        """None: all is by gradient."""
        return {}

    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """Nothing."""

    def kl(self, mean: Callable[[], Dynamics]) -> Float[Tensor, ""]:
        """Zero."""
        return torch.zeros((), dtype=torch.float64)

    def drawn(self, mean: Dynamics) -> list[Dynamics]:
        """The mean."""
        return [mean]


class MatrixNormalWishart(Belief):
    """q(C, Λ) around a mean that is learned elsewhere.

    Args:
        latents: K
        n_inputs: U
        counts: how many steps the prior is worth: Ω₀ = counts · I, ν₀ = K + 1 + counts
        memory: its mean, C₀ = [memory · I, 0] and V₀ = ⟨Λ⟩/ν₀ with ⟨Λ⟩ = I/(1 − memory²)

    """

    steps: Tensor
    squares: Tensor

    def __init__(self, latents: int, n_inputs: int, counts: float, memory: float) -> None:
        super().__init__()
        self.latents, self.n_inputs, self.memory = latents, n_inputs, memory
        self.counts = checks.number("counts", counts, above=0.0)
        self.register_buffer("steps", torch.tensor(STARTED, dtype=torch.float64))
        self.register_buffer("squares", STARTED * torch.eye(latents + n_inputs, dtype=torch.float64))

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "MatrixNormalWishart":
        return cast("MatrixNormalWishart", super()._apply(kept_double(fn), recurse))  # type: ignore[no-untyped-call]

    # ---- q ----------------------------------------------------------------------------------

    @property
    def nu(self) -> Float[Tensor, ""]:
        """ν."""
        return self._nu_0() + wide(self.steps)

    @property
    def omega(self) -> Float[Tensor, "Y Y"]:
        """Ω."""
        squares = wide(self.squares)
        return self.counts * torch.eye(len(squares)).to(squares) + squares

    def _nu_0(self) -> float:
        return self.latents + 1.0 + self.counts

    def spread(self) -> Float[Tensor, "Y Y"]:
        """R = K Ω⁻¹."""
        return self.latents * linalg.inverse_and_log_det(self.omega, "what is known of the dynamics")[0]

    def surplus(self) -> Float[Tensor, ""]:
        """⟨log|Λ|⟩ − log|P|, which is below zero."""
        return _digammas(self.nu, self.latents) + self.latents * (math.log(2.0) - self.nu.log())

    # ---- in q(Z) ----------------------------------------------------------------------------

    def doubt(self, u: Float[Tensor, "*b U"] | None) -> Doubt:
        """−½ yᵀRy, and half of the surplus."""
        R, size, constant = self.spread(), self.latents, 0.5 * self.surplus()
        W = R[:size, :size]
        if u is None:
            return Doubt(torch.zeros_like(W[0]), W, constant)
        inputs = torch.einsum("...u,uv,...v->...", u, R[size:, size:], u)
        return Doubt(-u @ R[size:, :size], W, constant - 0.5 * inputs)

    def sums(
        self, q: LinearDynamicsPosterior, u: Float[Tensor, "N T U"] | None, weights: Float[Tensor, "N"]
    ) -> dict[str, Tensor]:
        """Number of steps, and Σ⟨y yᵀ⟩ over where they begin."""
        counted = wide(weights)[:, None] * followed(q.sites)
        mean, covariance = (each.transpose(0, 1) for each in (q.smoothed.mean, q.smoothed.covariance))
        y = mean if u is None else torch.cat([mean, u], -1)
        squares = torch.einsum("nt,nti,ntj->ij", counted, y, y)
        inner = torch.einsum("nt,ntij->ij", counted, covariance)
        squares = squares + nn.functional.pad(inner, (0, self.n_inputs, 0, self.n_inputs))
        return {"steps": counted.sum(), "squares": squares}

    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """Stochastic variational inference; all of the M-step when the batch is the data."""
        for name, kept in (("steps", self.steps), ("squares", self.squares)):
            kept.copy_((1.0 - fraction) * kept + sums[name].to(kept))

    # ---- over the parameters ----------------------------------------------------------------

    def kl(self, mean: Callable[[], Dynamics]) -> Float[Tensor, ""]:
        """⟨KL of C given Λ⟩ + KL of Λ."""
        size, nu, nu_0, (step, B) = self.latents, self.nu, self._nu_0(), mean()
        inverse, log_det = linalg.inverse_and_log_det(self.omega, "what is known of the dynamics")
        width, eye = len(inverse), torch.eye(size).to(step.A)
        off = torch.cat([step.A - self.memory * eye, B], 1)
        squares = self.counts * (off.mT @ step.precision @ off).diagonal().sum()
        traces = size * (self.counts * inverse.diagonal().sum() - width + log_det - width * math.log(self.counts))
        of_steps = 0.5 * (squares + traces)
        # V₀⁻¹V = ν₀/ν · (1 − memory²) P.
        own = (1.0 - self.memory**2) * step.precision
        log_ratio = size * (math.log(nu_0) - nu.log()) + size * math.log(1.0 - self.memory**2) + step.log_det
        of_noise = 0.5 * (nu_0 * own.diagonal().sum() - nu * size - nu_0 * log_ratio)
        half, half_0 = 0.5 * nu, torch.full_like(nu, 0.5 * nu_0)
        gammas = torch.mvlgamma(half_0, size) - torch.mvlgamma(half, size)
        return of_steps + of_noise + gammas + 0.5 * (nu - nu_0) * _digammas(nu, size)

    @torch.no_grad()
    def drawn(self, mean: Dynamics) -> list[Dynamics]:
        """Stable dynamics from q, always the same; the mean where there is none."""
        (step, B), generator = mean, torch.Generator(mean.B.device).manual_seed(0)
        size, count = self.latents, TRIES * DRAWS
        root = linalg.cholesky(step.precision / self.nu, "the precision of the dynamics")
        degrees = 0.5 * (self.nu - torch.arange(size).to(root))
        # Bartlett: Λ = root T Tᵀ rootᵀ with T lower triangular, T_ii² of χ² with ν − i degrees of freedom.
        T = noise_like(root.new_empty(count, size, size), generator).tril(-1)
        T = T + torch.diag_embed(_chi(degrees.expand(count, -1), generator))
        factor = root @ T
        Q_root = torch.linalg.solve_triangular(factor.mT, torch.eye(size).to(root).expand_as(factor), upper=True)
        noise = noise_like(root.new_empty(count, size, size + self.n_inputs), generator)
        columns = linalg.cholesky(self.omega, "what is known of the dynamics")
        C = torch.cat([step.A, B], 1) + Q_root @ torch.linalg.solve_triangular(columns, noise, upper=False, left=False)
        stable = (torch.linalg.eigvals(C[..., :size]).abs() < 1.0).all(-1).nonzero()[:DRAWS, 0]
        drawn = [self._dynamics(C[s], factor[s] @ factor[s].mT, Q_root[s] @ Q_root[s].mT) for s in stable]
        return drawn or [mean]

    def _dynamics(self, C: Float[Tensor, "K Y"], precision: Float[Tensor, "K K"], Q: Float[Tensor, "K K"]) -> Dynamics:
        A, B = C.tensor_split([self.latents], -1)
        return Dynamics(Transition(A, Q, precision, precision @ A, A.mT @ precision @ A, torch.logdet(precision)), B)


def followed(sites: Sites) -> Bool[Tensor, "N T"]:
    """Which sites are where a step begins."""
    return nn.functional.pad(sites.exists[:, 1:] & sites.exists[:, :-1], (0, 1))


def _digammas(nu: Float[Tensor, ""], size: int) -> Float[Tensor, ""]:
    """Σ_i Ψ(½ (ν + 1 − i))."""
    return torch.digamma(0.5 * (nu - torch.arange(size).to(nu))).sum()


def _chi(half_degrees: Float[Tensor, "n K"], generator: torch.Generator) -> Float[Tensor, "n K"]:
    """√ of χ² with twice as many degrees of freedom."""
    return (2.0 * torch._standard_gamma(half_degrees, generator=generator)).sqrt()


def belief_in(latents: int, n_inputs: int, counts: float | None, memory: float) -> Belief:
    """What is known of dynamics whose prior is worth so many steps; of point estimates (None) nothing beside them."""
    return PointEstimate() if counts is None else MatrixNormalWishart(latents, n_inputs, counts, memory)
