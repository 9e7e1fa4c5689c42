"""How a recognition network is computed: as it is, in mixed precision, or compiled. What follows it never changes."""

from abc import ABC, abstractmethod
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn


class Computing(ABC):
    """Calls a network."""

    @abstractmethod
    def __call__(self, network: nn.Module, rows: Shaped[Tensor, "n *event"]) -> Float[Tensor, "n R"]:
        """What the network gives, in whatever precision it comes."""


class Plain(Computing):
    """As it is."""

    def __call__(self, network: nn.Module, rows: Shaped[Tensor, "n *event"]) -> Float[Tensor, "n R"]:
        """Call it."""
        raw: Tensor = network(rows)
        return raw


class Mixed(Computing):
    """Matrix products and convolutions in bfloat16, by torch's autocast; weights and everything after it in full."""

    def __init__(self, inner: Computing | None = None) -> None:
        self.inner = inner or Plain()

    def __call__(self, network: nn.Module, rows: Shaped[Tensor, "n *event"]) -> Float[Tensor, "n R"]:
        """Call it under autocast."""
        with torch.autocast(rows.device.type, torch.bfloat16):
            return self.inner(network, rows)


class Compiled(Computing):
    """By torch.compile, once for every network and size of batch. It needs a compiler, and seconds for each of them.

    One program for all sizes (dynamic=True) fails in PyTorch 2.13 for convolutions in channels_last.
    """

    def __init__(self) -> None:
        self._compiled: WeakKeyDictionary[nn.Module, Any] = WeakKeyDictionary()

    def __call__(self, network: nn.Module, rows: Shaped[Tensor, "n *event"]) -> Float[Tensor, "n R"]:
        """Compile at the first call."""
        if network not in self._compiled:
            self._compiled[network] = torch.compile(network, dynamic=False)
        raw: Tensor = self._compiled[network](rows)
        return raw

    def __deepcopy__(self, memo: dict[int, Any]) -> "Compiled":
        return Compiled()  # copies of a network are compiled for themselves

    def __reduce__(self) -> tuple[type["Compiled"], tuple[()]]:
        return Compiled, ()
