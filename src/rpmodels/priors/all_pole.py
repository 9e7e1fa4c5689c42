"""The squared-exponential kernel by a process of p dimensions, spectrum c/∏_j abs(iω − λ_j)², and what that is off by.

exp(−ω²/2) has no poles, so the kernel is no finite chain. Here p poles in the left half-plane, for a length scale of
one, are those whose kernel is nearest over all distances (found once, by descent on the largest difference); a Taylor
series of 1/spectrum, the usual choice, is ten times as far off. The state is (z, z′/λ, …, z⁽ᵖ⁻¹⁾/λᵖ⁻¹), λ the
geometric mean of abs(λ_j), so that all of it depends on x = λΔ alone, and paths have p − 1 derivatives.
"""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rpmodels.priors.matern import FAR, NEAR, Steps

POLES: dict[int, tuple[complex, ...]] = {
    3: (-1.062216 + 1.402322j, -1.137422 + 0j),
    4: (-1.126026 + 1.876758j, -1.237401 + 0.591822j),
    5: (-1.165907 + 2.291517j, -1.298590 + 1.080349j, -1.335490 + 0j),
    6: (-1.175391 + 2.690064j, -1.309697 + 1.526976j, -1.359852 + 0.498800j),
}
"""Of each pair of conjugates one."""
LONGEST = 0.25
"""x up to which Q is summed as a series; beyond, by doubling."""
TERMS = 24
"""Of the series: 1e-18 of the last of its terms is left at `LONGEST`."""
DOUBLINGS = math.ceil(math.log2(FAR / LONGEST))
GRID = np.linspace(0.0, 8.0, 1601)
"""Distances, in length scales, over which the error is the largest."""


@dataclass(frozen=True)
class AllPole:
    """F of the state per unit of x, Q's series, the stationary covariance, λ at a length scale of one, the error."""

    F: Float[Tensor, "p p"]
    series: Float[Tensor, "R p p"]
    """Q(x)/x as a polynomial."""
    P: Float[Tensor, "p p"]
    rate: float
    error: float
    """The largest distance of κ from its approximation, over all distances."""

    def steps(self, x: Float[Tensor, "*b"]) -> Steps:
        """A and Q over x = λΔ: short ones by series, every entry to all its digits; Q(2x) = Q + A Q Aᵀ adds."""
        x = x.clamp(NEAR, FAR)
        times = torch.log2(x.detach() / LONGEST).ceil().clamp_min(0.0)
        short = (x / 2.0**times)[..., None, None]
        device = x.device
        A, Q = torch.eye(len(self.F), dtype=x.dtype, device=device), torch.zeros_like(self.F, device=device)
        F, eye = self.F.to(device), A
        for n in range(TERMS, 0, -1):
            A = eye + (short / n) * (F @ A)
        for coefficients in self.series.to(device).flip(0):
            Q = coefficients + short * Q
        Q = short * Q
        for doubling in range(int(times.max())):
            more = (times > doubling)[..., None, None]
            Q = torch.where(more, Q + A @ Q @ A.mT, Q)
            A = torch.where(more, A @ A, A)
        return Steps(A, 0.5 * (Q + Q.mT))


@cache
def of_order(p: int) -> AllPole:
    """Nearest to exp(−d²/2)."""
    poles = np.array([each for one in POLES[p] for each in ({one, one.conjugate()})])
    rate = float(np.exp(np.log(np.abs(poles)).mean()))
    characteristic = np.poly(poles / rate).real
    F = np.eye(p, k=1)
    F[-1] = -characteristic[:0:-1]
    flow = np.kron(F, np.eye(p)) + np.kron(np.eye(p), F)
    blow = np.zeros((p, p))
    blow[-1, -1] = 1.0
    P = np.linalg.solve(flow, -blow.ravel()).reshape(p, p)
    strength = 1.0 / P[0, 0]
    tensor = torch.as_tensor(0.5 * strength * (P + P.T))
    found = AllPole(torch.as_tensor(F), torch.as_tensor(strength * _series(F)), tensor, rate, 0.0)
    kernel = (found.steps(torch.as_tensor(GRID * rate)).A @ found.P)[:, 0, 0].numpy()
    error = float(np.abs(kernel - np.exp(-0.5 * GRID**2)).max())
    return AllPole(found.F, found.series, found.P, rate, error)


def _series(F: NDArray[np.float64]) -> NDArray[np.float64]:
    """∫₀ˣ φφᵀ/x with φ = e^{Fs} e_p, as coefficients of powers of x."""
    p = len(F)
    terms = [np.eye(p)[-1]]
    for n in range(1, TERMS):
        terms.append(F @ terms[-1] / n)
    series = np.zeros((2 * TERMS - 1, p, p))
    for n, one in enumerate(terms):
        for m, other in enumerate(terms):
            series[n + m] += np.outer(one, other) / (n + m + 1)
    return series[:TERMS]
