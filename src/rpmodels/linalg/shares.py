"""Shares of components by maximum likelihood: a concave problem, solved to its optimum with a certificate."""

from jaxtyping import Float
from torch import Tensor

from rpmodels.linalg.dense import cholesky, solve

FIRST = 20
"""Steps of EM, which lead near the optimum from anywhere."""
MOST = 200
"""Newton steps; some twenty are usual."""
GAP = 1e-13
"""Nats of one unit of weight that the optimum may be above what is found."""
SHORT_OF_ZERO = 0.99
"""Of the way to where a share would vanish, at most, in one step."""
CENTRED = 0.1
"""Share of the present gap that a step aims at."""


def best_shares(log_ratio: Float[Tensor, "N K"], weights: Float[Tensor, "N"]) -> Float[Tensor, "K"]:
    """The π on the simplex with the highest Σ_n w_n log Σ_k π_k exp(log_ratio_nk), in double precision.

    With the multiplier, which is W = Σ w, this is the maximum of Σ w log(Rπ) − W Σπ over π ≥ 0: EM, then primal-dual
    Newton steps. By concavity no π is above this one by more than W log(max_k g_k/W), g the gradient of the sum.
    """
    heavy = weights > 0
    log_ratio, weights = log_ratio[heavy].double(), weights[heavy].double() / weights[heavy].double().sum()
    ratio = (log_ratio - log_ratio.amax(-1, keepdim=True)).exp()
    pi = ratio.new_full((ratio.shape[1],), 1.0 / ratio.shape[1])
    for _ in range(FIRST):
        pi = pi * _gradient(ratio, weights, pi)
    # Away from the faces, where Newton steps are short.
    pi = 0.9 * pi + 0.1 / len(pi)
    slack = (1.0 - _gradient(ratio, weights, pi)).clamp_min(1.0 / len(pi))
    for _ in range(MOST):
        scaled = pi / pi.sum()
        if float(_gradient(ratio, weights, scaled).amax().log()) < GAP and float((pi * slack).sum()) < GAP:
            break
        pi, slack = _newton(ratio, weights, pi, slack)
    return pi / pi.sum()


def _gradient(ratio: Float[Tensor, "N K"], weights: Float[Tensor, "N"], pi: Float[Tensor, "K"]) -> Float[Tensor, "K"]:
    """Σ_n w_n r_nk/(Rπ)_n: what EM multiplies π with."""
    return (weights / (ratio @ pi)) @ ratio


def _newton(
    ratio: Float[Tensor, "N K"], weights: Float[Tensor, "N"], pi: Float[Tensor, "K"], slack: Float[Tensor, "K"]
) -> tuple[Float[Tensor, "K"], Float[Tensor, "K"]]:
    """Towards 1 − g = slack and π · slack = μ, both kept positive."""
    each = ratio * (weights.sqrt() / (ratio @ pi))[:, None]
    goal = CENTRED * (pi * slack).mean()
    system = each.mT @ each + (slack / pi).diag()
    step = solve(cholesky(system, "the curvature of the shares"), goal / pi - 1.0 + _gradient(ratio, weights, pi))
    change = (goal - slack * step) / pi - slack
    length = min(_room(pi, step), _room(slack, change))
    return pi + length * step, slack + length * change


def _room(values: Float[Tensor, "K"], step: Float[Tensor, "K"]) -> float:
    """How far a step can go."""
    return min(1.0, SHORT_OF_ZERO / max(1e-300, float((-step / values).amax())))
