"""Values of a user's arguments as JSON and back. What is not plain (a module, a callback) is only named.

JSON knows no tuples, slices, arrays, infinities or mappings with other keys than strings: these are written
as an object with one key that begins with "$".
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from rpmodels import errors
from rpmodels.observations import SAID_OF_FACTORS, Generative, Pinned, Population
from rpmodels.persistence import recipes

Missing = Callable[[str], Any]
"""From the name of something that is not in the file to what stands in for it."""


def to_plain(value: Any) -> Any:
    """What json.dumps can write."""
    if isinstance(value, np.ndarray):
        return {"$array": to_plain(value.tolist()), "dtype": str(value.dtype)}
    if isinstance(value, np.generic):
        return to_plain(value.item())
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$number": str(value)}
    if isinstance(value, list):
        return [to_plain(each) for each in value]
    return _tagged(value)


def _tagged(value: Any) -> Any:
    if isinstance(value, tuple):
        return {"$tuple": [to_plain(each) for each in value]}
    if isinstance(value, slice):
        return {"$slice": [to_plain(each) for each in (value.start, value.stop, value.step)]}
    if isinstance(value, torch.dtype | torch.device):  # their names stand for them wherever they can be given
        return str(value).removeprefix("torch.")
    if isinstance(value, SAID_OF_FACTORS):
        return _said(value)
    if isinstance(value, Mapping):
        return {"$map": [[to_plain(key), to_plain(each)] for key, each in value.items()]}
    recipe = recipes.describe(value)
    return {"$custom": recipe["custom"]} if recipes.is_custom(recipe) else {"$part": recipe}


def _said(of_factor: Population | Pinned | Generative) -> Any:
    if isinstance(of_factor, Pinned):
        return {"$pinned": [to_plain(each) for each in (of_factor.columns, of_factor.error, of_factor.table)]}
    return {f"${type(of_factor).__name__.lower()}": to_plain(of_factor.columns)}


def _array(values: Any, dtype: Any) -> Any:
    """Of numbers or strings, names of columns among them: no other objects, whatever a file says."""
    names = dtype == "object" and isinstance(values, list) and all(isinstance(each, str) for each in values)
    if not names and (not isinstance(dtype, str) or np.dtype(dtype).kind not in "biufcU"):
        raise errors.unknown_part(f"array of {dtype}")
    return np.array(values, dtype=dtype)


def from_plain(value: Any, missing: Missing) -> Any:
    """The value again; `missing` is asked for what was only named."""
    if isinstance(value, list):
        return [from_plain(each, missing) for each in value]
    if not isinstance(value, dict):
        return value
    (tag, content), *_ = value.items()
    readers: dict[str, Callable[[], Any]] = {
        "$array": lambda: _array(from_plain(content, missing), value["dtype"]),
        "$number": lambda: float(content),
        "$tuple": lambda: tuple(from_plain(each, missing) for each in content),
        "$slice": lambda: slice(*(from_plain(each, missing) for each in content)),
        "$population": lambda: Population(from_plain(content, missing)),
        "$generative": lambda: Generative(from_plain(content, missing)),
        "$pinned": lambda: Pinned(*(from_plain(each, missing) for each in content)),
        "$map": lambda: {from_plain(key, missing): from_plain(each, missing) for key, each in content},
        "$part": lambda: recipes.make(content, lambda _, kind: missing(kind), "part"),
        "$custom": lambda: missing(str(content)),
    }
    if tag not in readers:
        raise errors.unknown_part(tag)
    return readers[tag]()
