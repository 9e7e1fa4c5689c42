"""Priors as time goes by: from what is known at one time to what is known at the next, in tensors alone.

What is constant in a step is computed once, when a filter is made. Everything has series in its first axis, in double
precision. A step moves a state along (nothing seen yet) and then hears what is said of its time.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels import linalg
from rpmodels.carriers import SiteMarginal, Targets
from rpmodels.families import Gaussian
from rpmodels.families.family import F_co
from rpmodels.priors.driving import wide
from rpmodels.priors.kalman import LatentState
from rpmodels.priors.prior import Prior

State = tuple[Tensor, ...]
Elapsed = NDArray[np.float64] | None


@dataclass(frozen=True)
class Filtered:
    """Marginals of sites given past and present alone, as an E-step reads those of a posterior."""

    make_eta: Callable[[], Float[Tensor, "N T D"]]
    make_mu: Callable[[], Float[Tensor, "N T D"]]

    def marginal(self, targets: Targets) -> SiteMarginal:
        """Over what a factor targets."""
        return SiteMarginal(lambda: targets.natural(self.make_eta()), lambda: targets.mean(self.make_mu()))

    @staticmethod
    def of(family: Gaussian, state: LatentState, dtype: torch.dtype) -> "Filtered":
        """From moments at every site, (N, T, K) and (N, T, K, K)."""

        def spread() -> Tensor:
            if family.groups == 1:
                return family.spread(state.covariance[..., None, :, :])
            return family.spread(state.covariance.diagonal(dim1=-2, dim2=-1)[..., None, None])

        return Filtered(
            lambda: family.natural(state.mean, spread()).to(dtype),
            lambda: family.mean_parameter(state.mean, spread()).to(dtype),
        )


class Filter(nn.Module, ABC):
    """What is known at one time, and how it goes on."""

    names: ClassVar[tuple[str, ...]]
    """Of the tensors of a state."""
    shown_names: ClassVar[tuple[str, ...]]
    """Of what `shown` gives."""
    clocked: ClassVar[bool] = False
    """Whether a step has a length."""
    n_inputs = 0
    """How many inputs act on the way from one time to the next."""

    @abstractmethod
    def begin(self, n: int) -> State:
        """Before the first time."""

    def along(self, elapsed: Elapsed, u: Float[Tensor, "N U"] | None) -> State:
        """What moves a state on: over so much time, with these inputs at the time that is left."""
        return ()

    @abstractmethod
    def moved(self, state: State, *along: Tensor) -> State:
        """At the next time, of which nothing was seen."""

    @abstractmethod
    def heard(self, state: State, potential: Float[Tensor, "N D"]) -> State:
        """Times exp(potential·t(z))."""

    @abstractmethod
    def filtered(self, state: State, dtype: torch.dtype) -> Filtered:
        """The marginal at this time, as one site."""

    @abstractmethod
    def shown(self, state: State) -> State:
        """What the user is told."""


class HasFilter(Prior[F_co]):
    """A prior that can be conditioned one time after the other, at constant cost."""

    @abstractmethod
    def filtering(self) -> Filter:
        """With everything constant computed."""


def said(family: Gaussian, potentials: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b G B"], Float[Tensor, "..."]]:
    """h and W of exp(hᵀz − ½ zᵀWz), by groups of coupled latents; only the symmetric part meets zzᵀ."""
    groups, size = family.groups, family.latents // family.groups
    first, second = wide(potentials).tensor_split([family.latents], -1)
    matrix = torch.unflatten(second, -1, (groups, size, size))
    return torch.unflatten(first, -1, (groups, size)), -matrix - matrix.mT


class GaussianFilter(Filter):
    """Kalman's: states s of G groups with d numbers each, of which latents are the first of every p.

    Potentials are met by the root of a covariance, as in `linalg.links`: only positive semi-definite numbers are added,
    and no precision is asked of states that hardly move.
    """

    names: ClassVar[tuple[str, ...]] = ("mean", "covariance")
    shown_names: ClassVar[tuple[str, ...]] = ("mean", "covariance")
    covariance: Tensor
    """Of the state at any time, before anything is seen: (G, d, d)."""

    def __init__(self, family: Gaussian, covariance: Float[Tensor, "G d d"]) -> None:
        super().__init__()
        self._family = family
        self.register_buffer("covariance", covariance)
        self._each = covariance.shape[-1] * family.groups // family.latents

    def begin(self, n: int) -> State:
        """Stationary."""
        whole = self.covariance.repeat(n, 1, 1, 1)
        return torch.zeros_like(whole[..., 0])[..., None], whole

    def moved(self, state: State, *along: Tensor) -> State:
        """s′ = A s + push + N(0, C)."""
        (mean, covariance), (A, C, *push) = state, along
        there = A @ mean
        return there + push[0] if push else there, A @ covariance @ A.mT + C

    def heard(self, state: State, potential: Float[Tensor, "N D"]) -> State:
        """Given h and W of its latents."""
        return self.given(state, *said(self._family, potential))

    def given(self, state: State, h: Float[Tensor, "#N G B"], W: Float[Tensor, "#N G B B"]) -> State:
        """Times exp(hᵀz − ½ zᵀWz)."""
        (mean, covariance), each = state, self._each
        root = linalg.cholesky(covariance, "a predicted covariance")
        seen = root[..., ::each, :]
        eye = torch.eye(root.shape[-1], dtype=root.dtype, device=root.device)
        inner = linalg.cholesky(eye + seen.mT @ W @ seen, "a filtered precision")
        half: Tensor = torch.linalg.solve_triangular(inner, root.mT, upper=False)
        known = half.mT @ half
        off = h[..., None] - W @ mean[..., ::each, :]
        return mean + known[..., ::each] @ off, known

    def latents(self, state: State) -> LatentState:
        """Moments of all latents, (N, K) and (N, K, K)."""
        mean, covariance = (value[..., :: self._each, :] for value in state)
        blocks = covariance[..., :: self._each]
        if blocks.shape[1] == 1:
            return LatentState(mean.flatten(1), blocks[:, 0])
        return LatentState(mean.flatten(1), torch.diag_embed(blocks.flatten(1)))

    def filtered(self, state: State, dtype: torch.dtype) -> Filtered:
        """By its moments."""
        mean, covariance = self.latents(state)
        return Filtered.of(self._family, LatentState(mean[:, None], covariance[:, None]), dtype)

    def shown(self, state: State) -> State:
        """Mean and covariance."""
        return tuple(self.latents(state))
