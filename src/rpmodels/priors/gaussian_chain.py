"""A linear-Gaussian chain of states with steps of any length, of which latents are seen: conditioning is O(T).

s_t | s_{t−1} ~ N(A_t s_{t−1}, C_t) in G groups that are independent of each other. A group has B latents, each the
first of the p numbers that a latent has in the state. Sites may come in any order; those that do not exist are put
last, where nothing follows from them.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from rpmodels import kernels, memory
from rpmodels.carriers import Sites
from rpmodels.priors.compiled_chain import ConditionedCompiled
from rpmodels.priors.conditioned_chain import ConditionedChain, ConditionedStretches, ConditionedWhole, Said

SHORTEST = 16
"""Links of a stretch, at least."""
KEPT = 60
"""Numbers that a link keeps for gradients, for d(d + 1) of its state (measured)."""
SAME = 1e-10
"""Of the usual gap: gaps that differ by less are one."""


@dataclass(frozen=True)
class InTime:
    """Sites in the order of their times; n is 1 where all trials share them."""

    gaps: Float[Tensor, "n T"]
    """Since the site before; zero where there is none."""
    follows: Bool[Tensor, "n T"]
    """Whether there is one."""
    place: Int[Tensor, "n T"] | None
    """Which site comes t-th; None where they are in order."""

    @staticmethod
    def of(sites: Sites, clock: Float[Tensor, "N T"]) -> "InTime":
        """On the clock that the times are given by."""
        exists = sites.exists
        if sites.distinct[1] is None:
            longest = exists.sum(1).argmax()
            clock, exists = clock[longest][None], exists.any(0, keepdim=True)
        times, place = torch.where(exists, clock, torch.inf).sort(dim=1, stable=True)
        ordered = bool((place.diff(dim=1) > 0).all())
        known = torch.isfinite(times)
        follows = torch.cat([torch.zeros_like(known[:, :1]), known[:, 1:]], 1)
        gaps = torch.where(follows, times - times.roll(1, 1), 0.0)
        return InTime(gaps, follows, None if ordered else place)

    def distinct(self) -> tuple[Float[Tensor, "U"], Int[Tensor, "n T"]]:
        """Gaps that differ, and which of them leads to each site; U where nothing does.

        On a regular clock there is one, told apart from others by more than the last digits of differences.
        """
        there = self.gaps[self.follows & (self.gaps > 0)]
        if not there.numel():  # nothing follows, or all at one time
            return self.gaps.new_zeros(1), torch.where(self.follows, 0, 1)
        unit = there.median() * SAME
        gaps, place = torch.unique(torch.round(self.gaps / unit), return_inverse=True)
        return gaps * unit, torch.where(self.follows, place, len(gaps))

    def arranged(self, values: Shaped[Tensor, "N T *b"]) -> Shaped[Tensor, "N T *b"]:
        """What sites have, in the order of time."""
        return values if self.place is None else _picked(values, self.place)

    def back(self, values: Shaped[Tensor, "N T *b"]) -> Shaped[Tensor, "N T *b"]:
        """What is in the order of time, site by site."""
        return values if self.place is None else _picked(values, self.place.argsort(1))


def _picked(values: Shaped[Tensor, "N T *b"], place: Int[Tensor, "n T"]) -> Shaped[Tensor, "N T *b"]:
    trials = torch.arange(len(values), device=values.device)[:, None]
    return values[trials, place.expand(len(values), -1)]


@dataclass(frozen=True)
class GaussianChain:
    """The steps that differ, and which of them leads to each site; n is 1 where all trials share them."""

    A: Float[Tensor, "U G d d"]
    C: Float[Tensor, "U G d d"]
    which: Int[Tensor, "n T"]
    size: int
    """B."""

    @staticmethod
    def of_latents(
        A: Float[Tensor, "U K p p"], C: Float[Tensor, "U K p p"], which: Int[Tensor, "n T"], groups: int
    ) -> "GaussianChain":
        """From steps of independent latents."""
        size = A.shape[1] // groups
        return GaussianChain(_side_by_side(A, size), _side_by_side(C, size), which, size)

    def condition(self, h: Float[Tensor, "N T G B"], W: Float[Tensor, "N T G B B"]) -> ConditionedChain:
        """Times exp(Σ_t h_tᵀz_t − ½ z_tᵀW_t z_t), in stretches where the whole is more than the budget of a piece."""
        pad, d = nn.functional.pad, self.A.shape[-1]
        # The last link leads to a state of which nothing is said, and so nothing is asked.
        A = torch.cat([self.A, torch.zeros_like(self.A[:1])])
        C = torch.cat([self.C, torch.eye(d, dtype=self.C.dtype, device=self.C.device).expand_as(self.C[:1])])
        which = pad(self.which, (0, 1), value=len(self.A))
        said = Said(A, C, which, pad(h, (0, 0, 0, 0, 1, 0)), pad(W, (0, 0, 0, 0, 0, 0, 1, 0)))
        if self.size == 1 and kernels.serve(A, C, h, W) and A.dtype is torch.float64:
            return ConditionedCompiled(said, _in_torch(said))
        return _in_torch(said)


def _in_torch(said: Said) -> ConditionedChain:
    """In stretches where the whole is more than the budget of a piece."""
    A, C, which, h, W = said
    d, links = A.shape[-1], which.shape[1]
    learning = torch.is_grad_enabled() and any(each.requires_grad for each in (A, C, h, W))
    a_link = said.chains * 8 * d * (KEPT if learning else KEPT // 5) * (d + 1)
    pieces = a_link * links / memory.BUDGET
    if pieces <= 1 or links < 2 * SHORTEST:
        return ConditionedWhole(said)
    longest = 2 ** int(math.log2(links - 1))
    length = min(longest, max(SHORTEST, 2 ** math.ceil(math.log2(pieces))))
    return ConditionedStretches(said, length, max(1, int(memory.BUDGET / (a_link * length))))


def _side_by_side(blocks: Float[Tensor, "U K p p"], size: int) -> Float[Tensor, "U G d d"]:
    """Blocks of the latents of a group on the diagonal of one matrix."""
    if size == 1:
        return blocks
    apart = torch.diag_embed(torch.unflatten(blocks, 1, (-1, size)).movedim(2, -1))
    return apart.permute(0, 1, 4, 2, 5, 3).flatten(4, 5).flatten(2, 3)
