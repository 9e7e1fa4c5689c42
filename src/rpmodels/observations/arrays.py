"""Whatever somebody calls an array, as one of numbers or words: every complaint about a single value is made here."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.checks import MOST, shown
from rpmodels.observations.stored import stored

LARGEST = 1e300
"""Of numbers: beyond, differences and sums of them are none."""
UNUSABLE = (ValueError, TypeError, OverflowError, RuntimeError, NotImplementedError, AttributeError)
"""What numpy and torch raise for what they can make no array of."""


def as_array(name: str, value: Any) -> NDArray[Any]:
    """The values of a factor: numbers or strings."""
    try:
        if isinstance(value, torch.Tensor):
            value = _of_tensor(name, value)
        elif isinstance(value, Sequence) and value and isinstance(value[0], torch.Tensor):
            value = [_of_tensor(name, each) if isinstance(each, torch.Tensor) else each for each in value]
    except errors.InputError:
        raise
    except UNUSABLE as failure:
        raise errors.bad_dtype(name, f"a tensor that is no array ({failure})") from failure
    if isinstance(value, np.ma.MaskedArray) and value.dtype.kind in "biuf":
        value = np.ma.filled(value.astype(float), np.nan)  # what is masked is missing
    try:
        array = np.asarray(value)
    except UNUSABLE as failure:
        raise errors.ragged(name) from failure
    if array.dtype.kind == "O":
        array = _from_objects(name, array)
    if array.dtype.kind not in "biufUS" or isinstance(value, np.ma.MaskedArray):
        raise errors.bad_dtype(name, str(array.dtype))
    if array.dtype.kind == "S":
        try:
            return array.astype(str)
        except UnicodeError as failure:
            raise errors.bad_dtype(name, "bytes that are no text") from failure
    return _native(name, array)


def as_numbers(what: str, value: Any, expected: str = "numbers") -> NDArray[np.float64]:
    """Times, weights and other arguments that are arrays of numbers; what they may be is for the caller to say."""
    try:
        array = _of_tensor(what, value) if isinstance(value, torch.Tensor) else np.asarray(value)
        if array.dtype.kind not in "biuf" and not (array.dtype.kind == "O" and array.size and _are_numbers(array)):
            raise TypeError(array.dtype)
        return np.asarray(array, np.float64)
    except UNUSABLE as failure:
        raise errors.bad_value(what, expected, shown(value)) from failure


def as_flags(what: str, value: Any, shapes: Sequence[tuple[int, ...]]) -> NDArray[np.bool_]:
    """True and False in an array of one of these shapes."""
    expected = f"booleans of shape {' or '.join(map(str, shapes))}"
    try:
        array = _of_tensor(what, value) if isinstance(value, torch.Tensor) else np.asarray(value)
    except UNUSABLE as failure:
        raise errors.bad_value(what, expected, shown(value)) from failure
    if array.dtype.kind != "b" or array.shape not in shapes:
        raise errors.bad_value(what, expected, f"{array.dtype} of shape {array.shape}")
    return array


def by_factor(what: str, given: Any) -> dict[str, Any]:
    """What is said of factors one by one; nothing, where nothing is."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise errors.bad_value(what, "None or a dict {factor: array}", shown(given))
    return {str(name): each for name, each in given.items()}


def in_arrays(data: Any) -> Any:
    """What comes as one array, or as a dict of them, in numpy's: so that it can be measured and cut.

    Lists of trials and what stays on disk are as they were.
    """
    if isinstance(data, Mapping):
        return {str(name): _whole(f"factor '{name}'", each) for name, each in data.items()}
    return _whole("the data", data)


def _whole(name: str, value: Any) -> Any:
    listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
    if listed or is_mixed(value) or stored(name, value, True) is not None:
        return value
    array = as_array(name.removeprefix("factor ").strip("'"), value)
    if array.ndim == 0:
        raise errors.bad_value(name, "an array (T, *event) or (N, T, *event), or a list of trials", shown(value))
    return array


def is_mixed(data: Any) -> bool:
    """Whether a table holds numbers beside words: its columns are then read one factor at a time."""
    kind = getattr(getattr(data, "dtype", None), "kind", "")
    return kind == "O" and any(isinstance(each, str) for each in np.asarray(data).flat)


def columns_of(block: NDArray[Any]) -> NDArray[Any]:
    """Some columns of a table: one column of words is a label per row, objects without words are numbers."""
    if block.dtype.kind == "O" and not any(isinstance(each, str) for each in block.flat):
        return as_numbers("a column of the table", np.where(_missing(block), np.nan, block))
    return block[..., 0] if block.dtype.kind in "OUS" and block.shape[-1] == 1 else block


def _of_tensor(name: str, tensor: torch.Tensor) -> NDArray[Any]:
    if tensor.layout != torch.strided:
        raise errors.sparse(name)
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    array: NDArray[Any] = (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()
    return array


def _native(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """In a byte order and a width that torch knows, and of a size that can be computed with."""
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if array.dtype == np.uint64:
        if array.size and array.max() > MOST:
            raise errors.too_large(name, "2**63", ".astype(float) for numbers, .astype(str) for labels")
        array = array.astype(np.int64)
    if array.dtype == np.float64 and _reaches(array) > LARGEST:
        raise errors.too_large(name, f"{LARGEST:g}", "other units, or NaN where a value is missing")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _reaches(array: NDArray[np.float64]) -> float:
    """The largest finite size; without a copy where all are finite or missing."""
    reach = max(np.fmax.reduce(array, axis=None, initial=0.0), -np.fmin.reduce(array, axis=None, initial=0.0))
    return float(reach if np.isfinite(reach) else np.abs(array).max(initial=0.0, where=np.isfinite(array)))


def _from_objects(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Strings with gaps are welcome as labels, numbers with pandas' own gaps as numbers; other objects are not."""
    missing = _missing(array)
    there = list(array[~missing].flat)
    if there and all(isinstance(item, str) for item in there):
        return np.array([item if isinstance(item, str) else "" for item in array.flat]).reshape(array.shape)
    kinds = {type(item).__name__ for item in array.flat}
    if "NAType" in kinds and _are_numbers(array[~missing]):
        return np.asarray(np.where(missing, np.nan, array), np.float64)
    raise errors.bad_dtype(name, f"object ({', '.join(sorted(kinds))})")


def _missing(array: NDArray[Any]) -> NDArray[np.bool_]:
    """Where nothing is: None, NaN and pandas' NA, which answers no question."""

    def is_missing(item: Any) -> bool:
        if item is None or type(item).__name__ in ("NAType", "NaTType"):
            return True
        return isinstance(item, float | np.floating) and bool(np.isnan(item))

    return np.array([is_missing(item) for item in array.flat], bool).reshape(array.shape)


def _are_numbers(array: NDArray[Any]) -> bool:
    return all(isinstance(item, bool | int | float | np.number | np.bool_) for item in array.flat) and not any(
        isinstance(item, complex | np.complexfloating) for item in array.flat
    )
