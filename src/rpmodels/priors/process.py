"""What all priors of Gaussian processes have, whether through inducing points or as chains."""

from abc import abstractmethod

import torch
from gpytorch.kernels import Kernel
from jaxtyping import Float
from torch import Tensor

from rpmodels.carriers import Doubles, Sites
from rpmodels.families import Gaussian
from rpmodels.priors import length_scales
from rpmodels.priors.kalman import LatentState
from rpmodels.priors.prior import Prior


class ProcessPrior(Prior[Gaussian]):
    """K Gaussian processes with a kernel, on a clock of its own, however their posteriors are found."""

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

    @abstractmethod
    def filter(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> LatentState:
        """Moments of every site given the potentials of the past and the present alone."""

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
        parts = length_scales.parts_with_scales(self.kernel)
        unit = self.clock.values[1]
        scale = parts[0].lengthscale.detach().reshape(-1) if parts else unit.new_full((1,), torch.nan)
        in_time: Tensor = scale * unit
        return in_time.expand(self.latents)

    def stretch(self, times: float) -> None:
        """Make every length scale (of a periodic part, its period) this many times as long."""
        length_scales.stretch(self.kernel, times)

    def set_length_scales(self, scales: Float[Tensor, "K"]) -> None:
        """In the user's units of time, where the kernel has some."""
        length_scales.set_scales(self.kernel, scales / self.time_scale)

    def _on_clock(self, times: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
        """In double: times may be stamps with more digits than float32."""
        origin, scale = self.clock.values
        scaled: Tensor = (times - origin) / scale
        return scaled
