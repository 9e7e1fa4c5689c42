"""Length scales of a kernel, wherever in it they are, and priors whose latents have some."""

from abc import abstractmethod

import torch
from gpytorch.kernels import Kernel, PeriodicKernel
from jaxtyping import Float
from torch import Tensor

from rpmodels.carriers import Doubles
from rpmodels.families import Gaussian
from rpmodels.priors.prior import Prior


def parts_with_scales(kernel: Kernel) -> list[Kernel]:
    """Every part of the kernel that has a length scale."""
    return [part for part in kernel.modules() if isinstance(part, Kernel) and part.has_lengthscale]


@torch.no_grad()
def stretch(kernel: Kernel, times: float) -> None:
    """Make every length scale (of a periodic part, its period) this many times as long."""
    for part in parts_with_scales(kernel):
        name = "period_length" if isinstance(part, PeriodicKernel) else "lengthscale"
        setattr(part, name, getattr(part, name) * times)


@torch.no_grad()
def set_scales(kernel: Kernel, scales: Float[Tensor, "K"]) -> None:
    """Of the first part that has one; their median where all latents share it.

    A period is no length scale: kernels that begin with one stay as they are.
    """
    parts = parts_with_scales(kernel)
    if parts and not isinstance(parts[0], PeriodicKernel):
        present = parts[0].lengthscale
        wanted = scales if present.numel() == len(scales) else scales.median().expand(present.numel())
        parts[0].lengthscale = wanted.to(present).reshape(present.shape)


class HasLengthScales(Prior[Gaussian]):
    """Latents that are smooth in time by a kernel, on a clock of its own."""

    kernel: Kernel
    clock: Doubles
    """Origin and unit."""

    @property
    @abstractmethod
    def latents(self) -> int:
        """K."""

    @property
    @abstractmethod
    def approach(self) -> str:
        """By what its posteriors are found, in words."""

    @property
    def time_origin(self) -> float:
        """Where the prior's clock begins."""
        return float(self.clock.values[0])

    @property
    def time_scale(self) -> float:
        """The unit of the prior's clock."""
        return float(self.clock.values[1])

    def length_scales(self) -> Float[Tensor, "K"]:
        """In the user's units of time, of the first part of the kernel that has one; NaN where none has."""
        parts = parts_with_scales(self.kernel)
        unit = self.clock.values[1]
        scale = parts[0].lengthscale.detach().reshape(-1) if parts else unit.new_full((1,), torch.nan)
        in_time: Tensor = scale * unit
        return in_time.expand(self.latents)

    def stretch(self, times: float) -> None:
        """Make every length scale (of a periodic part, its period) this many times as long."""
        stretch(self.kernel, times)

    def set_length_scales(self, scales: Float[Tensor, "K"]) -> None:
        """In the user's units of time, where the kernel has some."""
        set_scales(self.kernel, scales / self.time_scale)

    def _on_clock(self, times: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """In double: times may be stamps with more digits than float32."""
        origin, scale = self.clock.values
        scaled: Tensor = (times - origin) / scale
        return scaled
