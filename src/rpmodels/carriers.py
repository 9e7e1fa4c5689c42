"""What travels between the rooms.

Padding lives in `Sites`, missingness in `Factor`; no function takes a bare mask.
Axes: N observations (trials), T sites (times, patches), D the flat natural parameter.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels.tracing import recording


@dataclass(frozen=True)
class Sites:
    """Where the latents are: the time of each site (in double precision), and whether it exists or only pads."""

    times: Float[Tensor, "N T"]
    exists: Bool[Tensor, "N T"]
    u: Float[Tensor, "N T U"] | None = None
    """Inputs that drive the latents, for priors that have some."""

    def take(self, index: "Int[Tensor, 'n'] | Bool[Tensor, 'N'] | slice") -> "Sites":
        """Those of some observations."""
        return Sites(self.times[index], self.exists[index], None if self.u is None else self.u[index])

    @cached_property
    def complete(self) -> bool:
        """Whether nothing pads."""
        return bool(self.exists.all())

    @cached_property
    def distinct(self) -> "tuple[Float[Tensor, 'U'], Int[Tensor, 'N T'] | None]":
        """The times there are, and which of them every site has; no index when all trials share one grid."""
        longest = self.exists.sum(1).argmax()
        grid = self.times[longest]
        if bool(((self.times == grid) | ~self.exists).all()):
            return grid, None
        times, index = torch.unique(torch.where(self.exists, self.times, grid[0]), return_inverse=True)
        return times, index

    @staticmethod
    def single(n: int, device: torch.device | None = None) -> "Sites":
        """One site per observation: the iid case."""
        return Sites(
            torch.zeros(n, 1, dtype=torch.float64, device=device),
            torch.ones(n, 1, dtype=torch.bool, device=device),
        )


@dataclass(frozen=True)
class Batch:
    """Some observations, ready for the networks: absent rows hold zeros, `present` says which."""

    index: Int[Tensor, "N"]
    sites: Sites
    weights: Float[Tensor, "N"]
    inputs: Mapping[str, Shaped[Tensor, "N T *event"]]
    present: Mapping[str, Bool[Tensor, "N T"]]
    beside: "Batch | None" = None
    """Further observations, for their atoms alone."""
    whole: float | None = None
    """Σ weights of the whole batch, when this is one process's share of it."""

    @property
    def size(self) -> int:
        """Number of observations."""
        return int(self.index.shape[0])

    @property
    def total_weight(self) -> Float[Tensor, ""]:
        """Σ weights of the whole batch."""
        return self.weights.sum() if self.whole is None else self.weights.new_tensor(self.whole)

    def to(self, device: torch.device) -> "Batch":
        """The same on another device. (MPS has no double: times are what they can be.)"""
        if device.type == "cpu":
            return self
        sites = self.sites
        times = sites.times.float() if device.type == "mps" else sites.times
        u = None if sites.u is None else sites.u.to(device)
        return Batch(
            self.index.to(device),
            Sites(times.to(device), sites.exists.to(device), u),
            self.weights.to(device),
            {name: each.to(device) for name, each in self.inputs.items()},
            {name: each.to(device) for name, each in self.present.items()},
            None if self.beside is None else self.beside.to(device),
            self.whole,
        )


