"""Gaussian chains in conditional form: each state given the one before it, whatever the covariance of the step.

`block_tridiagonal` wants the precision of every step. A smooth process on short steps has none to speak of: its noise
shrinks with the fifth power of the step, its precision grows as much, and sums of such numbers have no digits left.
Here only covariances and potentials are added, each positive semi-definite. The way is the same, cyclic reduction:
every second state is integrated out and the two links around it become one, in log₂ T rounds; on the way back each of
those states is found (or drawn) given both of its neighbours. The links are the first axis, N is how many chains there
are, vectors are columns.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels.linalg.block_tridiagonal import interleaved
from rpmodels.linalg.dense import cholesky, inverse_and_log_det


class Links(NamedTuple):
    """x_{t+1} | x_t ~ N(A x_t + b, C), times exp(hᵀx_t − ½ x_tᵀJ x_t).

    The first begins at x₀ = 0, the last leads to a state of which nothing is said.
    """

    A: Float[Tensor, "L N d d"]
    b: Float[Tensor, "L N d 1"]
    C: Float[Tensor, "L N d d"]
    h: Float[Tensor, "L N d 1"]
    J: Float[Tensor, "L N d d"]


class Between(NamedTuple):
    """A state given its neighbours: N(left x_l + right x_r + shift, spread)."""

    left: Float[Tensor, "M N d d"]
    right: Float[Tensor, "M N d d"]
    shift: Float[Tensor, "M N d 1"]
    spread: Float[Tensor, "M N d d"]


class Round(NamedTuple):
    """Every second link, and the states after them, which are integrated out."""

    first: Links
    between: Between


class Reduced(NamedTuple):
    """What every round has integrated out, and what all of it comes to."""

    rounds: tuple[Round, ...]
    whole: Links
    """The one link that is left."""
    log_z: Float[Tensor, "N"]
    """log of the integral over all states."""

    @property
    def last(self) -> Float[Tensor, "N d d"]:
        """The covariance of the last state."""
        return self.whole.C[0]


class Known(NamedTuple):
    """States that are known in so far, from the first to the last, and how neighbours go together."""

    mean: Float[Tensor, "S N d 1"]
    covariance: Float[Tensor, "S N d d"]
    pairs: Float[Tensor, "R N d d"]
    """Cov of each and the next."""


class Moments(NamedTuple):
    """Of every state between the first and the last."""

    mean: Float[Tensor, "T N d 1"]
    covariance: Float[Tensor, "T N d d"]


def reduced(links: Links, what: str) -> Reduced:
    """Integrate every second state out, and again among those left; `what` names the chain where it fails."""
    rounds: list[Round] = []
    log_z = links.A.new_zeros(links.A.shape[1])
    while (count := len(links.A) // 2) > 0:
        first, second = (Links(*(each[start : 2 * count : 2] for each in links)) for start in (0, 1))
        joint, between, gained = _joined(first, second, what)
        log_z = log_z + gained.sum(0)
        rounds.append(Round(first, between))
        alone = len(links.A) > 2 * count
        links = Links(*map(torch.cat, zip(joint, (each[-1:] for each in links), strict=True))) if alone else joint
    return Reduced(tuple(rounds), links, log_z)


def _joined(first: Links, second: Links, what: str) -> tuple[Links, Between, Float[Tensor, "M N"]]:
    """Two links as one, the state m between them, and the logarithm of what integrating it gives.

    What is said of m makes N(μ, C₁) of its past N(D(μ + C₁h), DC₁), with D = (I + C₁J)⁻¹ = L(I + LᵀJL)⁻¹L⁻¹.
    """
    root = cholesky(first.C, what)
    eye = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    inner, log_det = inverse_and_log_det(eye + root.mT @ second.J @ root, what)
    half = root @ inner
    C = half @ root.mT
    D: Tensor = torch.linalg.solve_triangular(root, half, upper=False, left=False)
    A, b = D @ first.A, D @ first.b + C @ second.h
    # What is said of m, as it is heard at its left neighbour.
    J, h = D.mT @ second.J, D.mT @ second.h
    heard = h - J @ first.b
    says = 0.5 * (second.h.mT @ C @ second.h + (h + heard).mT @ first.b)[..., 0, 0] - 0.5 * log_det
    # m given its right neighbour, too.
    across = second.A @ C
    P = across @ second.A.mT + second.C
    gain = (inverse_and_log_det(P, what)[0] @ across).mT
    rest = eye - gain @ second.A
    spread = rest @ C @ rest.mT + gain @ second.C @ gain.mT
    forward = second.A @ b + second.b
    joint = Links(
        second.A @ A, forward, P, first.h + first.A.mT @ heard, first.J + first.A.mT @ (0.5 * (J + J.mT)) @ first.A
    )
    return joint, Between(rest @ A, gain, rest @ b - gain @ second.b, 0.5 * (spread + spread.mT)), says


def moments(chain: Reduced) -> Moments:
    """Of every state."""
    known = expanded(chain, at_both_ends(chain))
    return Moments(known.mean[1:-1], known.covariance[1:-1])


def at_both_ends(chain: Reduced) -> Known:
    """x₀ = 0, and the last state."""
    nothing = torch.zeros_like(chain.last)
    covariance = torch.stack([nothing, chain.last])
    return Known(covariance[..., :1] * 0.0, covariance, nothing[None])


def expanded(chain: Reduced, known: Known) -> Known:
    """All states, from those at both ends."""
    mean, covariance, pairs = known
    for _, (left, right, shift, spread) in reversed(chain.rounds):
        count = len(left)
        begins, ends, pair = covariance[:count], covariance[1 : count + 1], pairs[:count]
        with_left = left @ begins + right @ pair.mT
        with_right = left @ pair + right @ ends
        middle = spread + with_left @ left.mT + with_right @ right.mT
        mean = interleaved(mean, left @ mean[:count] + right @ mean[1 : count + 1] + shift)
        covariance = interleaved(covariance, 0.5 * (middle + middle.mT))
        pairs = torch.cat([interleaved(with_left.mT, with_right), pairs[count:]])
    return Known(mean, covariance, pairs)


def drawn(
    chain: Reduced, noise: Float[Tensor, "T N d 1"], ends: Float[Tensor, "2 N d 1"] | None = None
) -> Float[Tensor, "T N d 1"]:
    """A joint draw of all states from standard normal noise: each between its neighbours, which are drawn before it.

    `ends`: states at both ends, where these are drawn already.
    """
    states, begun = torch.zeros_like(noise[:1]).repeat(2, 1, 1, 1) if ends is None else ends, 0
    for _, (left, right, shift, spread) in reversed(chain.rounds):
        count = len(left)
        own = cholesky(spread, "a conditional covariance of a chain") @ noise[begun : begun + count]
        states = interleaved(states, left @ states[:count] + right @ states[1 : count + 1] + shift + own)
        begun += count
    return states[1:-1]


def ahead(chain: Reduced, what: str, begin: Moments | None = None) -> Moments:
    """Of every state given what is said of those before it, the last included: a filter in log₂ T rounds.

    `begin`: the same of the state where the chain begins, where that is not x₀ = 0.
    """
    if begin is None:
        mean, covariance = torch.zeros_like(chain.last[..., :1])[None], chain.last[None]
    else:
        mean, covariance = _moved(chain.whole, *begin, what)
    for first, _ in reversed(chain.rounds):
        count = len(first.A)
        if begin is None:
            later = _moved(Links(*(each[1:] for each in first)), mean[: count - 1], covariance[: count - 1], what)
            new = Moments(torch.cat([first.b[:1], later.mean]), torch.cat([first.C[:1], later.covariance]))
        else:
            begins = torch.cat([begin.mean, mean[: count - 1]]), torch.cat([begin.covariance, covariance[: count - 1]])
            new = _moved(first, *begins, what)
        mean = torch.cat([interleaved(new.mean, mean[:count]), mean[count:]])
        covariance = torch.cat([interleaved(new.covariance, covariance[:count]), covariance[count:]])
    return Moments(mean, covariance)


def _moved(links: Links, mean: Float[Tensor, "M N d 1"], covariance: Float[Tensor, "M N d d"], what: str) -> Moments:
    """Along these links, with what each of them says of where it begins."""
    root = cholesky(covariance, what)
    eye = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
    known = root @ inverse_and_log_det(eye + root.mT @ links.J @ root, what)[0] @ root.mT
    there = mean + known @ (links.h - links.J @ mean)
    return Moments(links.A @ there + links.b, links.A @ known @ links.A.mT + links.C)
