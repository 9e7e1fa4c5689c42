"""Held-out scores by trials, and the choice of the number of latents or states by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from rpmodels import errors
from rpmodels.estimators import RPMEstimator
from rpmodels.estimators.arguments import every_argument
from rpmodels.evaluation.folds import Fold, Given, divisible, folds_of
from rpmodels.free_energy import Score
from rpmodels.learning.parallel import parallel_map


@dataclass(frozen=True)
class CrossValidation:
    """Scores of every fold, in nats above independence per observation."""

    held_out: tuple[Score, ...]
    training: tuple[Score, ...]

    @property
    def mean(self) -> float:
        """Of the held-out scores."""
        return float(np.mean(self.held_out))

    @property
    def standard_error(self) -> float:
        """Of that mean, from the spread over folds."""
        return float(np.std(self.held_out, ddof=1) / np.sqrt(len(self.held_out)))

    def __repr__(self) -> str:
        return (
            f"held-out score {self.mean:.4f} ± {self.standard_error:.4f} nats above independence per observation "
            f"({len(self.held_out)} folds; training {float(np.mean(self.training)):.4f})"
        )


def cross_validate(
    estimator: RPMEstimator,
    X: Any,
    *,
    cv: int | Any = 5,
    groups: Any = None,
    times: Any = None,
    inputs: Any = None,
    presence: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> CrossValidation:
    """Fit on some trials, score the others, in turn.

    Args:
        estimator: not fitted, and left so
        X: trials in any form that `fit` takes, but one long recording: cut it into trials first
        cv: number of folds, a splitter with `split(X, y, groups)`, or pairs of (training, held-out) trials
        groups: one label per trial; trials of one group (a session, a subject) are never on both sides
        times: as in `fit`, for estimators that take them
        inputs: as in `fit`, for estimators that take them
        presence: as in `fit`
        sample_weight: as in `fit`
        n_jobs: folds at once

    """
    given = divisible(estimator, X, times=times, inputs=inputs, presence=presence, sample_weight=sample_weight)
    scored = list(parallel_map(_score, folds_of(cv, given.X, groups), n_jobs, estimator, given))
    return CrossValidation(tuple(new for new, _ in scored), tuple(old for _, old in scored))


def _score(fold: Fold, estimator: RPMEstimator, given: Given) -> tuple[Score, Score]:
    training, held_out = (given.only(index) for index in fold)
    fitted = training.fit(clone(estimator))
    return fitted.score(held_out.X, **held_out.new), fitted.score_


@dataclass(frozen=True)
class Choice:
    """What was tried, and which of it to take."""

    name: str
    tried: Mapping[Any, CrossValidation]

    @property
    def highest(self) -> Any:
        """The value with the highest held-out score."""
        return max(self.tried, key=lambda value: self.tried[value].mean)

    @property
    def best(self) -> Any:
        """The first value (list them from simple to rich) within one standard error of the highest."""
        top = self.tried[self.highest]
        return next(value for value, each in self.tried.items() if each.mean >= top.mean - top.standard_error)

    def __repr__(self) -> str:
        lines = [f"{self.name}={value!r}: {each}" for value, each in self.tried.items()]
        return "\n".join([*lines, f"best: {self.name}={self.best!r}"])


def choose(estimator: RPMEstimator, name: str, values: Sequence[Any], X: Any, **options: Any) -> Choice:
    """`cross_validate` for every value of one argument, on the same folds: how many latents, how many states?

    Args:
        estimator: all other arguments
        name: of the argument, such as "n_latents" or "n_states"; in a group, "training__weight_decay"
        values: from simple to rich
        X: trials
        options: as in `cross_validate`

    """
    known = {*estimator.declared, *(each.replace(".", "__") for each in every_argument(type(estimator)))}
    if name not in known:
        raise errors.bad_choice("name", sorted(known), name)
    if not len(values):
        raise errors.bad_value("values", "at least one", "none")
    tried = {value: cross_validate(clone(estimator).set_params(**{name: value}), X, **options) for value in values}
    return Choice(name, tried)
