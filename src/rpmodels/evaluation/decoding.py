"""From latents to behaviour: simple decoders, cross-validated by trials."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rpmodels import checks, errors
from rpmodels.estimators import Latents, RPMEstimator
from rpmodels.evaluation.clocks import in_bins, with_own_clock
from rpmodels.evaluation.folds import folds_of, n_trials, subset

PENALTIES = np.logspace(-3, 3, 13)
NEIGHBOURS = 15
KINDS = ("ridge", "knn")
Reading = Callable[[Any, Any, Any, Any], float]
"""How well behaviour is told on new trials: latents and behaviour to learn from, then those to be judged by."""
FOLDS = 3
"""In which the penalty of a logistic regression is chosen."""


class Decoder(BaseEstimator):  # type: ignore[misc]
    """Behaviour from latents by ridge regression (penalty by cross-validation) or by the nearest neighbours.

    Behaviour is numbers (…, D), or one label for every time point or every trial: then the linear decoder is a logistic
    regression, and the score the share of labels that are right. For numbers it is R², pooled over D.

    Args:
        kind: "ridge" (linear) or "knn"
        n_neighbours: of "knn"

    """

    def __init__(self, kind: str = "ridge", n_neighbours: int = NEIGHBOURS) -> None:
        self.kind = kind
        self.n_neighbours = n_neighbours

    def fit(self, latents: Any, behaviour: Any) -> "Decoder":
        """Learn from these trials."""
        if self.kind not in KINDS:
            raise errors.bad_choice("kind", KINDS, self.kind)
        rows, targets = _rows(latents, behaviour)
        self.labels_ = targets.dtype.kind not in "fiu" or targets.ndim == 1
        self._shape = targets.shape[1:]
        if self.labels_:
            _check_labels(targets)
        neighbours = min(checks.integer("n_neighbours", self.n_neighbours, 1), len(rows))
        with warnings.catch_warnings():  # what scikit-learn is going to change is no news of these data
            warnings.simplefilter("ignore", FutureWarning)
            self._decoder = make_pipeline(StandardScaler(), self._model(neighbours)).fit(rows, targets)
        return self

    def _model(self, neighbours: int) -> BaseEstimator:
        if self.labels_:
            linear = LogisticRegressionCV(Cs=1.0 / PENALTIES, cv=FOLDS, max_iter=1000)
            return linear if self.kind == "ridge" else KNeighborsClassifier(neighbours)
        return RidgeCV(PENALTIES) if self.kind == "ridge" else KNeighborsRegressor(neighbours)

    def predict(self, latents: Any) -> Any:
        """Behaviour of every time point, in the form of the latents."""
        if not hasattr(self, "_decoder"):
            raise errors.not_fitted(type(self).__name__)
        if isinstance(latents, np.ndarray):
            predicted = self._decoder.predict(latents.reshape(-1, latents.shape[-1]))
            return predicted.reshape(*latents.shape[:-1], *self._shape)
        return [self.predict(np.asarray(each)) for each in latents]

    def score(self, latents: Any, behaviour: Any) -> float:
        """R² against the mean of this behaviour, or the share of right labels."""
        if not hasattr(self, "_decoder"):
            raise errors.not_fitted(type(self).__name__)
        rows, targets = _rows(latents, behaviour)
        predicted = self._decoder.predict(rows)
        if self.labels_:
            return float((predicted == targets).mean())
        residual = np.square(targets - predicted.reshape(targets.shape)).sum()
        return float(1.0 - residual / np.square(targets - targets.mean(0)).sum())


def _read(kind: str, latents: Any, behaviour: Any, new: Any, truth: Any) -> float:
    return Decoder(kind).fit(latents, behaviour).score(new, truth)


READINGS: Mapping[str, Reading] = {kind: partial(_read, kind) for kind in KINDS}
"""By every kind of decoder."""


@dataclass(frozen=True)
class Decoding:
    """Scores on the trials of every fold that the decoder had not seen."""

    kind: str
    held_out: tuple[float, ...]
    is_accuracy: bool
    interpolation: str = ""
    """What was done to behaviour that had a clock of its own."""

    @property
    def mean(self) -> float:
        """Over folds."""
        return float(np.mean(self.held_out))

    def __repr__(self) -> str:
        name = "accuracy" if self.is_accuracy else "R²"
        spread = float(np.std(self.held_out))
        text = f"{self.kind}: held-out {name} {self.mean:.3f} ± {spread:.3f} over {len(self.held_out)} folds"
        return f"{text}; behaviour {self.interpolation}" if self.interpolation else text


def decode(
    latents: Any,
    behaviour: Any,
    *,
    kind: str = "ridge",
    cv: int | Any = 5,
    groups: Any = None,
    times: Any = None,
    at: Any = None,
    how: str = "auto",
) -> Decoding:
    """How well behaviour can be read from latents on trials that the decoder has not seen.

    Only the decoder is cross-validated. For an honest number the model must not have seen the trials either: fit it on
    some, and use `Decoder` on the others, or `compare_baselines`.

    Args:
        latents: (N, T, K), a list of (T_n, K), or (N, K)
        behaviour: numbers or labels for every time point, or one for every trial
        kind: "ridge" or "knn"
        cv: folds, a splitter, or pairs of (training, held-out) trials
        groups: trials that stay together
        times: when the latents are, (T,) or a list of (T_n,), where behaviour has a clock of its own
        at: when behaviour was taken, in the same form: it is interpolated at the times of the latents, and the result
            says how
        how: "mean" within bins, "linear", or "nearest"; default the mean where a bin has several values, else linear,
            of labels the nearest

    """
    if at is None and times is not None:
        behaviour, at = with_own_clock(behaviour, None)
    said = ""
    if n_trials(latents) != n_trials(behaviour):
        raise errors.bad_value("behaviour", f"{n_trials(latents)} trials as in latents", n_trials(behaviour))
    if at is not None:
        lengths = np.array([len(each) for each in _trials(latents)])
        behaviour, said = in_bins(behaviour, at, times, lengths, how)
    scores, labels = [], False
    for training, held_out in folds_of(cv, latents, groups):
        decoder = Decoder(kind).fit(subset(latents, training), subset(behaviour, training))
        scores.append(decoder.score(subset(latents, held_out), subset(behaviour, held_out)))
        labels = decoder.labels_
    return Decoding(kind, tuple(scores), bool(labels), said)


def points_of(model: RPMEstimator, found: Latents) -> list[NDArray[np.float64]]:
    """What decoders learn from, a trial after the other: (T_n, D), of states their probabilities."""
    points = [np.asarray(each, np.float64) for each in model.description.latent.points(found)]
    return [each.reshape(-1, each.shape[-1]) for each in points]


def _check_labels(labels: NDArray[Any]) -> None:
    """Before scikit-learn stumbles: the penalty is chosen on three folds, and there must be something to tell apart."""
    counts = np.unique(labels, return_counts=True)[1]
    if len(counts) < 2 or counts.max() < FOLDS:
        expected = (
            f"two different labels or more, one of them {FOLDS} times at least, in every part that is learnt from"
        )
        raise errors.bad_value("behaviour", expected, f"{len(counts)} in {len(labels)} rows")


def _rows(latents: Any, behaviour: Any) -> tuple[NDArray[Any], NDArray[Any]]:
    """Time points (n, K) and what goes with them, (n, D) numbers or (n,) labels."""
    trials = _trials(latents)
    given = list(behaviour)
    if len(given) != len(trials):
        raise errors.bad_value("behaviour", f"{len(trials)} trials as in latents", len(given))
    parts = []
    for number, (trial, each) in enumerate(zip(trials, given, strict=True)):
        values = np.asarray(each)
        if values.ndim == 0:  # one for the whole trial
            values = np.full(len(trial), values)
        if len(trial) == 1 and values.ndim == 1 and len(values) > 1:  # several numbers for the only row
            values = values[None]
        if len(values) != len(trial):
            expected = f"{len(trial)} values (or one for the trial)"
            raise errors.bad_value(f"behaviour, trial {number}", expected, len(values))
        parts.append(values)
    targets = np.concatenate(parts)
    if targets.ndim == 1 and targets.dtype.kind == "f":
        targets = targets[:, None]
    rows = np.concatenate(trials)
    known = np.isfinite(targets).all(1) if targets.ndim > 1 else np.ones(len(targets), bool)
    return rows[known], targets[known]


def _trials(latents: Any) -> Sequence[NDArray[Any]]:
    if isinstance(latents, np.ndarray) and latents.ndim == 2:
        return [each[None] for each in latents]
    return [np.asarray(each) for each in latents]
