"""Von Mises: angles, t(z) = [cos z, sin z], η = κ [cos θ, sin θ] with mean direction θ and concentration κ ≥ 0.

Every vector of the plane is a natural parameter, zero is the uniform distribution, and potentials of any sign add up:
two factors that contradict each other leave less than either.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rpmodels.families.family import HasDomain, HasGrid, HasStatisticCovariance, Samplable
from rpmodels.linalg import LOG_2PI

SMALLEST = 1e-8
"""Concentrations below are as good as none: A(κ)/κ is ½ there in either precision."""
LARGE = 50.0
"""From here on 1 − A/κ − A² would cancel, and its expansion in 1/κ is right to all digits."""


@dataclass(frozen=True)
class VonMises(HasDomain, HasStatisticCovariance, HasGrid, Samplable):
    """One angle, in (−π, π]."""

    @property
    def natural_size(self) -> int:
        """Cosine and sine."""
        return 2

    @property
    def raw_size(self) -> int:
        """As many."""
        return 2

    def concentration(self, eta: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b"]:
        """κ = ‖η‖, at least `SMALLEST`, so that its derivative exists."""
        return eta.square().sum(-1).clamp_min(SMALLEST**2).sqrt()

    def direction(self, eta: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b"]:
        """θ, where there is one."""
        return torch.atan2(eta[..., 1], eta[..., 0])

    def log_normaliser(self, eta: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b"]:
        """Φ = log 2π I₀(κ)."""
        value: Tensor = _LogNormaliser.apply(eta)  # type: ignore[no-untyped-call]
        return value

    def mean(self, eta: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 2"]:
        """A(κ) [cos θ, sin θ] with A = I₁/I₀, the resultant length."""
        kappa = self.concentration(eta)
        return eta * (_resultant(kappa) / kappa)[..., None]

    def statistic(self, z: Float[Tensor, "*b"]) -> Float[Tensor, "*b 2"]:
        """[cos z, sin z]."""
        return torch.stack([z.cos(), z.sin()], -1)

    def to_valid(self, raw: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 2"]:
        """Every vector is valid."""
        return raw

    def to_raw(self, eta: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 2"]:
        """As it is."""
        return eta

    def to_potential(self, raw: Float[Tensor, "*b 2"]) -> Float[Tensor, "*b 2"]:
        """Every vector is a potential."""
        return raw

    def valid(self, eta: Float[Tensor, "*b 2"]) -> Bool[Tensor, "*b"]:
        """Wherever it is finite."""
        return torch.isfinite(eta).all(-1)

    def covariance_root(self, eta_q: Float[Tensor, "*b 2"], g: Float[Tensor, "*c 2"]) -> Float[Tensor, "..."]:
        """V_q has 1 − A/κ − A² along the mean and A/κ across: g in these two directions, times the roots."""
        # In double precision: g across the mean is a small difference where the mean is almost certain.
        eta, wide = eta_q.double(), g.double()
        kappa = self.concentration(eta)
        resultant = _resultant(kappa)
        east = torch.tensor([1.0, 0.0], dtype=eta.dtype, device=eta.device)
        along = torch.where((kappa > SMALLEST)[..., None], eta / kappa[..., None], east)
        across = torch.stack([-along[..., 1], along[..., 0]], -1)
        first = _slope(kappa, resultant).sqrt() * (along * wide).sum(-1)
        second = (resultant / kappa).sqrt() * (across * wide).sum(-1)
        return torch.stack([first, second], -1).to(eta_q.dtype)

    def basis(self) -> Float[Tensor, "P D"]:
        """The statistic is minimal."""
        return torch.eye(2)

    def grid(self, points: int) -> tuple[Float[Tensor, "Q"], float]:
        """Equal steps around the circle: of smooth functions the sum is the integral but for exp(−points)."""
        step = 2.0 * torch.pi / points
        return torch.arange(points, dtype=torch.float64) * step - torch.pi + step, step

    def sample(self, eta: Float[Tensor, "*b 2"], generator: torch.Generator) -> Float[Tensor, "*b"]:
        """By rejection from a wrapped Cauchy distribution (Best and Fisher, 1979), in double precision."""
        kappa = self.concentration(eta.double()).flatten()
        turned = torch.empty_like(kappa)
        left = torch.arange(len(kappa), device=kappa.device)
        while len(left):
            cosine, sign, accepted = _proposed(kappa[left], generator)
            turned[left[accepted]] = (sign * torch.acos(cosine))[accepted]
            left = left[~accepted]
        angle = turned.view(eta.shape[:-1]) + self.direction(eta.double())
        wrapped: Tensor = torch.pi - torch.remainder(torch.pi - angle, 2.0 * torch.pi)
        return wrapped.to(eta.dtype)


def _resultant(kappa: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """A(κ) = I₁/I₀."""
    length: Tensor = torch.special.i1e(kappa) / torch.special.i0e(kappa)
    return length


def _slope(kappa: Float[Tensor, "*b"], resultant: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """A′ = 1 − A/κ − A², the variance along the mean."""
    inverse = 1.0 / kappa.clamp_min(LARGE)
    expanded = torch.zeros_like(kappa)
    for each in reversed(EXPANSION):
        expanded = (expanded + each) * inverse
    return torch.where(kappa < LARGE, 1.0 - resultant / kappa - resultant.square(), expanded)


def _expansion(terms: int) -> list[float]:
    """Coefficients of 1/κ, 1/κ², … of A′: A = Σ aₙ κ⁻ⁿ is put into A′ = 1 − A/κ − A²."""
    a = [1.0]
    for m in range(1, terms):
        a.append(0.5 * ((m - 2) * a[m - 1] - sum(a[i] * a[m - i] for i in range(1, m))))
    return [0.0, *(-n * each for n, each in enumerate(a[1:], start=1))]


EXPANSION = _expansion(9)


def _proposed(
    kappa: Float[Tensor, "n"], generator: torch.Generator
) -> tuple[Float[Tensor, "n"], Float[Tensor, "n"], Bool[Tensor, "n"]]:
    """The cosine of a proposed angle from the mean, its side, and whether it is accepted."""
    tau = 1.0 + (1.0 + 4.0 * kappa.square()).sqrt()
    rho = 2.0 * kappa / (tau + (2.0 * tau).sqrt())
    r = (1.0 + rho.square()) / (2.0 * rho)
    u = torch.rand(3, len(kappa), generator=generator, dtype=kappa.dtype, device=kappa.device)
    z = torch.cos(torch.pi * u[0])
    cosine = ((1.0 + r * z) / (r + z)).clamp(-1.0, 1.0)
    c = kappa * (r - cosine)
    return cosine, torch.where(u[2] < 0.5, -1.0, 1.0).to(kappa), c.log() + 1.0 - c >= u[1].log()


class _LogNormaliser(torch.autograd.Function):
    """Φ, whose derivative is the mean parameter: right where κ is zero as well."""

    @staticmethod
    def forward(ctx: Any, eta: Tensor) -> Tensor:
        ctx.save_for_backward(eta)
        kappa = VonMises().concentration(eta)
        scaled: Tensor = torch.special.i0e(kappa)
        return scaled.log_().add_(kappa).add_(LOG_2PI)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (eta,) = ctx.saved_tensors
        return VonMises().mean(eta) * grads[0][..., None]
