"""Stationary linear dynamics by one free matrix V.

Every stable system has a basis in which its stationary covariance is I, and a full Gaussian family does not mind the
basis: so Q = I − AAᵀ, A is any strict contraction, and without inputs every site is N(0, I). With V free (below a
length that keeps digits) and LLᵀ = I + VᵀV,

    A = V L⁻ᵀ,   Q⁻¹ = I + VVᵀ,   Q⁻¹A = V L,   AᵀQ⁻¹A = LᵀL − I,

which is smooth, reaches every strict contraction once, and never subtracts AAᵀ from I.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import linalg
from rpmodels.priors.kalman import Transition

LARGEST = 100.0
"""Of V, per latent: a memory of 0.99995 a step. What lasts longer is a constant, and would cost the smoother digits."""


def turning(size: int, memory: float, rotation: float) -> Float[Tensor, "K K"]:
    """V before it is held below `LARGEST`, for A = memory · a rotation by so many radians between any two latents."""
    upper = torch.ones(size, size, dtype=torch.float64).triu(1)
    turn: Tensor = torch.linalg.matrix_exp(rotation * (upper.mT - upper))
    # A = memory · turn ⟺ V = memory/√(1 − memory²) · turn.
    length = memory / (1.0 - memory**2) ** 0.5
    length /= (1.0 - (length / LARGEST) ** 2) ** 0.5
    V: Tensor = length * turn
    return V


def transition(raw: Float[Tensor, "K K"]) -> Transition:
    """One step, as a differentiable function of V before it is held below `LARGEST`."""
    size = len(raw)
    eye = torch.eye(size, dtype=raw.dtype, device=raw.device)
    V = raw / (1.0 + raw.square().sum() / (size * LARGEST**2)).sqrt()
    L = linalg.cholesky(eye + V.mT @ V, "the dynamics")
    A: Tensor = torch.linalg.solve_triangular(L, V.mT, upper=False).mT
    precision = eye + V @ V.mT
    Q, log_det = linalg.inverse_and_log_det(precision, "the dynamics")
    return Transition(A, Q, precision, V @ L, L.mT @ L - eye, log_det)
