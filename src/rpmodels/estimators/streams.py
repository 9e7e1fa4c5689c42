"""One time step after the other, as they arrive."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor

from rpmodels import errors


@runtime_checkable
class Steps(Protocol):
    """A prior that can be conditioned step by step."""

    def begin(self, n: int) -> Any:
        """Before anything was seen."""

    def step(self, state: Any, potential: Tensor) -> Any:
        """One more time step."""


class Stream:
    """What is known now from past and present; `update` with the next observation costs the same at any time."""

    def __init__(
        self, prior: Steps, potential: Callable[[Any], Tensor], factors: Sequence[str], shown: Callable[[Any], Any]
    ) -> None:
        self._prior, self._potential, self._factors, self._shown = prior, potential, tuple(factors), shown
        self._state = prior.begin(1)

    @torch.no_grad()
    def update(self, x: Any) -> Any:
        """The next time step: one row (*event), or {factor: row} with the factors that are there."""
        rows = x if isinstance(x, Mapping) else {self._only(): x}
        # One trial of one site; what is not named is missing.
        trial = {str(name): [np.asarray(row)[None]] for name, row in rows.items()}
        self._state = self._prior.step(self._state, self._potential(trial))
        return self._shown(self._state)

    def _only(self) -> str:
        if len(self._factors) > 1:
            raise errors.bad_value("x", f"a dict with factors out of {list(self._factors)}", "one array")
        return self._factors[0]
