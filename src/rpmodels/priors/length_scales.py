"""Length scales of a kernel, wherever in it they are."""

import torch
from gpytorch.kernels import Kernel, PeriodicKernel
from jaxtyping import Float
from torch import Tensor


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
