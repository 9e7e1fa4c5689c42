"""The innermost loops, compiled by Numba where it is installed, for numbers in the processor's memory.

What calls them has the same in torch beside it, for graphics cards and other precisions, and as their oracle. Numba is
imported, and a loop compiled, when one is first asked for; what was compiled is kept beside the sources, or in the
user's cache folder where these cannot be written (NUMBA_CACHE_DIR changes it). `RPMODELS_KERNELS=0` turns all off.
"""

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

SWITCH = "RPMODELS_KERNELS"
_REAL = (torch.float32, torch.float64)
_wanted = [os.environ.get(SWITCH, "1") != "0"]


def serve(*tensors: Tensor) -> bool:
    """Whether compiled loops take these: all in one precision, float32 or float64, in the processor's memory."""
    kind = tensors[0].dtype
    fitting = kind in _REAL and all(each.dtype is kind and each.device.type == "cpu" for each in tensors)
    return fitting and _wanted[0] and _installed() and not torch.compiler.is_compiling()


def loops(name: str) -> Any:
    """The module of this room with these loops."""
    return _module(name)


def array(tensor: Tensor) -> NDArray[np.floating[Any]]:
    """The same numbers for a compiled loop, one after the other in memory."""
    numbers: NDArray[np.floating[Any]] = tensor.detach().contiguous().numpy()
    return numbers


@contextmanager
def switched(on: bool) -> Iterator[None]:
    """With compiled loops, or without them, whatever the environment says."""
    before = _wanted[0]
    _wanted[0] = on
    try:
        yield
    finally:
        _wanted[0] = before


def status() -> str:
    """Which loops there are, for bug reports."""
    if not _wanted[0]:
        return f"torch ({SWITCH}=0)"
    if not _installed():
        return "torch (Numba is not installed: pip install 'rpmodels[fast]')"
    try:
        return f"compiled by Numba {version('numba')}"
    except PackageNotFoundError:
        return "compiled by Numba"


@cache
def _installed() -> bool:
    return find_spec("numba") is not None


@cache
def _module(name: str) -> Any:
    return importlib.import_module(f"rpmodels.kernels.{name}")
