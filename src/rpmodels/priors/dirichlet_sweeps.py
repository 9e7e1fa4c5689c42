"""The algebra of Dirichlets: the fixed point of the variational sweep (A18), and the most likely α."""

from dataclasses import dataclass
from itertools import cycle, islice

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rpmodels import linalg

MAX_SWEEPS = 200
REACHES = (1e2, 1e4)
"""How far a leap may go, in sweeps, by turns: a short one where the bound is curved, a long one where it is flat."""
LIMITS = (1e-3, 1e4)
"""Where a learned α stops: below, images of one category each; above, all images have the same mixture."""


# ---- the fixed point ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sweep:
    """One sweep (A18) of some observations: from α̂ to q(z), and on to the next α̂."""

    start: Float[Tensor, "N K"]
    q: Float[Tensor, "N T K"]
    end: Float[Tensor, "N K"]
    bound: Float[Tensor, "N"]
    """Σ_t ⟨potential⟩ − KL(q‖p) of q(z) and `end`, but for log B(α)."""

    @staticmethod
    def of(
        start: Float[Tensor, "N K"],
        potentials: Float[Tensor, "N T K"],
        informed: Bool[Tensor, "N T"],
        alpha: Float[Tensor, "K"],
    ) -> "_Sweep":
        log_omega = torch.digamma(start)  # Ψ(Σα̂) cancels
        eta = potentials + log_omega[:, None]
        log_sum = torch.logsumexp(eta, -1)
        q = torch.where(informed[..., None], (eta - log_sum[..., None]).exp(), 0.0)
        counts = q.sum(1)
        end = alpha + counts
        bound = torch.where(informed, log_sum, 0.0).sum(-1) - (counts * log_omega).sum(-1) + log_beta(end)
        return _Sweep(start, q, end, bound)

    def __getitem__(self, index: Bool[Tensor, "N"]) -> "_Sweep":
        return _Sweep(self.start[index], self.q[index], self.end[index], self.bound[index])

    @property
    def moved(self) -> Float[Tensor, "N"]:
        """The largest relative change of an α̂."""
        return ((self.end - self.start).abs() / self.start).amax(-1)

    def leap(self, alpha: Float[Tensor, "K"], reach: float) -> Float[Tensor, "N K"]:
        """Where Newton's method sees the fixed point, at most `reach` sweeps away along any direction.

        A sweep is a natural-gradient step; with D = diag Ψ′(α̂) and H = Σ_t diag q_t − q_t q_tᵀ, the root of
        end(α̂) = α̂ is (I − H D)⁻¹ (end − α̂) away. The eigenvalues 1 − λ of I − D^½ H D^½ are taken by their
        size, so that the step climbs: away from a saddle, which the symmetric start is when α < ½.
        """
        root = torch.polygamma(1, self.start).sqrt()
        scaled = self.q * root[:, None]
        within = torch.diag_embed(root.square() * (self.end - alpha)) - scaled.mT @ scaled
        values, vectors = linalg.spectrum(within)
        along = (vectors.mT @ (root * (self.end - self.start))[..., None])[..., 0]
        along = along / (1 - values).abs().clamp_min(1.0 / reach)
        return torch.maximum(self.start + (vectors @ along[..., None])[..., 0] / root, alpha)

    def unless(self, other: "_Sweep") -> "_Sweep":
        """Of every observation, the other sweep where its bound is as high (but for rounding)."""
        rounding = 10 * torch.finfo(self.bound.dtype).eps * self.bound.abs()
        take = other.bound >= self.bound - rounding
        return _Sweep(
            torch.where(take[:, None], other.start, self.start),
            torch.where(take[:, None, None], other.q, self.q),
            torch.where(take[:, None], other.end, self.end),
            torch.where(take, other.bound, self.bound),
        )


@torch.no_grad()
def fixed_point(
    potentials: Float[Tensor, "N T K"], informed: Bool[Tensor, "N T"], alpha: Float[Tensor, "K"]
) -> Float[Tensor, "N K"]:
    """α̂ at which a sweep of (A18) changes nothing, from the start at which all categories are alike.

    Plain sweeps may take thousands of rounds (weak potentials, α near ½), so every round also tries Newton's step
    and takes it where the bound is at least as high as after the plain sweep: the bound never falls.
    Every observation stops by itself, so that it does not depend on the company it is in.
    """
    tolerance = torch.finfo(potentials.dtype).eps ** 0.75
    found = alpha + informed.sum(1, keepdim=True) / len(alpha)
    left = torch.arange(len(found), device=found.device)
    here = _Sweep.of(found, potentials, informed, alpha)
    for reach in islice(cycle(REACHES), MAX_SWEEPS):
        moving = here.moved > tolerance  # false for NaN: what has lost its footing is not followed
        found[left] = here.end
        if not bool(moving.all()):
            left, here = left[moving], here[moving]
            potentials, informed = potentials[moving], informed[moving]
        if not len(left):
            break
        plain = _Sweep.of(here.end, potentials, informed, alpha)
        here = plain.unless(_Sweep.of(here.leap(alpha, reach), potentials, informed, alpha))
    return found


# ---- Dirichlet functions ------------------------------------------------------------------------


def most_likely_alpha(statistic: Float[Tensor, "K"], start: Float[Tensor, "K"]) -> Float[Tensor, "K"]:
    """The α of highest Σ_k (α_k − 1) statistic_k − log B(α), statistic = mean ⟨log ω⟩ (Minka 2000, §1).

    Newton's method in O(K). The function is concave, so a step that is halved often enough climbs.
    """

    def value(alpha: Tensor) -> Tensor:
        return (alpha * statistic).sum() - log_beta(alpha)

    alpha = start
    for _ in range(100):
        step = _newton_step(alpha, statistic)
        while bool((step.abs() > 1e-12 * alpha).any()) and not (
            bool((alpha + step > 0).all()) and bool(value(alpha + step) > value(alpha))
        ):
            step = 0.5 * step
        if bool((step.abs() <= 1e-12 * alpha).all()):
            break
        alpha = alpha + step
    return alpha.clamp(*LIMITS)


def _newton_step(alpha: Float[Tensor, "K"], statistic: Float[Tensor, "K"]) -> Float[Tensor, "K"]:
    """−Hessian⁻¹ gradient; the Hessian Ψ′(Σα) 11ᵀ − diag Ψ′(α) is inverted by Sherman–Morrison."""
    gradient = statistic - expected_log(alpha)
    own = 1.0 / torch.polygamma(1, alpha)
    shared = (gradient * own).sum() / (1.0 / torch.polygamma(1, alpha.sum()) - own.sum())
    return own * (gradient + shared)


def expected_log(concentration: Float[Tensor, "*b K"]) -> Float[Tensor, "*b K"]:
    """⟨log ω_k⟩ = Ψ(α_k) − Ψ(Σα)."""
    return torch.digamma(concentration) - torch.digamma(concentration.sum(-1, keepdim=True))


def log_beta(concentration: Float[Tensor, "*b K"]) -> Float[Tensor, "*b"]:
    """log B(α) = Σ_k log Γ(α_k) − log Γ(Σα): what normalises a Dirichlet."""
    return torch.lgamma(concentration).sum(-1) - torch.lgamma(concentration.sum(-1))
