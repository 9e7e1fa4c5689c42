"""Linear dynamics as time goes by: known ones, and those of which a q(A, B, Q) is known."""

from abc import ABC

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels.families import Gaussian
from rpmodels.priors.driving import wide
from rpmodels.priors.filters import Elapsed, Filtered, GaussianFilter, State
from rpmodels.priors.kalman import LatentState
from rpmodels.priors.matrix_normal_wishart import Doubt, Dynamics


class DynamicsFilter(GaussianFilter, ABC):
    """z′ = A z + B u + w; steps have no length.

    Args:
        family: a full Gaussian
        dynamics: one step
        units: (U, U) inputs of one each, in units of their sizes

    """

    A: Tensor
    Q: Tensor
    by_inputs: Tensor
    """B in the inputs' own units, transposed."""

    def __init__(self, family: Gaussian, dynamics: Dynamics, units: Float[Tensor, "U U"]) -> None:
        A, Q = dynamics.step.A, dynamics.step.Q
        super().__init__(family, torch.eye(len(A)).to(A)[None])
        self.n_inputs = len(units)
        self.register_buffer("A", A)
        self.register_buffer("Q", Q)
        self.register_buffer("by_inputs", units @ dynamics.B.mT)

    def along(self, elapsed: Elapsed, u: Float[Tensor, "N U"] | None) -> State:
        """A, Q, and B u where there are inputs."""
        if u is None or not self.n_inputs:
            return self.A, self.Q
        return self.A, self.Q, (wide(u) @ self.by_inputs)[:, None, :, None]


class KnownDynamics(DynamicsFilter):
    """Point estimates."""


class BelievedDynamics(DynamicsFilter):
    """Dynamics that are known as well as training has told them: before a step its doubt is said of where it begins.

    The first time follows no step, and a state says whether it has begun.
    """

    names = ("mean", "covariance", "begun")
    shown_names = ("mean", "covariance")
    W: Tensor
    h_by_inputs: Tensor

    def __init__(self, family: Gaussian, dynamics: Dynamics, units: Float[Tensor, "U U"], doubt: Doubt) -> None:
        super().__init__(family, dynamics, units)
        self.register_buffer("W", doubt.W)
        self.register_buffer("h_by_inputs", doubt.h.reshape(-1, len(doubt.W)))

    def begin(self, n: int) -> State:
        """Stationary, and not begun."""
        mean, covariance = super().begin(n)
        return mean, covariance, mean.new_zeros(n)

    def along(self, elapsed: Elapsed, u: Float[Tensor, "N U"] | None) -> State:
        """h of the doubt, and what moves dynamics that are known."""
        by_u = self.A.new_zeros(1, len(self.A)) if u is None or not self.n_inputs else wide(u) @ self.h_by_inputs
        return (by_u, *super().along(elapsed, u))

    def moved(self, state: State, *along: Tensor) -> State:
        """Doubted where it began, then one step later."""
        (mean, covariance, begun), (h, *rest) = state, along
        doubted = self.given((mean, covariance), (begun[:, None] * h)[:, None], begun[:, None, None, None] * self.W)
        return (*super().moved(doubted, *rest), torch.ones_like(begun))

    def heard(self, state: State, potential: Float[Tensor, "N D"]) -> State:
        """Given h and W of its latents."""
        return (*super().heard(state[:2], potential), state[2])

    def latents(self, state: State) -> LatentState:
        """Moments of all latents."""
        return super().latents(state[:2])

    def filtered(self, state: State, dtype: torch.dtype) -> Filtered:
        """By its moments."""
        return super().filtered(state[:2], dtype)


def dynamics_filter(
    family: Gaussian, dynamics: Dynamics, units: Float[Tensor, "U U"], doubt: Doubt | None
) -> DynamicsFilter:
    """Of dynamics that are known, or believed with some doubt."""
    if doubt is None:
        return KnownDynamics(family, dynamics, units)
    return BelievedDynamics(family, dynamics, units, doubt)
