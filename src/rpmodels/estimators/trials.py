"""Data and what goes beside them, in forms that can be counted and divided by observations."""

from collections.abc import Mapping
from typing import Any

from rpmodels import errors
from rpmodels.estimators.base import RPMEstimator
from rpmodels.estimators.layout import is_recording
from rpmodels.observations import adapters

FOR_FITTING = "sample_weight"


def plain_data(
    estimator: RPMEstimator, X: Any, options: Mapping[str, Any], fitting: bool = False
) -> tuple[Any, dict[str, Any]]:
    """Containers as arrays and lists of observations, their times among the options where the estimator takes them.

    Options that it does not take are refused here, before any work.
    """
    description = estimator.description
    known = ("presence", *description.takes, *([FOR_FITTING] if fitting else ()))
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known:
            raise errors.not_taken(name, type(estimator).__name__, known)
    X, times = adapters.to_trials(X, given.get("times"), series=description.in_trials, timed=description.takes_times)
    return X, given if times is None else {**given, "times": times}


def check_divisible(estimator: RPMEstimator, X: Any) -> None:
    """Refuse one long recording, whose rows are no observations."""
    if estimator.description.in_time and is_recording(X):
        raise errors.one_recording(type(estimator).__name__)
