"""A Gaussian chain whose latents are spoken of one by one, by compiled loops: two numbers a site are kept, no more."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import errors, kernels
from rpmodels.priors.conditioned_chain import WHAT, ConditionedChain, LatentMoments, Said

UNROLLED = 4
"""Numbers of a state up to which loops over them are unrolled: a few seconds to compile, once."""


class _Smoothed(torch.autograd.Function):
    """Mean, variance and log Z of every chain, and the gradient by the same two passes the other way round."""

    @staticmethod
    def forward(ctx: Any, *said: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ctx.save_for_backward(*said)
        A, C, which, h, w = _arrays(said)
        mean, variance, log_z = torch.empty_like(said[3]), torch.empty_like(said[3]), said[3][:, 0].clone()
        outputs = (each.numpy() for each in (mean, variance, log_z))
        kernels.loops("state_chain").smooth(_dims(A), A, C, which, h, w, *outputs)
        failed = ~torch.isfinite(log_z)
        if bool(failed.any()):
            raise errors.not_positive_definite(WHAT, int(failed.sum()), failed.numel(), 0.0)
        return mean, variance, log_z

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        said = ctx.saved_tensors
        found = [torch.zeros_like(said[place], memory_format=torch.contiguous_format) for place in (0, 1, 3, 4)]
        arrays = [*_arrays(said), *_arrays(grads)]
        kernels.loops("state_chain").pull(_dims(arrays[0]), *arrays, *(each.numpy() for each in found))
        return found[0], found[1], None, found[2], found[3]


def _arrays(tensors: Sequence[Tensor]) -> list[NDArray[Any]]:
    """Numbers for compiled loops; places are whole ones."""
    return [kernels.array(each) if each.is_floating_point() else each.contiguous().numpy() for each in tensors]


def _dims(A: NDArray[Any]) -> Any:
    """As long as a state: of small ones a tuple, for which loops are compiled by themselves."""
    d = A.shape[-1]
    return (0,) * d if d <= UNROLLED else np.zeros(d)


@dataclass(frozen=True)
class ConditionedCompiled(ConditionedChain):
    """What compiled loops give; filters and draws are those of `general`, which is the same in torch."""

    said: Said
    general: ConditionedChain

    @cached_property
    def _smoothed(self) -> tuple[Tensor, Tensor, Tensor]:
        A, C, which, h, W = self.said
        # The last link leads to no site, and each says what it does of where it begins: the site before.
        smoothed: tuple[Tensor, Tensor, Tensor]
        smoothed = _Smoothed.apply(A, C, which[:, :-1], h[:, 1:, :, 0], W[:, 1:, :, 0, 0])  # type: ignore[no-untyped-call]
        return smoothed

    @property
    def log_z(self) -> Float[Tensor, "N"]:
        """Of all groups."""
        return self._smoothed[2].sum(1)

    @cached_property
    def marginals(self) -> LatentMoments:
        """There and back."""
        return LatentMoments(self._smoothed[0][..., None], self._smoothed[1][..., None, None])

    @property
    def ahead(self) -> LatentMoments:
        """As in torch."""
        return self.general.ahead

    def draw(self, generator: torch.Generator) -> Float[Tensor, "N T G B"]:
        """As in torch."""
        return self.general.draw(generator)
