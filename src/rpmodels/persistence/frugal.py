"""While a file is opened: nothing is allocated that would be much larger than what the file itself holds."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from rpmodels import errors

LEAST = 2**22
"""Numbers that any part may ask for."""
TIMES = 4
"""The largest tensor of the file: work in double precision, and a square root beside a matrix."""


class Frugal(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Every operation is tried on shapes alone before it is done, and refused where its result would be too large.

    Sizes stand in the header of a file, next to the tensors that they are the sizes of; a header can say anything.
    """

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._most = max(LEAST, TIMES * max((each.numel() for each in tensors), default=0))

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Of one operation."""
        named = dict(kwargs or {})
        for shape in _shapes(func, args, named):
            if shape > self._most:
                raise errors.asks_for_too_much(shape, self._most)
        return func(*args, **named)


def _shapes(func: Callable[..., Any], args: Any, named: Mapping[str, Any]) -> list[int]:
    """How large the results of an operation are; nothing of those that need the numbers themselves."""
    on_shapes = {name: each for name, each in tree_map(_shape, dict(named)).items() if name != "generator"}
    if "device" in on_shapes or not any(isinstance(each, Tensor) for each in _flat((args, named))):
        on_shapes["device"] = torch.device("meta")
    try:
        found = func(*tree_map(_shape, args), **on_shapes)
    except (RuntimeError, NotImplementedError, TypeError):
        return []
    return [each.numel() for each in _flat(found) if isinstance(each, Tensor)]


def _shape(value: Any) -> Any:
    return value.to("meta") if isinstance(value, Tensor) else value


def _flat(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [inner for each in value for inner in _flat(each)]
    return [value]
