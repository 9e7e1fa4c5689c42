"""Held-out scores by trials, and the choice of the number of latents or states by them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone

from rpmodels import errors
from rpmodels.estimators import RPMEstimator
from rpmodels.estimators.arguments import every_argument
from rpmodels.evaluation.clocks import clocked
from rpmodels.evaluation.decoding import READINGS, points_of
from rpmodels.evaluation.folds import Fold, Given, folds_of, subset
from rpmodels.free_energy import Score
from rpmodels.learning.parallel import parallel_list

SCORE = "score"


@dataclass(frozen=True)
class CrossValidation:
    """Scores of every fold, in nats above independence per observation (of `choose_bins`: per second)."""

    held_out: tuple[float, ...]
    training: tuple[float, ...]
    decoding: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """With `y`: how well it was read from the latents of the held-out trials, by every kind of decoder."""
    per: str = "observation"
    interpolation: str = ""
    """What was done to a `y` that had a clock of its own."""

    @property
    def mean(self) -> float:
        """Of the held-out scores."""
        return self.measured(SCORE)[0]

    @property
    def standard_error(self) -> float:
        """Of that mean, from the spread over folds."""
        return self.measured(SCORE)[1]

    def measured(self, by: str) -> tuple[float, float]:
        """Mean and standard error over folds of the score, or of what a kind of decoder reads."""
        values = self.held_out if by == SCORE else self.decoding[by]
        return float(np.mean(values)), float(np.std(values, ddof=1) / np.sqrt(len(values)))

    def __repr__(self) -> str:
        return f"{self.text()}; y {self.interpolation}" if self.interpolation else self.text()

    def text(self) -> str:
        """Its numbers."""
        mean, error = self.measured(SCORE)
        read = "".join(f"; y by {kind} {m:.3f} ± {e:.3f}" for kind, (m, e) in self._read())
        return (
            f"held-out score {mean:.4f} ± {error:.4f} nats above independence per {self.per} "
            f"({len(self.held_out)} folds; training {float(np.mean(self.training)):.4f}){read}"
        )

    def _read(self) -> list[tuple[str, tuple[float, float]]]:
        return [(kind, self.measured(kind)) for kind in self.decoding]


def cross_validate(
    estimator: RPMEstimator,
    X: Any,
    *,
    y: Any = None,
    cv: int | Any = 5,
    groups: Any = None,
    times: Any = None,
    at: Any = None,
    how: str = "auto",
    inputs: Any = None,
    presence: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> CrossValidation:
    """Fit on some trials, score the others, in turn.

    Args:
        estimator: not fitted, and left so
        X: trials in any form that `fit` takes, but one long recording: cut it into trials first
        y: behaviour or labels, one value per bin or per trial: decoders learn it from the latents of the training
            trials and are judged on the others; by "ridge" (of labels: logistic regression) and by 15 nearest
            neighbours ("knn"), R² or the share of right labels. It should be no factor of X, which latents would repeat
        cv: number of folds, a splitter with `split(X, y, groups)`, or pairs of (training, held-out) trials
        groups: one label per trial; trials of one group (a session, a subject) are never on both sides
        times: as in `fit`, for estimators that take them, and of bins where `y` has a clock of its own
        at: when `y` was taken, (T,) or a list of (T_n,), where it was not in the bins of X: it is interpolated, and the
            result says how
        how: "mean" within bins, "linear", or "nearest"; default the mean where a bin has several values, else linear,
            of labels the nearest
        inputs: as in `fit`, for estimators that take them
        presence: as in `fit`
        sample_weight: as in `fit`
        n_jobs: folds at once
        verbose: 1 for a progress bar, a step for every fold

    """
    beside = {"times": times, "inputs": inputs, "presence": presence, "sample_weight": sample_weight}
    return validated([estimator], X, (y, at, how), cv, groups, beside, n_jobs, "cross_validate", verbose)[0]


def validated(
    estimators: Sequence[RPMEstimator],
    X: Any,
    behaviour: tuple[Any, Any, str],
    cv: int | Any,
    groups: Any,
    beside: Mapping[str, Any],
    n_jobs: int | None,
    label: str,
    verbose: int,
) -> list[CrossValidation]:
    """Every estimator on the same folds, all of them jobs under one bar; behaviour: y, its times, and how."""
    given, y, said = clocked(estimators[0], X, *behaviour, beside)
    folds = list(folds_of(cv, given.X, groups))
    tasks = [(each, fold) for each in estimators for fold in folds]
    scored = parallel_list(_score, tasks, n_jobs, given, y, label=label, verbose=verbose)
    return [_gathered(scored[n : n + len(folds)], y is not None, said) for n in range(0, len(tasks), len(folds))]


Scored = tuple[Score, Score, dict[str, float]]


def _gathered(scored: Sequence[Scored], decoded: bool, said: str) -> CrossValidation:
    read = {kind: tuple(each[kind] for _, _, each in scored) for kind in (READINGS if decoded else ())}
    new, old = tuple(each for each, _, _ in scored), tuple(each for _, each, _ in scored)
    return CrossValidation(new, old, read, interpolation=said)


def _score(task: tuple[RPMEstimator, Fold], given: Given, y: Any) -> Scored:
    """Held-out and training score, and what is read of behaviour."""
    estimator, fold = task
    training, held_out = (given.only(index) for index in fold)
    fitted = training.fit(clone(estimator))
    new, old = fitted.score(held_out.X, **held_out.new), fitted.score_
    if y is None:
        return new, old, {}
    known, unknown = (points_of(fitted, fitted.latents(each.X, **each.new)) for each in (training, held_out))
    behaviour, truth = (subset(y, index) for index in fold)
    return new, old, {kind: read(known, behaviour, unknown, truth) for kind, read in READINGS.items()}


@dataclass(frozen=True)
class Choice:
    """What was tried, and which of it to take."""

    name: str
    tried: Mapping[Any, CrossValidation]
    by: str = SCORE
    """What chooses: the held-out score, or a kind of decoder."""

    @property
    def highest(self) -> Any:
        """The value with the highest held-out score, or of which most is read."""
        return max(self.tried, key=lambda value: self.tried[value].measured(self.by)[0])

    @property
    def best(self) -> Any:
        """The first value (list them from simple to rich) within one standard error of the highest."""
        mean, error = self.tried[self.highest].measured(self.by)
        return next(value for value, each in self.tried.items() if each.measured(self.by)[0] >= mean - error)

    def __repr__(self) -> str:
        lines = [f"{self.name}={value!r}: {each.text()}" for value, each in self.tried.items()]
        by = "" if self.by == SCORE else f" (by {self.by})"
        said = f"; y {self.interpolation}" if self.interpolation else ""
        return "\n".join([*lines, f"best{by}: {self.name}={self.best!r}{said}"])

    @property
    def interpolation(self) -> str:
        """What was done to a `y` that had a clock of its own."""
        return ", ".join(dict.fromkeys(each.interpolation for each in self.tried.values() if each.interpolation))


def check_measure(by: str, y: Any) -> None:
    """Refuse what cannot choose, before any work."""
    if by not in (SCORE, *READINGS):
        raise errors.bad_choice("by", (SCORE, *READINGS), by)
    if by != SCORE and y is None:
        raise errors.nothing_to_choose_by(by)


def choose(
    estimator: RPMEstimator,
    name: str,
    values: Sequence[Any],
    X: Any,
    *,
    y: Any = None,
    at: Any = None,
    how: str = "auto",
    by: str = SCORE,
    cv: int | Any = 5,
    groups: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> Choice:
    """`cross_validate` for every value of one argument, on the same folds: how many latents, how many states?

    The held-out score tells how much of what observations share was found, and does not rank how well a variable can be
    read from the latents. Where there is one that you care about, pass it as `y`: how well it is read stands beside the
    score of every value, and chooses only if `by` says so.

    Args:
        estimator: all other arguments
        name: of the argument, such as "n_latents" or "n_states"; in a group, "training__weight_decay"
        values: from simple to rich
        X: trials
        y: behaviour or labels, as in `cross_validate`
        at: when `y` was taken, as in `cross_validate`
        how: as in `cross_validate`
        by: what chooses: "score", or with `y` a decoder, "ridge" or "knn"
        cv: as in `cross_validate`
        groups: as in `cross_validate`
        n_jobs: folds and values at once
        verbose: 1 for a progress bar, a step for every fold of every value
        options: as in `fit` (times, inputs, presence, sample_weight)

    """
    known = {*estimator.declared, *(each.replace(".", "__") for each in every_argument(type(estimator)))}
    if name not in known:
        raise errors.bad_choice("name", sorted(known), name)
    if not len(values):
        raise errors.bad_value("values", "at least one", "none")
    check_measure(by, y)
    models = [clone(estimator).set_params(**{name: value}) for value in values]
    found = validated(models, X, (y, at, how), cv, groups, options, n_jobs, "choose", verbose)
    return Choice(name, dict(zip(values, found, strict=True)), by)
