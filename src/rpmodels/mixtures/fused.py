"""log Σ_m exp(Φ(a + g_m) + w_m) over all pairs of sites and atoms, in blocks that stay in the processor's cache.

The same reduction as in `reduce`, for families that compute their pairs in place. A few buffers serve all blocks, and
the backward pass computes the blocks again into them: memory does not grow with the pairs, and nothing as large as
they are is ever written to it.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpmodels import kernels
from rpmodels.families import InPlacePairs, compiled_pairs

BLOCK = 2**18
"""Pairs at a time (1 MB in float32)."""
NUMBERS = 2**22
"""The same of all buffers together."""
ATOMS = 2**12
"""Atoms at a time, at most."""
FEWEST = 8
"""Atoms: of fewer the loops of a compiled kernel are too short."""


def log_sum_normalisers(
    family: InPlacePairs, a: Float[Tensor, "N T D"], g: Float[Tensor, "S A D"], log_weight: Float[Tensor, "S A"]
) -> Float[Tensor, "N T"]:
    """log Σ_m exp(Φ(a + g_m) + w_m) at every site; S is T, or 1 where all sites have the same atoms."""
    # How many sites there are does not choose: numbers shall not depend on what else is in a batch.
    if g.shape[1] >= FEWEST and kernels.serve(a, g, log_weight):
        return compiled_pairs.log_sum_normalisers(family, a, g, log_weight)
    total: Tensor = _LogSum.apply(family, a, g, log_weight)  # type: ignore[no-untyped-call]
    return total


class _LogSum(torch.autograd.Function):
    """Forward by running maxima, backward by the shares of the atoms."""

    @staticmethod
    def forward(ctx: Any, family: InPlacePairs, a: Tensor, g: Tensor, log_weight: Tensor) -> Tensor:
        work = _Blocks(family, a, g, log_weight)
        total = a.new_empty(a.shape[:2])
        limits = torch.finfo(a.dtype)
        for rows in work.rows():
            highest = torch.full_like(total[rows], limits.min)
            summed = torch.zeros_like(highest)
            for atoms in work.atoms():
                terms = work.terms(rows, atoms)
                top = torch.maximum(terms.amax(-1).clamp_max_(limits.max), highest)  # ∞ − ∞ would be NaN
                part = terms.sub_(top[..., None]).exp_().sum(-1)
                summed = part.addcmul_(summed, (highest - top).exp_())
                highest = top
            total[rows] = summed.log_().add_(highest)
        ctx.family = family
        ctx.save_for_backward(a, g, log_weight, total)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor, Tensor]:
        a, g, log_weight, total = ctx.saved_tensors
        work = _Blocks(ctx.family, a, g, log_weight)
        finite = total.clamp_min(torch.finfo(total.dtype).min)
        by_a, by_g, by_weight = torch.zeros_like(a), torch.zeros_like(g), torch.zeros_like(log_weight)
        shared = g.shape[0] == 1
        for rows in work.rows():
            for atoms in work.atoms():
                share = work.terms(rows, atoms).sub_(finite[rows][..., None]).exp_().mul_(grads[0][rows][..., None])
                ctx.family.pull_pairs(share, a[rows], g[:, atoms], work.spare, by_a[rows], by_g[:, atoms])
                by_weight[:, atoms] += share.sum((0, 1))[None] if shared else share.sum(0)
        return None, by_a, by_g, by_weight


class _Blocks:
    """The pairs of some rows (observations) and some atoms at a time, in buffers that are used again."""

    def __init__(self, family: InPlacePairs, a: Tensor, g: Tensor, log_weight: Tensor) -> None:
        self._family, self._a, self._g, self._log_weight = family, a, g, log_weight
        sites, buffers = a.shape[1], 1 + family.spare_buffers
        pairs = min(BLOCK, NUMBERS // buffers)
        self._width = max(1, min(g.shape[1], ATOMS, pairs // sites))
        self._height = max(1, min(len(a), pairs // (sites * self._width)))
        size = self._height * sites * self._width
        self._buffers = [a.new_empty(size) for _ in range(buffers)]
        self.spare: list[Tensor] = []

    def rows(self) -> Iterator[slice]:
        """Observations, so many at a time."""
        return _slices(self._a.shape[0], self._height)

    def atoms(self) -> Iterator[slice]:
        """Atoms, so many at a time."""
        return _slices(self._g.shape[1], self._width)

    def terms(self, rows: slice, atoms: slice) -> Float[Tensor, "n T a"]:
        """Φ(a + g_m) + w_m of a block, until the next one is asked for."""
        shape = (rows.stop - rows.start, self._a.shape[1], atoms.stop - atoms.start)
        count = shape[0] * shape[1] * shape[2]
        terms, *self.spare = (each[:count].view(shape) for each in self._buffers)
        terms.copy_(self._log_weight[None, :, atoms].expand(shape))
        self._family.add_pairs(terms, self._a[rows], self._g[:, atoms], self.spare)
        return terms


def _slices(length: int, size: int) -> Iterator[slice]:
    for start in range(0, length, size):
        yield slice(start, min(start + size, length))
