"""Which trials belong together: conditions in the forms that people have them in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors

GROUPS = 10
"""As many whole numbers, at most, are groups with a legend; more are a scale with a colour bar."""


@dataclass(frozen=True)
class Conditions:
    """Groups of trials with their names, or a number for every trial on one scale."""

    names: tuple[Any, ...]
    members: tuple[NDArray[np.intp], ...]
    """The trials of every group, in the order of the names."""
    scale: NDArray[np.float64] | None = None
    """(N,): where conditions are no groups; NaN where a trial has none."""


def read_conditions(conditions: Any, count: int, X: Any = None, order: Sequence[Any] | None = None) -> Conditions:
    """Conditions of `count` trials.

    Args:
        conditions: one for every trial (None or NaN where it has none), the name of a factor of X, {name: its trials
            or a mask}, or None: all trials are one
        count: how many trials there are
        X: the data, for a factor of theirs
        order: names of the groups that are wanted, in this order; default all of them, sorted

    """
    if conditions is None:
        return Conditions(("",), (np.arange(count),))
    if isinstance(conditions, Mapping):
        groups = {name: _trials(name, each, count) for name, each in conditions.items()}
        return _ordered(groups, order)
    values = _one_each(_of_factor(conditions, X) if isinstance(conditions, str) else conditions, count)
    known = np.array([each is not None and each == each for each in values])  # noqa: PLR0124 (NaN alone is not itself)
    if not known.any():
        raise errors.no_conditions()
    kept = np.array(values[known].tolist())
    if order is None and _is_scale(kept):
        scale = np.full(count, np.nan)
        scale[known] = kept
        return Conditions((), (), scale)
    named = list(getattr(getattr(conditions, "cat", conditions), "categories", np.unique(kept).tolist()))
    places = np.flatnonzero(known)
    groups = {_plain(name): places[kept == name] for name in named if (kept == name).any()}
    return _ordered(groups, order)


def _one_each(conditions: Any, count: int) -> NDArray[Any]:
    try:
        values: Any = np.array(list(conditions), object)
    except (TypeError, ValueError):
        raise errors.conditions_per_trial(count, type(conditions).__name__) from None
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    several = any(np.ndim(each) for each in values)
    if several or len(values) != count:
        raise errors.conditions_per_trial(count, "several for a trial" if several else str(len(values)))
    # What pandas has in the place of None is not even equal to itself in a way that can be asked for.
    return np.array([None if type(each).__name__ in ("NAType", "NaTType") else each for each in values], object)


def _of_factor(name: str, X: Any) -> Any:
    """A factor that has one number or label for every trial."""
    if not isinstance(X, Mapping) or name not in X:
        raise errors.conditions_not_there(name, list(X) if isinstance(X, Mapping) else [])
    return X[name]


def _trials(name: Any, given: Any, count: int) -> NDArray[np.intp]:
    """The trials of one group: their numbers, or a mask."""
    which = np.asarray(given)
    if which.dtype == bool and which.shape == (count,):
        return np.flatnonzero(which)
    if which.ndim != 1 or which.dtype.kind not in "iu" or not ((which >= 0) & (which < count)).all():
        expected = f"numbers of trials from 0 to {count - 1}, or a mask of {count}"
        raise errors.bad_value(f"conditions[{name!r}]", expected, given)
    return which.astype(np.intp)


def _ordered(groups: Mapping[Any, NDArray[np.intp]], order: Sequence[Any] | None) -> Conditions:
    if order is not None:
        unknown = [each for each in order if each not in groups]
        if unknown or not len(order):
            raise errors.unknown_conditions(unknown or ["none"], list(groups))
        groups = {_plain(each): groups[each] for each in order}
    return Conditions(tuple(groups), tuple(groups.values()))


def _is_scale(values: NDArray[Any]) -> bool:
    return values.dtype.kind in "iuf" and len(np.unique(values)) > GROUPS


def _plain(name: Any) -> Any:
    """A number of numpy's as Python's, and a whole one without its point."""
    value = name.item() if isinstance(name, np.generic) else name
    return int(value) if isinstance(value, float) and value.is_integer() else value
