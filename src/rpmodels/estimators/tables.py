"""Tables in scikit-learn's manner: one 2-D array or data frame, whose columns `factors=` shares out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from rpmodels import errors
from rpmodels.estimators import populations


def checked(estimator: Any, X: Any, *, reset: bool) -> Any:
    """A table as an array, its columns counted and named as scikit-learn does; other forms of data as they are.

    Rows may be missing (NaN); what else is wrong with numbers is said where factors are read.
    """
    named = isinstance(X, Mapping) and not issparse(X)  # some sparse matrices are dicts
    factors = populations.columns(getattr(estimator, "factors", None))
    if factors is None or named or _axes(X) > 2:
        return X
    least = {"ensure_min_samples": 2, "ensure_min_features": len(factors)} if reset else {}
    return validate_data(
        estimator, X, reset=reset, dtype=None if _has_words(X) else "numeric", ensure_all_finite=False, **least
    )


def columns(estimator: Any) -> Mapping[str, Any] | None:
    """`factors` with the names of columns turned into numbers."""
    factors = populations.columns(getattr(estimator, "factors", None))
    if factors is None:
        return None
    known = list(getattr(estimator, "feature_names_in_", ()))
    return {name: _numbers(str(name), each, known) for name, each in factors.items()}


def _numbers(factor: str, chosen: Any, known: list[str]) -> Any:
    one_by_one = [chosen] if isinstance(chosen, str) else chosen
    if isinstance(one_by_one, slice) or not any(isinstance(each, str) for each in np.atleast_1d(one_by_one).tolist()):
        return chosen
    for each in one_by_one:
        if each not in known:
            raise errors.unknown_column(factor, each, known)
    return [known.index(each) for each in one_by_one]


def _axes(X: Any) -> int:
    return int(X.ndim) if hasattr(X, "ndim") else np.asarray(X).ndim


def _has_words(X: Any) -> bool:
    """Whether a table holds strings, which labels may be: then it is not a matrix of numbers."""
    array = np.zeros(0) if issparse(X) else np.asarray(X)
    if array.dtype.kind in "US":
        return True
    plain = (str, int, float, bool, np.generic, type(None))
    return (
        array.dtype.kind == "O"
        and all(isinstance(each, plain) for each in array.flat)
        and any(isinstance(each, str) for each in array.flat)
    )


def names_of_latents(estimator: object, count: int, private: Mapping[str, Sequence[int]] | None = None) -> Any:
    """What the columns of a transformed table are called; of private latents by their factor."""
    kind = type(estimator).__name__.lower()
    own = [f"{kind}_{name}{k}" for name, places in (private or {}).items() for k in range(len(places))]
    return np.array([*(f"{kind}{k}" for k in range(count)), *own], dtype=object)
