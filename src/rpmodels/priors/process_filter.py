"""Markovian processes as time goes by: the chain of `gaussian_chain`, one time after the other."""

from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rpmodels.families import Gaussian
from rpmodels.priors.filters import Elapsed, GaussianFilter, State
from rpmodels.priors.gaussian_chain import GaussianChain, InTime


@runtime_checkable
class Chained(Protocol):
    """What it asks of a prior."""

    @property
    def family(self) -> Gaussian:
        """Of one site."""

    @property
    def time_scale(self) -> float:
        """The unit of its clock."""

    def chain(self, path: InTime) -> GaussianChain:
        """Of the states, before anything is said."""


class ProcessFilter(GaussianFilter):
    """Steps of any length, none included: what arrives at the same time is heard in turn."""

    clocked = True

    @torch.no_grad()
    def __init__(self, prior: Chained) -> None:
        first = prior.chain(InTime(torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.bool), None))
        super().__init__(prior.family, first.C[first.which[0, 0]])
        self._prior = [prior]  # in a list: its parameters are not this module's
        self._known: tuple[NDArray[np.float64], State] | None = None

    @torch.no_grad()
    def along(self, elapsed: Elapsed, u: Float[Tensor, "N U"] | None) -> State:
        """A and C of such a step; the last ones are kept, as most steps are equal."""
        assert elapsed is not None
        if len(elapsed) and bool((elapsed == elapsed[0]).all()):
            elapsed = elapsed[:1]
        if self._known is None or not np.array_equal(elapsed, self._known[0]):
            gaps = torch.as_tensor(elapsed / self._prior[0].time_scale, device=self.covariance.device)[:, None]
            chain = self._prior[0].chain(
                InTime(gaps.to(self.covariance), torch.ones_like(gaps, dtype=torch.bool), None)
            )
            first = chain.which[:, 0]
            self._known = elapsed, (chain.A[first].contiguous(), chain.C[first].contiguous())
        return self._known[1]