def kept_double(move: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """For `nn.Module._apply`: buffers move with the module but stay in double precision.

    Time stamps and offsets have more digits than float32. (MPS has no double: there they are what they can be.)
    """

    def moved(tensor: Tensor) -> Tensor:
        there = move(tensor)
        return there if there.device.type == "mps" else tensor.to(there.device)

    return moved


class Doubles(nn.Module):
    """Numbers that a model keeps in double precision: times, values of channels."""

    values: Tensor

    def __init__(self, values: Float[Tensor, "*any"]) -> None:
        super().__init__()
        self.register_buffer("values", values.double())

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "Doubles":
        return cast("Doubles", super()._apply(kept_double(fn), recurse))  # type: ignore[no-untyped-call]


class Targets(ABC):
    """Which latents a factor speaks of: in (5) its KL divergences range over these alone."""

    @abstractmethod
    def natural(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b d"]:
        """η of the targets' marginal, from that of all latents."""

    @abstractmethod
    def mean(self, mu: Float[Tensor, "*b D"]) -> Float[Tensor, "*b d"]:
        """μ of the targets' marginal."""

    @abstractmethod
    def embed(self, g: Float[Tensor, "*b d"]) -> Float[Tensor, "*b D"]:
        """A potential on the targets as one on all latents: zero elsewhere."""

    @classmethod
    def added(cls, parts: "Sequence[tuple[Targets, Tensor]]") -> Float[Tensor, "*b D"]:
        """Potentials of several factors, each on its targets, as one on all latents; there may be a faster way."""
        each = [targets.embed(g) for targets, g in parts]
        return sum(each[1:], start=each[0])


class AllLatents(Targets):
    """Every latent: nothing to do."""

    def natural(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """Itself."""
        return eta

    def mean(self, mu: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """Itself."""
        return mu

    def embed(self, g: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """Itself."""
        return g


@dataclass(frozen=True)
class Curves:
    """What every channel of a population says of its projection u = w·z, whichever of its values is seen.

    f_c(z|x) ∝ r(z) exp(a_c(x) u − ½ b_c(x) u²), r the reference; p₀ stands on a grid of A values of every channel.
    """

    directions: Float[Tensor, "C K"]
    """w, of length one."""
    a: Float[Tensor, "C A"]
    b: Float[Tensor, "C A"]
    log_p0: Float[Tensor, "C A"]
    """−∞ where a channel has fewer values."""

    def along(self, z: Float[Tensor, "*b K"]) -> Float[Tensor, "*b C"]:
        """u of every channel."""
        return z @ self.directions.mT

    def spread_along(self, spread: Float[Tensor, "*b K K"]) -> Float[Tensor, "*b C"]:
        """wᵀSw of every channel."""
        return ((spread @ self.directions.mT).mT * self.directions).sum(-1)

    def potential(self, a: Float[Tensor, "N T C"], b: Float[Tensor, "N T C"]) -> Float[Tensor, "N T d"]:
        """Σ_c a_c w_c and −½ Σ_c b_c w_c w_cᵀ: what channels say together, in natural parameters."""
        w = self.directions
        pairs = (w[:, :, None] * w[:, None]).flatten(1)
        return torch.cat([a @ w, -0.5 * b @ pairs], -1)


@dataclass(frozen=True)
class Channels:
    """Every channel of a population over a batch; zero where one is absent."""

    curves: Curves
    a: Float[Tensor, "N T C"]
    b: Float[Tensor, "N T C"]
    log_p0: Float[Tensor, "N T C"]
    """Of the values seen."""
    present: Bool[Tensor, "N T C"]


@dataclass(frozen=True)
class Excess:
    """What the average q of the training data has beyond a prior of normal latents (`rpmodels.sampling_error`)."""

    mean: NDArray[np.float64]
    """(K,)"""
    stretch: NDArray[np.float64]
    """(K, K): I − C^½ Q^−½, C and Q being the covariances of the two."""


@dataclass(frozen=True)
class Factor:
    """One recognition factor over a batch: f_j(z|x) has natural parameter reference + g; g = 0 where absent.

    A population is the product of its channels' factors, which `g` is the sum of.
    """

    g: Float[Tensor, "N T D"]
    present: Bool[Tensor, "N T"]
    targets: Targets = field(default_factory=AllLatents)
    channels: Channels | None = None
    """Of a population, each by itself."""
    log_p0: Float[Tensor, "N T"] | None = None
    """Of what was seen, where a factor says p(x|z) itself: then g is log p(x|z)/p₀(x)."""

    def known(self) -> Float[Tensor, "N T D"]:
        """g where the factor is present, zero elsewhere."""
        return self.g if self.complete else torch.where(self.present[..., None], self.g, 0.0)

    def masked(self, values: Float[Tensor, "N T"]) -> Float[Tensor, "N T"]:
        """`values` where the factor is present, zero elsewhere (a missing factor drops its whole ratio)."""
        return values if self.complete else torch.where(self.present, values, 0.0)

    @cached_property
    def complete(self) -> bool:
        """Whether nothing is missing, for all that is known."""
        return not recording() and bool(self.present.all())

    @staticmethod
    def joined(parts: "Sequence[Factor]", sites: int) -> "Factor":
        """Batches of one factor as one, padded to the same number of sites."""
        padded = [each._padded(sites) for each in parts]
        g, present = (torch.cat(each) for each in zip(*((part.g, part.present) for part in padded), strict=True))
        said = [each.log_p0 for each in padded if each.log_p0 is not None]
        return replace(padded[0], g=g, present=present, channels=None, log_p0=torch.cat(said) if said else None)

    def _padded(self, sites: int) -> "Factor":
        missing, pad = sites - self.present.shape[1], nn.functional.pad
        log_p0 = None if self.log_p0 is None else pad(self.log_p0, (0, missing))
        return replace(self, g=pad(self.g, (0, 0, 0, missing)), present=pad(self.present, (0, missing)), log_p0=log_p0)


@dataclass(frozen=True)
class SiteMarginal:
    """q of every site, over the latents that a factor targets: natural and mean parameters, made when asked for."""

    make_eta: Callable[[], Float[Tensor, "N T D"]]
    make_mu: Callable[[], Float[Tensor, "N T D"]]

    @cached_property
    def eta(self) -> Float[Tensor, "N T D"]:
        """η_q."""
        return self.make_eta()

    @cached_property
    def mu(self) -> Float[Tensor, "N T D"]:
        """μ_q = ⟨t(z)⟩."""
        return self.make_mu()


Factors = Mapping[str, Factor]
"""Every recognition factor of a batch, by name."""

NamedTensors = Mapping[str, Tensor]
"""Tensors by name, their first axis the observations of a batch."""
