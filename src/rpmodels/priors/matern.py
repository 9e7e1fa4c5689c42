"""Matérn kernels as linear stochastic differential equations of p = ν + ½ dimensions: 1/2, 3/2 and 5/2.

The state of a latent is (z, z′/λ, z″/λ²)[:p] with λ = √(2ν)/length scale, so that all of it depends on the step through
x = λΔ alone. With F the companion matrix of (s + 1)ᵖ and φ(s) = e^{Fs} e_p, the answer to a blow,

    A(x) = e^{Fx},   Q(x) = q ∫₀ˣ φ(s)φ(s)ᵀ ds,   φ_i(s) = e^{−s} (a polynomial).

Q = P − APAᵀ too, but that has no digits where steps are short: here every entry is a sum of ∫₀ˣ sⁿ e^{−2s} ds, each to
all its digits.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

FAR = 200.0
"""x beyond which a state knows nothing of the one before it."""
NEAR = 1e-10
"""x below which two times are one: the latent moves by less than 2e-5 of its standard deviation."""

_BLOWS: dict[int, tuple[tuple[float, ...], ...]] = {
    1: ((1.0,),),
    2: ((0.0, 1.0), (1.0, -1.0)),
    3: ((0.0, 0.0, 0.5), (0.0, 1.0, -0.5), (1.0, -2.0, 0.5)),
}
"""φ_i(s) e^s: coefficients of 1, s, s²."""
_STRENGTHS = {1: 2.0, 2: 4.0, 3: 16.0 / 3.0}
"""q, which makes Var z = 1."""
_STATIONARY: dict[int, tuple[tuple[float, ...], ...]] = {
    1: ((1.0,),),
    2: ((1.0, 0.0), (0.0, 1.0)),
    3: ((1.0, 0.0, -1.0 / 3.0), (0.0, 1.0 / 3.0, 0.0), (-1.0 / 3.0, 0.0, 1.0)),
}


class Steps(NamedTuple):
    """x_{t+1} | x_t ~ N(A x_t, Q) of one latent."""

    A: Float[Tensor, "*b p p"]
    Q: Float[Tensor, "*b p p"]


def rate(order: int, length_scale: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """λ."""
    return math.sqrt(2.0 * order - 1.0) / length_scale


def steps(order: int, x: Float[Tensor, "*b"]) -> Steps:
    """Over x = λΔ, held between NEAR and FAR."""
    x = x.clamp(NEAR, FAR)
    return Steps(_moved(order, x), _noise(order, x))


def stationary(order: int, like: Float[Tensor, "..."]) -> Float[Tensor, "1 p p"]:
    """P, in the precision and on the device of another tensor."""
    return like.new_tensor(_STATIONARY[order])[None]


def _moved(order: int, x: Float[Tensor, "*b"]) -> Float[Tensor, "*b p p"]:
    """e^{Fx} = e^{−x} Σ_{n<p} xⁿ (F + I)ⁿ/n!, as (F + I)ᵖ = 0."""
    eye = torch.eye(order, dtype=x.dtype, device=x.device)
    nilpotent = eye + eye.roll(1, -1)
    nilpotent[-1] = eye[-1] - torch.tensor([math.comb(order, n) for n in range(order)], dtype=x.dtype, device=x.device)
    series, power = eye.expand(*x.shape, -1, -1), eye
    for n in range(1, order):
        power = power @ nilpotent / n
        series = series + x[..., None, None] ** n * power
    return torch.exp(-x)[..., None, None] * series


def _noise(order: int, x: Float[Tensor, "*b"]) -> Float[Tensor, "*b p p"]:
    """q ∫₀ˣ φ_i φ_j."""
    integrals = _integrals(2 * order - 2, x)
    rows = []
    for first in _BLOWS[order]:
        for second in _BLOWS[order]:
            parts = [a * b * integrals[i + j] for i, a in enumerate(first) for j, b in enumerate(second) if a * b]
            rows.append(_STRENGTHS[order] * torch.stack(parts).sum(0))
    return torch.unflatten(torch.stack(rows, -1), -1, (order, order))


def _integrals(highest: int, x: Float[Tensor, "*b"]) -> list[Float[Tensor, "*b"]]:
    """∫₀ˣ sⁿ e^{−2s} ds for n = 0 … highest, downwards, where the recurrence only adds."""
    place = torch.full_like(x, highest + 1.0)
    value = torch.special.gammainc(place, 2.0 * x) * (math.factorial(highest) / 2.0 ** (highest + 1))
    found, decay = [value], torch.exp(-2.0 * x)
    for n in range(highest, 0, -1):
        found.append((2.0 * found[-1] + x**n * decay) / n)
    return found[::-1]
