"""Smoothing a Markov chain of Gaussians: marginals, neighbours' covariances and log det from a block-tridiagonal J.

q(Z) ∝ exp(Σ_t h_tᵀz_t − ½ ZᵀJZ), where J couples neighbours alone. Two ways of eliminating the sites:
one after the other (the Kalman filter and the Rauch–Tung–Striebel smoother in information form), or every second one
at once, and again among those left (cyclic reduction): some more work, in log₂ T rounds. Both ask of J only that it is
positive definite, not of any site's potential. Time is the first axis here, so that slices of it are contiguous.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from rpmodels import linalg
from rpmodels.families import Continuous, Family
from rpmodels.priors.prior import Posterior

WHAT = "the posterior precision of the linear dynamics"
SHORT = 8
"""Up to here one site after the other is faster (measured forwards and backwards, N = 20, K = 2 … 4)."""


class LatentState(NamedTuple):
    """N(mean, covariance) of the latents, at one time or at many."""

    mean: Float[Tensor, "*b K"]
    covariance: Float[Tensor, "*b K K"]

    def to(self, dtype: torch.dtype) -> "LatentState":
        """In another precision."""
        return LatentState(self.mean.to(dtype), self.covariance.to(dtype))


class Transition(NamedTuple):
    """z_{t+1} = A z_t + w with w ~ N(0, Q), and what follows from them; the stationary covariance is I."""

    A: Float[Tensor, "K K"]
    Q: Float[Tensor, "K K"]
    precision: Float[Tensor, "K K"]
    """Q⁻¹."""
    forward: Float[Tensor, "K K"]
    """Q⁻¹A."""
    squared: Float[Tensor, "K K"]
    """AᵀQ⁻¹A."""
    log_det: Float[Tensor, ""]
    """log |Q⁻¹|."""


class Chain(NamedTuple):
    """[J_tt | h_t] of every site, and J_{t+1,t}."""

    sites: Float[Tensor, "T N K K+1"]
    below: Float[Tensor, "T-1 N K K"]


class Smoothed(NamedTuple):
    """What the chain says of every site and of its neighbour."""

    mean: Float[Tensor, "T N K"]
    covariance: Float[Tensor, "T N K K"]
    pairwise: Float[Tensor, "T-1 N K K"]
    """Cov(z_{t+1}, z_t)."""
    log_det: Float[Tensor, "N"]
    """Of J."""


def chained(step: Transition, h: Float[Tensor, "N T K"], W: Float[Tensor, "N T K K"]) -> Chain:
    """J of the dynamics plus W at every site: each step adds Q⁻¹ where it ends and AᵀQ⁻¹A where it begins."""
    (trials, count, size), eye = h.shape, torch.eye(h.shape[-1], dtype=h.dtype, device=h.device)
    ends = torch.cat([eye[None], step.precision.expand(count - 1, -1, -1)])
    begins = pad(step.squared.expand(count - 1, -1, -1), (0, 0, 0, 0, 0, 1))
    sites = torch.cat([W + ends + begins, h[..., None]], -1).transpose(0, 1)
    return Chain(sites, -step.forward.expand(count - 1, trials, size, size))


def smoothed(chain: Chain) -> Smoothed:
    """By whichever way is faster for so many sites."""
    return in_order(chain) if len(chain.sites) <= SHORT else by_halves(chain)


# ---- one site after the other ------------------------------------------------------------------------


def in_order(chain: Chain) -> Smoothed:
    """Eliminate the past, then walk back: T rounds each way."""
    size = chain.sites.shape[-2]
    below = chain.below.unbind()
    inverses: list[Tensor] = []
    gains: list[Tensor] = []
    logs: list[Tensor] = []
    for t, now in enumerate(chain.sites.unbind()):
        # [P | h]: J_tt and h_t once the past is integrated out.
        left = now - below[t - 1] @ gains[-1] if t else now
        inverse, log_det = linalg.inverse_and_log_det(left[..., :size], WHAT)
        # P⁻¹ [J_{t,t+1} | h]; the last site has no successor.
        right = torch.cat([below[t].mT, left[..., size:]], -1) if t < len(below) else left[..., size:]
        inverses.append(inverse)
        gains.append(inverse @ right)
        logs.append(log_det)
    return _walked_back(inverses, gains, torch.stack(logs).sum(0))


def _walked_back(inverses: list[Tensor], gains: list[Tensor], log_det: Tensor) -> Smoothed:
    """Σ_t = P⁻¹ + GΣ_{t+1}Gᵀ and m_t = P⁻¹h + Gm_{t+1}, with G = −P⁻¹J_{t,t+1}."""
    size = inverses[-1].shape[-1]
    moments = [torch.cat([inverses[-1], gains[-1]], -1)]  # [Σ | m]
    pairwise = []
    for inverse, gain in zip(inverses[-2::-1], gains[-2::-1], strict=True):
        after = gain[..., :size] @ moments[-1]
        covariance = inverse + after[..., :size] @ gain[..., :size].mT
        moments.append(torch.cat([covariance, gain[..., size:] - after[..., size:]], -1))
        pairwise.append(-after[..., :size].mT)
    every = torch.stack(moments[::-1])
    pairs = torch.stack(pairwise[::-1]) if pairwise else every[1:, ..., :size]
    return Smoothed(every[..., size], every[..., :size], pairs, log_det)


# ---- every second site at once -----------------------------------------------------------------------


def by_halves(chain: Chain) -> Smoothed:
    """Eliminate every second site, smooth the others in the same way, and come back to those eliminated."""
    size = chain.sites.shape[-2]
    own, gone = chain.sites[0::2], chain.sites[1::2]
    inverse, log_det = linalg.inverse_and_log_det((gone if len(gone) else own)[..., :size], WHAT)
    if not len(gone):
        mean = (inverse @ own[..., size:])[..., 0]
        return Smoothed(mean, inverse, inverse[1:], log_det[0])
    # A last site without a successor gets one that it does not depend on.
    left, right = chain.below[0::2], _lengthened(chain.below[1::2], len(gone))
    sides = torch.cat([left, right.mT], -1)
    reduced = inverse @ torch.cat([left, gone[..., size:], right.mT], -1)
    rest = _smoothed_rest(own, sides.mT @ reduced)
    gain = torch.cat([reduced[..., :size], reduced[..., size + 1 :]], -1)
    return _come_back(rest, inverse, gain, reduced[..., size], log_det.sum(0))


def _smoothed_rest(own: Float[Tensor, "R N K _"], schur: Float[Tensor, "G N _ _"]) -> Smoothed:
    """The sites that are left, less [L | h | Rᵀ]ᵀJ⁻¹[L | h | Rᵀ] of those between them."""
    size, last = own.shape[-2], len(own) - 1
    to_left, to_right = schur[..., :size, : size + 1], schur[:last, ..., size:, :]
    turned = torch.cat([to_right[..., size + 1 :], to_right[..., size : size + 1]], -1)
    sites = own - _lengthened(to_left, len(own)) - pad(turned, (0, 0, 0, 0, 0, 0, 1, 0))
    return by_halves(Chain(sites, -to_right[..., :size]))


def _come_back(rest: Smoothed, inverse: Tensor, gain: Tensor, own: Tensor, log_det: Tensor) -> Smoothed:
    """The sites between: Σ_e = J⁻¹ + GΣ_lrGᵀ, m_e = J⁻¹h − Gm_lr, given the joint moments of left and right."""
    count, size = len(inverse), inverse.shape[-1]
    pairs = _lengthened(rest.pairwise, count)
    moments = torch.cat([rest.covariance, rest.mean[..., None]], -1)
    left, right = moments[:count], _lengthened(moments[1:], count)
    top = torch.cat([left[..., :size], pairs.mT, left[..., size:]], -1)
    bottom = torch.cat([pairs, right], -1)
    across = gain @ torch.cat([top, bottom], -2)
    covariance = inverse + across[..., : 2 * size] @ gain.mT
    mean = own - across[..., -1]
    with_left, with_right = -across[..., :size], -across[..., size : 2 * size].mT
    every = len(rest.mean) + count
    return Smoothed(
        _interleaved(rest.mean, mean),
        _interleaved(rest.covariance, covariance),
        _interleaved(with_left, with_right)[: every - 1],
        rest.log_det + log_det,
    )


def _lengthened(values: Float[Tensor, "a N k l"], count: int) -> Float[Tensor, "b N k l"]:
    """Zeros at the end, up to `count`; at most one is missing."""
    return values if len(values) >= count else pad(values, (0, 0, 0, 0, 0, 0, 0, count - len(values)))


def _interleaved(even: Float[Tensor, "a N *k"], odd: Float[Tensor, "b N *k"]) -> Float[Tensor, "c N *k"]:
    """even₀, odd₀, even₁, odd₁, …; `even` may have one more."""
    both = torch.stack([even[: len(odd)], odd], 1).flatten(0, 1)
    return torch.cat([both, even[len(odd) :]]) if len(even) > len(odd) else both


# ---- forwards in time --------------------------------------------------------------------------------


def moved(step: Transition, state: LatentState, push: Float[Tensor, "N K"] | None = None) -> LatentState:
    """One step later, pushed by so much, with nothing seen there: in covariances, where nothing cancels."""
    mean = (step.A @ state.mean[..., None])[..., 0]
    return LatentState(mean if push is None else mean + push, step.A @ state.covariance @ step.A.mT + step.Q)


def updated(state: LatentState, h: Float[Tensor, "N K"], W: Float[Tensor, "N K K"]) -> LatentState:
    """Times exp(hᵀz − ½ zᵀWz)."""
    precision, _ = linalg.inverse_and_log_det(state.covariance, "a predicted covariance")
    covariance, _ = linalg.inverse_and_log_det(precision + W, "a filtered precision")
    shift = (precision @ state.mean[..., None])[..., 0] + h
    return LatentState((covariance @ shift[..., None])[..., 0], covariance)


def stacked(states: Sequence[LatentState]) -> LatentState:
    """States of one time each, [N, …], as one of all times, [N, T, …]."""
    means, covariances = zip(*states, strict=True)
    return LatentState(torch.stack(means, 1), torch.stack(covariances, 1))


def drawn(q: Smoothed, noise: Float[Tensor, "T N K"]) -> Float[Tensor, "T N K"]:
    """A joint draw from standard normal noise: every site given the one before it."""
    before = linalg.inverse_and_log_det(q.covariance[:-1], "a posterior covariance")[0]
    gain = q.pairwise @ before
    spread = torch.cat([q.covariance[:1], q.covariance[1:] - gain @ q.pairwise.mT])
    own = (linalg.cholesky(spread, "a conditional covariance of the linear dynamics") @ noise[..., None]).unbind()
    around = [own[0]]
    for each, along in zip(own[1:], gain.unbind(), strict=True):
        around.append(along @ around[-1] + each)
    return q.mean + torch.stack(around)[..., 0]


def accumulated(A: Float[Tensor, "K K"], increments: Float[Tensor, "N T K"]) -> Float[Tensor, "N T K"]:
    """x_t = A x_{t−1} + increment_t from x_0 = 0, in log₂ T rounds: each doubles how far back a sum reaches."""
    x, power, reach = increments, A, 1
    while reach < x.shape[1]:
        x = x + pad(x[:, :-reach] @ power.mT, (0, 0, reach, 0))
        power, reach = power @ power, 2 * reach
    return x


def noise_like(values: Float[Tensor, "*b"], generator: torch.Generator) -> Float[Tensor, "*b"]:
    """Standard normal numbers."""
    return torch.randn(values.shape, generator=generator, dtype=values.dtype, device=values.device)


# ---- what the model reads ----------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearDynamicsPosterior(Posterior):
    """q(Z) of linear dynamics: marginals, covariances of neighbours, KL, joint draws."""

    family: Continuous
    potentials: Float[Tensor, "N T D"]
    """Zero at sites that do not exist, where the marginals are forecasts."""
    smoothed: Smoothed
    """Time first; in double precision, as is `log_z`."""
    log_z: Float[Tensor, "N"]

    def _rounded(self, values: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        return values.to(self.potentials.dtype)

    @property
    def latent_mean(self) -> Float[Tensor, "N T K"]:
        """m of every site."""
        return self._rounded(self.smoothed.mean.transpose(0, 1))

    @property
    def covariance(self) -> Float[Tensor, "N T K K"]:
        """S of every site."""
        return self._rounded(self.smoothed.covariance.transpose(0, 1))

    @property
    def pairwise(self) -> Float[Tensor, "N S K K"]:
        """Cov(z_{t+1}, z_t), of the S = T − 1 steps."""
        return self._rounded(self.smoothed.pairwise.transpose(0, 1))

    @property
    def log_partition(self) -> Float[Tensor, "N"]:
        """log ∫ p(Z) exp(Σ potentials·t): with the exact potentials, log W (eq 4)."""
        return self._rounded(self.log_z)

    @cached_property
    def _moments(self) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "..."]]:
        """Mean, and covariance in the family's form."""
        spread = self.family.spread(self.smoothed.covariance.transpose(0, 1)[:, :, None])
        return self.smoothed.mean.transpose(0, 1), spread

    @cached_property
    def _mu(self) -> Float[Tensor, "N T D"]:
        return self.family.mean_parameter(*self._moments)

    @cached_property
    def eta(self) -> Float[Tensor, "N T D"]:
        """η_q of every site."""
        return self._rounded(self.family.natural(*self._moments))

    @cached_property
    def mu(self) -> Float[Tensor, "N T D"]:
        """μ_q of every site."""
        return self._rounded(self._mu)

    @cached_property
    def kl(self) -> Float[Tensor, "N"]:
        """Σ_t potentials·μ_q − log_partition."""
        return self._rounded((self.potentials * self._mu).sum((1, 2)) - self.log_z)

    def draw(self, generator: torch.Generator) -> tuple[Float[Tensor, "N T K"], Float[Tensor, "N"]]:
        """Jointly over the sites of every trial; log p/q = log_partition − Σ_t potentials·t(z_t)."""
        z = drawn(self.smoothed, noise_like(self.smoothed.mean, generator)).transpose(0, 1)
        said = self.potentials * cast(Family, self.family).statistic(z)
        return self._rounded(z), self._rounded(self.log_z - said.sum((1, 2)))
