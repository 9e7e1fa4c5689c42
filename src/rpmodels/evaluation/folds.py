"""Trials divided into folds, whatever form they come in: an array, a list, or a dict of either; or a container."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import GroupKFold, KFold

from rpmodels import checks, errors
from rpmodels.estimators import RPMEstimator, check_divisible, plain_data

Index = NDArray[np.int64]
Fold = tuple[Index, Index]
"""Training trials, and those that are held out."""


def n_trials(X: Any) -> int:
    """How many observations there are along the first axis."""
    if isinstance(X, Mapping):
        counts = {str(name): n_trials(value) for name, value in X.items()}
        if len(set(counts.values())) != 1:
            raise errors.different_counts(counts)
        return next(iter(counts.values()))
    return len(X)


def subset(X: Any, index: Index) -> Any:
    """These observations, in the form they had."""
    if X is None:
        return None
    if isinstance(X, Mapping):
        return {name: subset(value, index) for name, value in X.items()}
    if isinstance(X, Sequence):
        return [X[int(n)] for n in index]
    return X.iloc[index] if hasattr(X, "iloc") else X[index]


def subset_of_times(times: Any, index: Index) -> Any:
    """Times that all trials share stay as they are; others go with their trials."""
    if isinstance(times, Mapping):
        return {name: subset_of_times(each, index) for name, each in times.items()}
    shared = times is None or (np.ndim(times[0]) == 0 and times[0] is not None)
    return times if shared else subset(times, index)


@dataclass(frozen=True)
class Given:
    """Trials and what goes beside them (times, presence, weights), divided together."""

    X: Any
    beside: Mapping[str, Any]

    def only(self, index: Index) -> "Given":
        """These trials, with what is theirs."""
        beside = {
            name: subset_of_times(value, index) if name == "times" else subset(value, index)
            for name, value in self.beside.items()
        }
        return Given(subset(self.X, index), beside)

    def fit(self, estimator: RPMEstimator) -> RPMEstimator:
        """This estimator, fitted to them."""
        return estimator.fit(self.X, **self.beside)

    @property
    def new(self) -> dict[str, Any]:
        """What verbs take beside data: all but weights."""
        return {name: value for name, value in self.beside.items() if name != "sample_weight"}


def divisible(estimator: RPMEstimator, X: Any, **beside: Any) -> Given:
    """Data of an estimator that is to be fitted to some of the trials and asked of others."""
    plain, given = plain_data(estimator, X, beside, fitting=True)
    check_divisible(estimator, plain)
    return Given(plain, given)


@dataclass(frozen=True)
class TrialFolds:
    """A splitter for trials in lists and dicts, which scikit-learn's own cannot index; groups stay together."""

    n_splits: int = 5
    random_state: int | None = 0

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """As scikit-learn asks."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Index, Index]]:
        """(training, held-out) trials, shuffled; by whole groups where groups are given."""
        count = n_trials(X)
        checks.integer("n_splits", self.n_splits, 2)
        if count < self.n_splits:
            raise errors.bad_value("n_splits", f"at most the number of trials, {count}", self.n_splits)
        rows = np.arange(count)
        if groups is None:
            yield from KFold(self.n_splits, shuffle=True, random_state=self.random_state).split(rows)
            return
        labels = _groups(groups, count)
        several = len(np.unique(labels))
        if several < self.n_splits:
            raise errors.bad_value("n_splits", f"at most the number of groups, {several}", self.n_splits)
        yield from GroupKFold(self.n_splits).split(rows, groups=labels)


def folds_of(cv: Any, X: Any, groups: Any = None) -> list[Fold]:
    """From a number of folds, a splitter with `split(X, y, groups)`, or pairs of (training, held-out) trials.

    Where groups are given, none of them is on both sides, whoever divides.
    """
    if isinstance(cv, int):
        cv = TrialFolds(cv)
    pairs = cv.split(X, None, groups) if hasattr(cv, "split") else cv
    folds = [(np.asarray(training), np.asarray(held_out)) for training, held_out in pairs]
    if groups is not None:
        labels = _groups(groups, n_trials(X))
        for training, held_out in folds:
            both = np.intersect1d(labels[training], labels[held_out])
            if len(both):
                raise errors.group_on_both_sides(both[0])
    return folds


def _groups(groups: Any, count: int) -> NDArray[Any]:
    labels = np.asarray(groups)
    if labels.shape != (count,):
        got = f"{len(labels)}" if labels.ndim == 1 else f"shape {labels.shape}"
        raise errors.bad_value("groups", f"one for each of {count} trials", got)
    return labels
