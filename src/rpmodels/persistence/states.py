"""Nested plain values with tensors among them (states of models, optimisers, schedules) as one sealed file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rpmodels import errors
from rpmodels.persistence.plain import from_plain, to_plain
from rpmodels.persistence.sealed import as_written, open_sealed, write_sealed

FORMAT = 1
TENSOR = "$tensor:"
"""Before the name of a tensor, where the tensor was. An array is a tensor, too."""


def save_state(path: Path, state: Any) -> None:
    """Write what `load_state` gives back, whole or not at all."""
    tensors: dict[str, Tensor] = {}
    plain = to_plain(without_tensors(state, tensors))
    write_sealed(path, FORMAT, {"state": plain}, tensors)


def load_state(path: Path) -> Any:
    """The state again, on the CPU."""
    content, tensors = open_sealed(path, FORMAT)
    if "state" not in content:
        raise errors.not_a_model_file(str(path), "it holds no checkpoint")
    with as_written(path):
        _check_plain(content["state"])
        return with_tensors(from_plain(content["state"], _refuse), tensors)


def _check_plain(value: Any) -> None:
    """Refuse parts: a state is numbers and text, and nothing in it is ever built."""
    if isinstance(value, dict):
        if "$part" in value:
            _refuse("part")
        for each in value.values():
            _check_plain(each)
    elif isinstance(value, list):
        for each in value:
            _check_plain(each)


def _refuse(kind: str) -> Any:
    raise errors.unknown_part(kind)


def without_tensors(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The value with names in the place of tensors and arrays, which go to `tensors`."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        value = torch.from_numpy(np.ascontiguousarray(value))
    if isinstance(value, Tensor):
        name = str(len(tensors))
        tensors[name] = value
        return TENSOR + name
    if isinstance(value, Mapping):
        return {key: without_tensors(each, tensors) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(without_tensors(each, tensors) for each in value)
    if value is not None and not isinstance(value, bool | int | float | str | np.generic):
        raise errors.cannot_be_kept(type(value).__name__)
    return value


def with_tensors(value: Any, tensors: Mapping[str, Any]) -> Any:
    """The inverse."""
    if isinstance(value, str) and value.startswith(TENSOR):
        return tensors[value.removeprefix(TENSOR)]
    if isinstance(value, dict):
        return {key: with_tensors(each, tensors) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(with_tensors(each, tensors) for each in value)
    return value
