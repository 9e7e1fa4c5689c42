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
        """One more time step (and with inputs, those at the time of `state`)."""


class Stream:
    """What is known now from past and present; `update` with the next observation costs the same at any time."""

    def __init__(
        self,
        prior: Steps,
        potential: Callable[[Any], Tensor],
        factors: Sequence[str],
        shown: Callable[[Any], Any],
        n_inputs: int = 0,
    ) -> None:
        self._prior, self._potential, self._factors, self._shown = prior, potential, tuple(factors), shown
        self._n_inputs = n_inputs
        self._state = prior.begin(1)
        self._driving: tuple[Tensor, ...] = ()

    @torch.no_grad()
    def update(self, x: Any, inputs: Any = None) -> Any:
        """The next time step: one row (*event), or {factor: row} with the factors that are there.

        `inputs` (U,) are those of this time: they act on the way to the next.
        """
        given = np.zeros(0) if inputs is None else np.atleast_1d(np.asarray(inputs, np.float64))
        if given.shape != (self._n_inputs,) or not np.isfinite(given).all():
            raise errors.bad_value("inputs", f"{self._n_inputs} finite numbers, as in training", f"shape {given.shape}")
        rows = x if isinstance(x, Mapping) else {self._only(): x}
        # One trial of one site; what is not named is missing.
        trial = {str(name): [np.asarray(row)[None]] for name, row in rows.items()}
        potential = self._potential(trial)
        self._state = self._prior.step(self._state, potential, *self._driving)
        self._driving = (torch.as_tensor(given[None], device=potential.device),) if self._n_inputs else ()
        return self._shown(self._state)

    def _only(self) -> str:
        if len(self._factors) > 1:
            raise errors.bad_value("x", f"a dict with factors out of {list(self._factors)}", "one array")
        return self._factors[0]
