"""Trials of which one factor is a population that was counted, with some of it hidden or left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks, errors
from rpmodels.estimators import RPMEstimator
from rpmodels.evaluation.folds import Given, Index, divisible
from rpmodels.observations import are_counts

Rows = list[NDArray[np.float64]]


@dataclass(frozen=True)
class Counts:
    """Trials, and which of their factors is counted: None where the data are the counts themselves."""

    given: Given
    name: str | None

    @staticmethod
    def of(estimator: RPMEstimator, X: Any, factor: str | None, **options: Any) -> "Counts":
        """Checked: whole numbers from nought up, NaN where one is missing, in every trial."""
        check_named(estimator, X)
        given = divisible(estimator, X, **options)
        found = Counts(given, _counted(given.X, factor) if isinstance(given.X, Mapping) else None)
        for number, trial in enumerate(found.rows):
            if trial.ndim != 2 or not are_counts(trial):
                raise errors.no_counts(found.name or "x", number)
        return found

    @property
    def factor(self) -> str:
        """As the model calls it."""
        return "x" if self.name is None else str(self.name)

    @property
    def _values(self) -> Any:
        return self.given.X if self.name is None else self.given.X[self.name]

    @cached_property
    def rows(self) -> Rows:
        """Counts of every trial, (T_n, C); of a table one row each."""
        return rows_of(self._values)

    @property
    def together(self) -> NDArray[np.float64]:
        """(n, C), one trial after the other."""
        return np.concatenate(self.rows)

    @property
    def n_channels(self) -> int:
        """C."""
        return int(self.rows[0].shape[1])

    def only(self, index: Index) -> "Counts":
        """These trials."""
        return Counts(self.given.only(index), self.name)

    # ---- parts of them --------------------------------------------------------------------------

    def hiding(self, channels: Index) -> Given:
        """With these channels not recorded."""
        return self._changed(lambda trial: _hidden(trial, channels))

    def lacking(self, channels: Index) -> Given:
        """Without these channels."""
        kept = np.setdiff1d(np.arange(self.n_channels), channels)
        return self._changed(lambda trial: _columns(trial, kept))

    def until(self, ends: Sequence[int]) -> Given:
        """With nothing recorded, of any factor, from these bins of the trials on."""
        longest = max(len(each) for each in self.rows)
        before = np.arange(longest) < np.asarray(ends)[:, None]
        names = ["x"] if self.name is None else [str(each) for each in self.given.X]
        asked = self.given.beside.get("presence") or {}
        presence = {name: before & _by_bin(asked.get(name, True), before) for name in names}
        return Given(self.given.X, {**self.given.beside, "presence": presence})

    def _changed(self, change: Any) -> Given:
        values = self._values
        changed = [change(each) for each in values] if isinstance(values, Sequence) else change(values)
        X = changed if self.name is None else {**self.given.X, self.name: changed}
        return Given(X, self.given.beside)


def check_named(estimator: RPMEstimator, X: Any) -> None:
    """Refuse one array whose columns belong to several factors: which of them are counts could not be told."""
    split = {} if isinstance(X, Mapping) else getattr(estimator, "factors", None) or {}
    if any(getattr(each, "columns", each) is not None for each in split.values()):
        raise errors.bad_value("X", "a dict of factors, where columns would be split by `factors`", "one array")


def rows_of(values: Any) -> Rows:
    """Every trial of a result or of counts as (T_n, …), one row each for a table."""
    whole = np.asarray(values, np.float64) if not isinstance(values, Sequence) else None
    if whole is None:
        return [np.asarray(each, np.float64) for each in values]
    return list(whole if whole.ndim > 2 else whole[:, None])


def chosen_channels(held_out: Any, n_channels: int, random_state: Any) -> Index:
    """A share of them, drawn at random, or those that were named."""
    if np.ndim(held_out) == 0:
        share = checks.number("held_out", held_out, above=0.0, below=1.0)
        if n_channels < 2:
            raise errors.bad_value("X", "two channels or more, to predict one from the other", n_channels)
        size = min(max(1, round(share * n_channels)), n_channels - 1)
        return np.sort(np.random.default_rng(random_state).choice(n_channels, size, replace=False))
    index = np.unique(np.asarray(held_out))
    good = index.dtype.kind in "iu" and 0 < len(index) < n_channels and index[0] >= 0 and index[-1] < n_channels
    if not good:
        raise errors.bad_value("held_out", f"a share, or some of the channels 0 to {n_channels - 1}", held_out)
    return index.astype(np.int64)


def _counted(X: Mapping[str, Any], factor: str | None) -> str:
    """The factor that was asked for, or the only one of vectors of counts."""
    by_name = {str(name): name for name in X}
    if factor is not None:
        if str(factor) not in by_name:
            raise errors.unknown_factor(str(factor), list(by_name))
        return by_name[str(factor)]
    found = [name for name, each in X.items() if _look_like_counts(each)]
    if len(found) != 1:
        raise errors.which_counts([str(name) for name in (found or X)])
    return found[0]


def _look_like_counts(values: Any) -> bool:
    try:
        first = rows_of(values)[0]
    except (TypeError, ValueError):
        return False
    return first.ndim == 2 and first.shape[1] > 1 and are_counts(first)


def _columns(trial: Any, channels: Index) -> Any:
    return trial.iloc[:, channels] if hasattr(trial, "iloc") else np.asarray(trial)[..., channels]


def _hidden(trial: Any, channels: Index) -> Any:
    if hasattr(trial, "iloc"):
        changed = trial.astype(np.float64)
        changed.iloc[:, channels] = np.nan
        return changed
    values = np.array(trial, np.float64)
    values[..., channels] = np.nan
    return values


def _by_bin(asked: Any, before: NDArray[np.bool_]) -> NDArray[np.bool_]:
    given = np.asarray(asked)
    return np.asarray(given[:, None] if given.ndim == 1 else given) & np.ones_like(before)
