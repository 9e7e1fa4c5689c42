"""A linear-Gaussian chain of states with steps of any length, of which latents are seen: conditioning is O(T).

s_t | s_{t−1} ~ N(A_t s_{t−1}, C_t) in G groups that are independent of each other. A group has B latents, each the
first of the p numbers that a latent has in the state. Sites may come in any order; those that do not exist are put
last, where nothing follows from them.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from rpmodels.carriers import Sites
from rpmodels.linalg import links
from rpmodels.priors.driving import wide
from rpmodels.priors.kalman import noise_like

WHAT = "the chain of states"
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
        there = self.gaps[self.follows]
        if not there.numel():
            return self.gaps.new_ones(1), torch.ones_like(self.follows, dtype=torch.int64)
        unit = there.median().clamp_min(torch.finfo(there.dtype).tiny) * SAME
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
    """The steps, each leading to its site."""

    A: Float[Tensor, "n T G d d"]
    C: Float[Tensor, "n T G d d"]
    size: int
    """B."""

    @staticmethod
    def of_latents(A: Float[Tensor, "n T K p p"], C: Float[Tensor, "n T K p p"], groups: int) -> "GaussianChain":
        """From steps of independent latents."""
        size = A.shape[2] // groups
        return GaussianChain(_side_by_side(A, size), _side_by_side(C, size), size)

    def condition(self, h: Float[Tensor, "N T G B"], W: Float[Tensor, "N T G B B"]) -> "ConditionedChain":
        """Times exp(Σ_t h_tᵀz_t − ½ z_tᵀW_t z_t)."""
        trials, count, groups, _ = h.shape
        d = self.A.shape[-1]
        says = h.new_zeros(trials, count, groups, self.size, d // self.size, 1)
        says[..., 0, 0] = h
        weight = h.new_zeros(trials, count, groups, self.size, d // self.size, self.size, d // self.size)
        weight[..., :, 0, :, 0] = W
        eye = torch.eye(d, dtype=h.dtype, device=h.device).expand(1, trials * groups, d, d)
        nothing = torch.zeros_like(eye)
        A, C, J = (_chains(each, trials) for each in (self.A, self.C, weight.flatten(5, 6).flatten(3, 4)))
        said = _chains(says.flatten(3, 4), trials)
        chain = links.Links(
            torch.cat([A, nothing]),
            h.new_zeros(1, 1, 1, 1).expand(count + 1, trials * groups, d, 1),
            torch.cat([C, eye]),
            torch.cat([nothing[..., :1], said]),
            torch.cat([nothing, J]),
        )
        return ConditionedChain(links.reduced(chain, WHAT), trials, self.size)


class LatentMoments(NamedTuple):
    """Of the latents of every group, site by site in the order of time."""

    mean: Float[Tensor, "N T G B"]
    covariance: Float[Tensor, "N T G B B"]


@dataclass(frozen=True)
class ConditionedChain:
    """What the latents of a chain are, given what was said of them."""

    reduced: links.Reduced
    trials: int
    size: int

    @property
    def log_z(self) -> Float[Tensor, "N"]:
        """log ∫ p(Z) exp(what is said)."""
        return torch.unflatten(self.reduced.log_z, 0, (self.trials, -1)).sum(1)

    @cached_property
    def marginals(self) -> "LatentMoments":
        """Of every site."""
        return self._of_latents(links.moments(self.reduced))

    @cached_property
    def ahead(self) -> "LatentMoments":
        """Of every site, given what is said of those before it in time."""
        return self._of_latents(links.ahead(self.reduced, WHAT))

    def _by_trial(self, values: Float[Tensor, "T M *d"]) -> Float[Tensor, "N T G *d"]:
        return torch.unflatten(values, 1, (self.trials, -1)).transpose(0, 1)

    def _of_latents(self, moments: links.Moments) -> "LatentMoments":
        mean, covariance = (self._by_trial(each) for each in moments)
        each = covariance.shape[-1] // self.size
        return LatentMoments(mean[..., ::each, 0], covariance[..., ::each, ::each])

    def draw(self, generator: torch.Generator) -> Float[Tensor, "N T G B"]:
        """Joint over all sites."""
        sites = sum(len(each.first.A) for each in self.reduced.rounds)
        noise = noise_like(self.reduced.last.new_empty(sites, *self.reduced.last.shape[:2], 1), generator)
        states = self._by_trial(links.drawn(self.reduced, noise))[..., 0]
        return torch.unflatten(states, -1, (self.size, -1))[..., 0]


def _side_by_side(blocks: Float[Tensor, "n T K p p"], size: int) -> Float[Tensor, "n T G d d"]:
    """Blocks of the latents of a group on the diagonal of one matrix."""
    if size == 1:
        return blocks
    apart = torch.diag_embed(torch.unflatten(blocks, 2, (-1, size)).movedim(3, -1))
    return apart.permute(0, 1, 2, 5, 3, 6, 4).flatten(5, 6).flatten(3, 4)


def _chains(values: Float[Tensor, "n T G *d"], trials: int) -> Float[Tensor, "T M *d"]:
    """Time first, trials and groups in one axis."""
    return wide(values).expand(trials, *values.shape[1:]).transpose(0, 1).flatten(1, 2)
