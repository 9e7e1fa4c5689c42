"""Kernels as chains of states: s_{t+Δ} | s_t ~ N(A(Δ) s_t, Q(Δ)), the latent being the first number of the state.

Matérn kernels are such chains exactly; sums of them stand side by side, products are Kronecker products. The
squared-exponential kernel is one by a stated approximation (`all_pole`), the periodic kernel by its first harmonics
(Solin & Särkkä 2014). Every space knows how far its kernel may be from the one it stands for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import reduce

import torch
from gpytorch.kernels import AdditiveKernel, Kernel, MaternKernel, PeriodicKernel, ProductKernel, RBFKernel, ScaleKernel
from jaxtyping import Float
from torch import Tensor

from rpmodels import errors
from rpmodels.priors import all_pole, matern
from rpmodels.priors.driving import wide
from rpmodels.priors.matern import Steps

MEMORY = 1e9
"""Periods in which a periodic kernel falls by 1/e: a chain needs some noise."""
ANGLES = 256
"""Of a period, at which a periodic kernel is integrated against its harmonics."""
FAINT = 1e-18
"""Variance below which a harmonic is not heard, and above which it stays."""


class StateSpace(ABC):
    """A stationary kernel, or K of them in one, as a chain."""

    size: int
    """Numbers of the state."""
    derivatives: int
    """How many the latent has: rougher ones come first in a sum."""

    @abstractmethod
    def steps(self, gaps: Float[Tensor, "U 1"]) -> Steps:
        """A and Q over these gaps, [U, K or 1, p, p]."""

    @abstractmethod
    def stationary(self) -> Float[Tensor, "K p p"]:
        """The covariance of a state of which nothing is known; K or 1."""

    def error(self) -> Float[Tensor, "K"]:
        """The largest distance of κ from that of its chain, of each latent or of all; zero where the chain is exact."""
        return torch.zeros(1, dtype=torch.float64)

    @property
    def approximate(self) -> bool:
        """Whether it stands for a kernel that is no chain."""
        return False

    def covariance(self, gaps: Float[Tensor, "*b"]) -> Float[Tensor, "*b K"]:
        """κ at these distances, of K or 1 kernels."""
        A = self.steps(gaps.reshape(-1, 1)).A
        first = (A[..., 0, :] * self.stationary()[..., 0]).sum(-1)
        return first.reshape(*gaps.shape, -1)


class Matern(StateSpace):
    """ν = ½, 3/2, 5/2, exactly."""

    def __init__(self, kernel: MaternKernel) -> None:
        self.kernel, self.size = kernel, int(kernel.nu + 0.5)
        self.derivatives = self.size - 1

    def steps(self, gaps: Float[Tensor, "U 1"]) -> Steps:
        """By `matern`."""
        return matern.steps(self.size, gaps * matern.rate(self.size, _flat(self.kernel.lengthscale)))

    def stationary(self) -> Float[Tensor, "K p p"]:
        """Of variance one."""
        return matern.stationary(self.size, _flat(self.kernel.lengthscale))


class SquaredExponential(StateSpace):
    """By p poles."""

    def __init__(self, kernel: RBFKernel, poles: int) -> None:
        self.kernel, self.size, self.derivatives = kernel, poles, poles - 1
        self.process = all_pole.of_order(poles)

    def steps(self, gaps: Float[Tensor, "U 1"]) -> Steps:
        """By `all_pole`."""
        return self.process.steps(gaps * (self.process.rate / _flat(self.kernel.lengthscale)))

    def stationary(self) -> Float[Tensor, "K p p"]:
        """Of variance one."""
        return self.process.P.to(self.kernel.lengthscale.device)[None]

    def error(self) -> Float[Tensor, "K"]:
        """Whatever the length scale."""
        return torch.full((1,), self.process.error, dtype=torch.float64)

    @property
    def approximate(self) -> bool:
        """It has no finite state."""
        return True


class Periodic(StateSpace):
    """exp(−2 sin²(πd/period)/ℓ) by its mean and its first harmonics, and a memory so long that it makes no difference.

    The state is (z, the cosines, the sines), in which z takes the place of the part that stays.
    """

    def __init__(self, kernel: PeriodicKernel, harmonics: int) -> None:
        self.kernel, self.harmonics, self.size = kernel, harmonics, 1 + 2 * harmonics
        self.derivatives = 10**6  # whatever is added to it is rougher

    def _variances(self) -> Float[Tensor, "K J"]:
        """Of the mean and of the harmonics: Fourier coefficients of the kernel."""
        scale = _flat(self.kernel.lengthscale)[:, None]
        angles = torch.arange(ANGLES, dtype=scale.dtype, device=scale.device) * (2.0 * torch.pi / ANGLES)
        order = torch.arange(self.harmonics + 1, dtype=scale.dtype, device=scale.device)
        twice = torch.where(order > 0, 2.0, 1.0)
        found: Tensor = torch.exp((angles.cos() - 1.0) / scale) @ (order * angles[:, None]).cos() * twice / ANGLES
        return found.clamp_min(FAINT)

    def _summed(self) -> Float[Tensor, "p p"]:
        """From (mean, cosines, sines) to the state."""
        T = torch.eye(self.size, dtype=torch.float64, device=self.kernel.lengthscale.device)
        T[0, : self.harmonics + 1] = 1.0
        return T

    def stationary(self) -> Float[Tensor, "K p p"]:
        """Harmonics are independent."""
        variances, T = self._variances(), self._summed()
        return T @ torch.diag_embed(torch.cat([variances, variances[:, 1:]], -1)) @ T.mT

    def steps(self, gaps: Float[Tensor, "U 1"]) -> Steps:
        """Rotations, with next to no noise."""
        turns = gaps / _flat(self.kernel.period_length)
        order = torch.arange(1, self.harmonics + 1, dtype=gaps.dtype, device=gaps.device)
        # Whole turns are left out before they are multiplied: sines of large numbers have few digits.
        angles = 2.0 * torch.pi * ((turns - turns.detach().floor())[..., None] * order)
        cos, sin = torch.diag_embed(angles.cos()), torch.diag_embed(angles.sin())
        turned = torch.cat([torch.cat([cos, sin], -1), torch.cat([-sin, cos], -1)], -2)
        A = torch.nn.functional.pad(turned, (1, 0, 1, 0))
        A[..., 0, 0] = 1.0
        T, fade = self._summed(), (-turns / MEMORY)[..., None, None]
        back = 2.0 * torch.eye(self.size, dtype=gaps.dtype, device=gaps.device) - T
        A = fade.exp() * (T @ A @ back)
        return Steps(A, -torch.expm1(2.0 * fade) * self.stationary())

    def error(self) -> Float[Tensor, "K"]:
        """The harmonics left out, at distance zero, where they all add."""
        return (1.0 - self._variances().sum(-1)).detach().clamp_min(0.0)

    @property
    def approximate(self) -> bool:
        """It has harmonics without end."""
        return True


class Scaled(StateSpace):
    """A kernel times a variance."""

    def __init__(self, kernel: ScaleKernel, inner: StateSpace) -> None:
        self.kernel, self.inner = kernel, inner
        self.size, self.derivatives = inner.size, inner.derivatives

    def _variance(self) -> Float[Tensor, "K 1 1"]:
        return _flat(self.kernel.outputscale)[:, None, None]

    def steps(self, gaps: Float[Tensor, "U 1"]) -> Steps:
        """Noise alone is scaled."""
        A, Q = self.inner.steps(gaps)
        return Steps(A, self._variance() * Q)

    def stationary(self) -> Float[Tensor, "K p p"]:
        """The same."""
        return self._variance() * self.inner.stationary()

    def error(self) -> Float[Tensor, "K"]:
        """The same."""
        return self._variance()[:, 0, 0].detach().cpu() * self.inner.error().cpu()

    @property
    def approximate(self) -> bool:
        """As what is scaled."""
        return self.inner.approximate


class Sum(StateSpace):
    """States side by side, the first number of the rougher replaced by the sum of both first numbers."""

    def __init__(self, one: StateSpace, other: StateSpace) -> None:
        # The smoother's own steps would have no digits beside those of the rougher one, if these were taken from z.
        self.rough, self.smooth = (one, other) if one.derivatives <= other.derivatives else (other, one)
        self.size, self.derivatives = one.size + other.size, self.rough.derivatives

    def _summed(self, like: Tensor) -> Float[Tensor, "p p"]:
        T = torch.eye(self.size, dtype=like.dtype, device=like.device)
        T[0, self.rough.size] = 1.0
        return T

    def steps(self, gaps: Float[Tensor, "U 1"]) -> Steps:
        """Block by block, seen from the sum."""
        rough, smooth = self.rough.steps(gaps), self.smooth.steps(gaps)
        T = self._summed(gaps)
        back = 2.0 * torch.eye(self.size, dtype=gaps.dtype, device=gaps.device) - T
        return Steps(T @ _side_by_side(rough.A, smooth.A) @ back, T @ _side_by_side(rough.Q, smooth.Q) @ T.mT)

    def stationary(self) -> Float[Tensor, "K p p"]:
        """The same."""
        joint = _side_by_side(self.rough.stationary(), self.smooth.stationary())
        T = self._summed(joint)
        return T @ joint @ T.mT

    def error(self) -> Float[Tensor, "K"]:
        """They add."""
        return self.rough.error() + self.smooth.error()

    @property
    def approximate(self) -> bool:
        """If one is."""
        return self.rough.approximate or self.smooth.approximate


class Product(StateSpace):
    """Every number of one state times every number of the other."""

    def __init__(self, one: StateSpace, other: StateSpace) -> None:
        self.one, self.other, self.size = one, other, one.size * other.size
        self.derivatives = min(one.derivatives, other.derivatives)

    def steps(self, gaps: Float[Tensor, "U 1"]) -> Steps:
        """P₁⊗P₂ − A₁P₁A₁ᵀ⊗A₂P₂A₂ᵀ = P₁⊗Q₂ + Q₁⊗A₂P₂A₂ᵀ, in which nothing is subtracted."""
        one, other = self.one.steps(gaps), self.other.steps(gaps)
        P = self.other.stationary()
        kept = other.A @ P @ other.A.mT
        return Steps(_kron(one.A, other.A), _kron(self.one.stationary(), other.Q) + _kron(one.Q, kept))

    def stationary(self) -> Float[Tensor, "K p p"]:
        """The same."""
        return _kron(self.one.stationary(), self.other.stationary())

    def error(self) -> Float[Tensor, "K"]:
        """Each times what the other is at most, its own error included."""
        one, other = self.one.error(), self.other.error()
        ours, theirs = (each.stationary()[:, 0, 0].detach().cpu() for each in (self.one, self.other))
        return one * (theirs + other) + other * ours

    @property
    def approximate(self) -> bool:
        """If one is."""
        return self.one.approximate or self.other.approximate


def of(kernel: Kernel, poles: int, harmonics: int) -> StateSpace:
    """The chain that a GPyTorch kernel is, or that stands for it."""
    if (kernel.ard_num_dims or 1) != 1 or kernel.active_dims is not None:
        raise errors.not_markovian(f"a {type(kernel).__name__} over several inputs, or over some of them")
    made: dict[type, Callable[..., StateSpace]] = {
        MaternKernel: Matern,
        RBFKernel: lambda each: SquaredExponential(each, poles),
        PeriodicKernel: lambda each: Periodic(each, harmonics),
        ScaleKernel: lambda each: Scaled(each, of(each.base_kernel, poles, harmonics)),
        AdditiveKernel: lambda each: reduce(Sum, _parts(list(each.kernels), poles, harmonics)),
        ProductKernel: lambda each: reduce(Product, _parts(list(each.kernels), poles, harmonics)),
    }
    if type(kernel) not in made:
        raise errors.not_markovian(f"a {type(kernel).__name__}")
    return made[type(kernel)](kernel)


def is_chain(kernel: Kernel) -> bool:
    """Whether there is one."""
    try:
        of(kernel, min(all_pole.POLES), 1)
    except errors.BuildError:
        return False
    return True


def _parts(kernels: Iterable[Kernel], poles: int, harmonics: int) -> list[StateSpace]:
    return [of(each, poles, harmonics) for each in kernels]


def _flat(values: Float[Tensor, "..."]) -> Float[Tensor, "K"]:
    return wide(values).reshape(-1)


def _side_by_side(one: Float[Tensor, "*b p p"], other: Float[Tensor, "*c q q"]) -> Float[Tensor, "*d r r"]:
    shape = torch.broadcast_shapes(one.shape[:-2], other.shape[:-2])  # type: ignore[no-untyped-call]
    p, q = one.shape[-1], other.shape[-1]
    pad = torch.nn.functional.pad
    return pad(one.expand(*shape, p, p), (0, q, 0, q)) + pad(other.expand(*shape, q, q), (p, 0, p, 0))


def _kron(one: Float[Tensor, "*b p p"], other: Float[Tensor, "*c q q"]) -> Float[Tensor, "*d r r"]:
    both = one[..., :, None, :, None] * other[..., None, :, None, :]
    return both.flatten(-2).flatten(-3, -2)
