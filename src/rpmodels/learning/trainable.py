"""What runs and restarts need to know of a model: RPMs are such, and so are the baselines they are compared with."""

import copy
from collections.abc import Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import nn


@runtime_checkable
class Trainable(Protocol):
    """A module that recognises observations; what its free energy is, its `Objective` knows."""

    @property
    def recognition(self) -> nn.Module:
        """Networks whose weights decay, and which a random start draws anew."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the parameters."""

    @property
    def device(self) -> torch.device:
        """Where they are."""

    def train(self, mode: bool = True) -> Any:
        """As `nn.Module`."""

    def eval(self) -> Any:
        """As `nn.Module`."""

    def parameters(self, recurse: bool = True) -> Iterator[nn.Parameter]:
        """As `nn.Module`."""

    def state_dict(self) -> dict[str, Any]:
        """As `nn.Module`."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> Any:
        """As `nn.Module`."""


Model = TypeVar("Model", bound=Trainable)


def copied(state: Any) -> Any:
    """A state_dict as it is now, whatever becomes of its module; a deep copy takes several times as long."""
    if isinstance(state, torch.Tensor):
        return state.detach().clone()
    if isinstance(state, dict):
        same = copy.copy(state)  # with what torch notes beside the values
        same.update({name: copied(each) for name, each in state.items()})
        return same
    return [copied(each) for each in state] if isinstance(state, list) else copy.deepcopy(state)
