"""What a Gaussian chain is, given what was said of its states: in one piece, or stretch by stretch where it is long.

Cyclic reduction keeps every link of every round. A stretch of links becomes one link by itself, so a long chain is
reduced stretch by stretch, the short chain of what is left is solved, and each stretch is expanded from its ends. What
is inside of a stretch is computed again when it is needed, once more for the gradient: a third of the memory of a
stretch at a time, and about twice the work. The numbers are those of one piece.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rpmodels.linalg import links
from rpmodels.linalg.links import Known, Links, Moments
from rpmodels.priors.driving import wide
from rpmodels.priors.kalman import noise_like

WHAT = "the chain of states"


class LatentMoments(NamedTuple):
    """Of the latents of every group, site by site in the order of time."""

    mean: Float[Tensor, "N T G B"]
    covariance: Float[Tensor, "N T G B B"]


class Said(NamedTuple):
    """The links of a chain: a table of steps, which of them each is, and what is said of the states they begin at."""

    A: Float[Tensor, "U G d d"]
    C: Float[Tensor, "U G d d"]
    which: Int[Tensor, "n L"]
    h: Float[Tensor, "N L G B"]
    W: Float[Tensor, "N L G B B"]

    @property
    def chains(self) -> int:
        """Trials times groups."""
        return self.h.shape[0] * self.h.shape[2]

    def links(self) -> Links:
        """One by one; a latent is the first of the numbers that it has in the state."""
        trials, count, groups, size = self.h.shape
        d = self.A.shape[-1]
        says = self.h.new_zeros(trials, count, groups, size, d // size, 1)
        says[..., 0, 0] = self.h
        weight = self.h.new_zeros(trials, count, groups, size, d // size, size, d // size)
        weight[..., :, 0, :, 0] = self.W
        steps = (torch.unflatten(each.index_select(0, self.which.flatten()), 0, self.which.shape) for each in self[:2])
        A, C = (_by_time(each, trials) for each in steps)
        h, J = (_by_time(each, trials) for each in (says.flatten(3, 4), weight.flatten(5, 6).flatten(3, 4)))
        return Links(A, torch.zeros_like(A[:1, :1, :, :1]).expand_as(h), C, h, J)

    def cut(self, sizes: list[int]) -> "list[Said]":
        """So many links each."""
        parts = zip(*(torch.split(each, sizes, 1) for each in self[2:]), strict=True)
        return [Said(self.A, self.C, *part) for part in parts]

    def stretches(self, length: int) -> Links:
        """Stretches of so many links side by side."""
        return Links(*(torch.unflatten(each, 0, (-1, length)).transpose(0, 1).flatten(1, 2) for each in self.links()))


class ConditionedChain(ABC):
    """What the latents of a chain are, given what was said of them."""

    said: Said

    @property
    @abstractmethod
    def log_z(self) -> Float[Tensor, "N"]:
        """log ∫ p(Z) exp(what is said)."""

    @property
    @abstractmethod
    def marginals(self) -> LatentMoments:
        """Of every site."""

    @property
    @abstractmethod
    def ahead(self) -> LatentMoments:
        """Of every site, given what is said of those before it in time."""

    @abstractmethod
    def draw(self, generator: torch.Generator) -> Float[Tensor, "N T G B"]:
        """Joint over all sites."""

    def _by_trial(self, values: Float[Tensor, "T M *d"]) -> Float[Tensor, "N T G *d"]:
        return torch.unflatten(values, 1, (len(self.said.h), -1)).transpose(0, 1)

    def _latents(self, mean: Float[Tensor, "T M d 1"], covariance: Float[Tensor, "T M d d"]) -> tuple[Tensor, Tensor]:
        each = self.said.A.shape[-1] // self.said.h.shape[-1]
        return mean[..., ::each, 0], covariance[..., ::each, ::each]

    def _of_sites(self, mean: Float[Tensor, "T M B"], covariance: Float[Tensor, "T M B B"]) -> LatentMoments:
        return LatentMoments(self._by_trial(mean), self._by_trial(covariance))


@dataclass(frozen=True)
class ConditionedWhole(ConditionedChain):
    """In one piece."""

    said: Said

    @cached_property
    def _reduced(self) -> links.Reduced:
        return links.reduced(self.said.links(), WHAT)

    @property
    def log_z(self) -> Float[Tensor, "N"]:
        """Of all groups."""
        return torch.unflatten(self._reduced.log_z, 0, (len(self.said.h), -1)).sum(1)

    @cached_property
    def marginals(self) -> LatentMoments:
        """There and back."""
        return self._of_sites(*self._latents(*links.moments(self._reduced)))

    @cached_property
    def ahead(self) -> LatentMoments:
        """The last state is none of a site."""
        mean, covariance = links.ahead(self._reduced, WHAT)
        return self._of_sites(*self._latents(mean[:-1], covariance[:-1]))

    def draw(self, generator: torch.Generator) -> Float[Tensor, "N T G B"]:
        """Between neighbours that are drawn."""
        last = self._reduced.last
        sites = self.said.h.shape[1] - 1
        noise = noise_like(last.new_empty(sites, *last.shape[:2], 1), generator)
        states = self._by_trial(links.drawn(self._reduced, noise))[..., 0]
        return torch.unflatten(states, -1, (self.said.h.shape[-1], -1))[..., 0]


@dataclass(frozen=True)
class ConditionedStretches(ConditionedChain):
    """In stretches of `length` links, `together` of them at a time; the first links, one at least, stay single."""

    said: Said
    length: int
    together: int

    @cached_property
    def _parts(self) -> tuple[Said, list[Said]]:
        """The single links, and groups of stretches."""
        count = self.said.h.shape[1]
        stretches = (count - 1) // self.length
        groups = [min(self.together, stretches - begun) for begun in range(0, stretches, self.together)]
        single, *rest = self.said.cut([count - stretches * self.length, *(each * self.length for each in groups)])
        return single, rest

    @cached_property
    def _coarse(self) -> tuple[links.Reduced, Tensor]:
        """The chain in which every stretch is one link, and what their insides give."""
        single, groups = self._parts
        joined = [single.links()]
        inside = []
        for each in groups:
            *link, gained = _again(_one_link, each, self.length)
            joined.append(Links(*link))
            inside.append(gained)
        chain = Links(*(torch.cat(each) for each in zip(*joined, strict=True)))
        return links.reduced(chain, WHAT), torch.stack(inside).sum(0)

    @property
    def log_z(self) -> Float[Tensor, "N"]:
        """Of all groups, stretches and what is between them."""
        chain, inside = self._coarse
        return torch.unflatten(chain.log_z + inside, 0, (len(self.said.h), -1)).sum(1)

    def _places(self) -> list[tuple[int, int]]:
        """Where groups of stretches begin and end among the states of the short chain, of which x₀ is the first."""
        single, groups = self._parts
        ends = [single.h.shape[1]]
        for each in groups:
            ends.append(ends[-1] + each.h.shape[1] // self.length)
        return list(pairwise(ends))

    @cached_property
    def marginals(self) -> LatentMoments:
        """Each stretch from its ends."""
        chain = self._coarse[0]
        known = links.expanded(chain, links.at_both_ends(chain))
        single = self._parts[0].h.shape[1]
        found = [self._latents(known.mean[1 : single + 1], known.covariance[1 : single + 1])]
        for said, (begin, end) in zip(self._parts[1], self._places(), strict=True):
            ends = (known.mean[begin : end + 1], known.covariance[begin : end + 1], known.pairs[begin:end])
            found.append(_again(self._inside, said, self.length, *ends))
        return self._without_last(found)

    def _inside(self, said: Said, length: int, *ends: Tensor) -> tuple[Tensor, Tensor]:
        chain = links.reduced(said.stretches(length), WHAT)
        mean, covariance = (torch.stack([each[:-1], each[1:]]).flatten(1, 2) for each in ends[:2])
        found = links.expanded(chain, Known(mean, covariance, ends[2].flatten(0, 1)[None]))
        return self._in_time(self._latents(found.mean[1:], found.covariance[1:]))

    @cached_property
    def ahead(self) -> LatentMoments:
        """Each stretch from its beginning."""
        mean, covariance = links.ahead(self._coarse[0], WHAT)
        single = self._parts[0].h.shape[1]
        found = [self._latents(mean[:single], covariance[:single])]
        for said, (begin, end) in zip(self._parts[1], self._places(), strict=True):
            found.append(
                _again(self._onwards, said, self.length, mean[begin - 1 : end - 1], covariance[begin - 1 : end - 1])
            )
        return self._without_last(found)

    def _onwards(self, said: Said, length: int, *begins: Tensor) -> tuple[Tensor, Tensor]:
        chain = links.reduced(said.stretches(length), WHAT)
        found = links.ahead(chain, WHAT, Moments(*(each.flatten(0, 1)[None] for each in begins)))
        return self._in_time(self._latents(*found))

    def draw(self, generator: torch.Generator) -> Float[Tensor, "N T G B"]:
        """Ends of stretches first."""
        chain = self._coarse[0]
        like, single = chain.last, self._parts[0].h.shape[1]
        ends = sum(len(each.first.A) for each in chain.rounds)
        states = links.drawn(chain, noise_like(like.new_empty(ends, *like.shape[:2], 1), generator))
        states = torch.cat([states, torch.zeros_like(states[:1])])  # of the last nothing is asked
        found = [states[:single]]
        for said, (begin, end) in zip(self._parts[1], self._places(), strict=True):
            inner = links.reduced(said.stretches(self.length), WHAT)
            both = torch.stack([states[begin - 1 : end - 1], states[begin:end]]).flatten(1, 2)
            noise = noise_like(like.new_empty(self.length - 1, *both.shape[1:3], 1), generator)
            drawn = torch.cat([links.drawn(inner, noise, both), both[1:]])
            found.append(self._in_time((drawn,))[0])
        whole = self._by_trial(torch.cat(found)[:-1])[..., 0]
        return torch.unflatten(whole, -1, (self.said.h.shape[-1], -1))[..., 0]

    def _in_time(self, found: tuple[Tensor, ...]) -> tuple[Any, ...]:
        """Stretches one after the other again."""
        return tuple(torch.unflatten(each, 1, (-1, self.said.chains)).transpose(0, 1).flatten(0, 1) for each in found)

    def _without_last(self, found: list[tuple[Tensor, Tensor]]) -> LatentMoments:
        return self._of_sites(*(torch.cat(each)[:-1] for each in zip(*found, strict=True)))


def _one_link(said: Said, length: int) -> tuple[Tensor, ...]:
    """Every stretch as one link, and what integrating its inside gives, of all of them together."""
    chain = links.reduced(said.stretches(length), WHAT)
    apart = (torch.unflatten(each[0], 0, (-1, said.chains)) for each in chain.whole)
    return (*apart, torch.unflatten(chain.log_z, 0, (-1, said.chains)).sum(0))


def _again(work: Callable[..., tuple[Tensor, ...]], said: Said, length: int, *more: Tensor) -> Any:
    """Without keeping what is inside: it is computed again for the gradient."""
    if not torch.is_grad_enabled():
        return work(said, length, *more)

    def of_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
        return work(Said(*tensors[:5]), length, *tensors[5:])

    return checkpoint(of_tensors, *said, *more, use_reentrant=False, preserve_rng_state=False)


def _by_time(values: Float[Tensor, "n T G *d"], trials: int) -> Float[Tensor, "T M *d"]:
    """Time first, trials and groups in one axis."""
    return wide(values).expand(trials, *values.shape[1:]).transpose(0, 1).flatten(1, 2)
