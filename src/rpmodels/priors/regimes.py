"""What states do to latents: z_{t+1} = A_s z_t + b_s + w_t with w ~ N(0, Q_s), learned in closed form.

With u = (z′z′ᵀ, z′zᵀ, zzᵀ, z′, z, 1) a step into state s is log p(z′ | z, s) = θ_s·u. So averages over states are
averages of θ, by which latents are smoothed, and ⟨log p(z′ | z, s)⟩ over latents is θ_s·⟨u⟩, by which states are.

What is kept are the sums that the M-step needs, of y = (z, 1) and of z′; A, b and Q follow from them. A conjugate prior
is worth a part of a step, so that a state where nothing happens has dynamics as well.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rpmodels import linalg
from rpmodels.carriers import kept_double
from rpmodels.linalg.block_tridiagonal import Smoothed
from rpmodels.priors import contraction
from rpmodels.priors.driving import wide

STARTED = 100.0
"""Steps after which learning starts: as if every state had had so many, by the dynamics that it begins with."""
NOISE = 1e-3
"""Variance of a step by the conjugate prior: small beside that of latents, so that quiet states may be quiet."""
WHAT = "the noise of a state"


class Affine(NamedTuple):
    """A, b and Q of every state."""

    A: Float[Tensor, "M K K"]
    b: Float[Tensor, "M K"]
    Q: Float[Tensor, "M K K"]

    def natural(self) -> Float[Tensor, "M E"]:
        """θ of every state."""
        precision, log_det = linalg.inverse_and_log_det(self.Q, WHAT)
        forward = precision @ self.A
        shift = (precision @ self.b[..., None])[..., 0]
        back = (forward.mT @ self.b[..., None])[..., 0]
        constant = -0.5 * (log_det + (shift * self.b).sum(-1) + self.b.shape[-1] * linalg.LOG_2PI)
        squares = (-0.5 * precision, forward, -0.5 * self.A.mT @ forward)
        return torch.cat([*(each.flatten(-2) for each in squares), shift, -back, constant[..., None]], -1)


class Steps(NamedTuple):
    """The parts of an average of θ, or of ⟨u⟩."""

    ends: Float[Tensor, "*b K K"]
    across: Float[Tensor, "*b K K"]
    begins: Float[Tensor, "*b K K"]
    end: Float[Tensor, "*b K"]
    begin: Float[Tensor, "*b K"]
    constant: Float[Tensor, "*b"]

    @staticmethod
    def of(flat: Float[Tensor, "*b E"], size: int) -> "Steps":
        """By its parts."""
        parts = flat.tensor_split([n * size * size for n in (1, 2, 3)], -1)
        ends, across, begins = (torch.unflatten(each, -1, (size, size)) for each in parts[:3])
        return Steps(ends, across, begins, parts[3][..., :size], parts[3][..., size:-1], parts[3][..., -1])


class Counted(NamedTuple):
    """Sums over the steps into every state."""

    steps: Float[Tensor, "M"]
    yy: Float[Tensor, "M K+1 K+1"]
    zy: Float[Tensor, "M K K+1"]
    zz: Float[Tensor, "M K K"]

    @staticmethod
    def from_steps(weights: Float[Tensor, "n M"], u: Float[Tensor, "n E"], size: int) -> "Counted":
        """Of ⟨u⟩, each step as much as it is in a state."""
        whole = Steps.of(weights.mT @ u, size)
        y = torch.cat([whole.begin, whole.constant[:, None]], -1)
        yy = torch.cat([torch.cat([whole.begins, whole.begin[..., None]], -1), y[:, None]], 1)
        return Counted(whole.constant, yy, torch.cat([whole.across, whole.end[..., None]], -1), whole.ends)

    def pooled(self) -> "Counted":
        """Of all states together, as one."""
        return Counted(*(each.sum(0, keepdim=True) for each in self))


class Regimes(nn.Module):
    """The dynamics of every state.

    Args:
        latents: K
        n_states: M
        memory: A of the conjugate prior is memory · I; where learning starts, the same times a rotation
        rotation: by how much (radians per step) rotations of neighbouring states differ at first
        counts: how many steps of every state the conjugate prior is worth

    """

    steps: Tensor
    yy: Tensor
    zy: Tensor
    zz: Tensor

    def __init__(self, latents: int, n_states: int, memory: float, rotation: float, counts: float) -> None:
        super().__init__()
        self.latents, self.n_states, self.memory = latents, n_states, memory
        self.counts = counts
        turns = [rotation * (state - 0.5 * (n_states - 1)) for state in range(n_states)]
        first = torch.stack([contraction.transition(contraction.turning(latents, memory, each)).A for each in turns])
        still = first.new_zeros(n_states, latents)
        noise = (1.0 - memory**2) * torch.eye(latents, dtype=first.dtype).expand(n_states, -1, -1)
        for name, each in _counted(Affine(first, still, noise))._asdict().items():
            self.register_buffer(name, each)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "Regimes":
        return cast("Regimes", super()._apply(kept_double(fn), recurse))  # type: ignore[no-untyped-call]

    @property
    def counted(self) -> Counted:
        """What was seen of every state."""
        return Counted(*(wide(each) for each in (self.steps, self.yy, self.zy, self.zz)))

    def learned(self) -> Affine:
        """A, b and Q: the most probable ones."""
        return self.most_probable(self.counted)

    def overall(self) -> Affine:
        """Of one state in the place of all, from which nothing is known of states."""
        return self.most_probable(self.counted.pooled())

    def most_probable(self, seen: Counted) -> Affine:
        """Given these sums."""
        size, kappa, like = self.latents, self.counts, seen.yy
        eye = torch.eye(size + 1).to(like)
        before = self.memory * eye[:size]
        inverse, _ = linalg.inverse_and_log_det(seen.yy + kappa * eye, "the latents of a state")
        zy = seen.zy + kappa * before
        C = zy @ inverse
        zz = seen.zz + kappa * (before @ before.mT + NOISE * eye[:size, :size])
        Q = (zz - C @ zy.mT) / (seen.steps + kappa)[:, None, None]
        return Affine(C[..., :size], C[..., size], 0.5 * (Q + Q.mT))

    @torch.no_grad()
    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """Running sums; all of the M-step when the batch is the data."""
        for name in Counted._fields:
            kept = getattr(self, name)
            kept.copy_((1.0 - fraction) * kept + sums[name].to(kept))

    @torch.no_grad()
    def restart(self, counted: Counted) -> None:
        """Learn anew from these on."""
        self.update(counted._asdict(), 1.0)


def _counted(dynamics: Affine) -> Counted:
    """Sums from which these dynamics follow, but for the conjugate prior."""
    A, b, Q = dynamics
    C, n = torch.cat([A, b[..., None]], -1), STARTED
    yy = torch.eye(C.shape[-1]).to(C).expand(len(C), -1, -1)
    return Counted(torch.full_like(b[:, 0], n), n * yy, n * C, n * (Q + C @ C.mT))


def expected(q: Smoothed) -> Float[Tensor, "N S E"]:
    """⟨u⟩ of the S = T − 1 steps."""
    mean, covariance = (each.transpose(0, 1) for each in (q.mean, q.covariance))
    second = covariance + mean[..., :, None] * mean[..., None, :]
    across = q.pairwise.transpose(0, 1) + mean[:, 1:, :, None] * mean[:, :-1, None, :]
    squares = (each.flatten(-2) for each in (second[:, 1:], across, second[:, :-1]))
    return torch.cat([*squares, mean[:, 1:], mean[:, :-1], torch.ones_like(mean[:, 1:, :1])], -1)


def of_path(z: Float[Tensor, "*b T K"]) -> Float[Tensor, "*b S E"]:
    """u of the steps of latents that are known."""
    before, after = z[..., :-1, :], z[..., 1:, :]
    pairs = ((after, after), (after, before), (before, before))
    squares = ((one[..., :, None] * other[..., None, :]).flatten(-2) for one, other in pairs)
    return torch.cat([*squares, after, before, torch.ones_like(after[..., :1])], -1)
