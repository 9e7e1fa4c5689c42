"""What every estimator shares: reading data, training with restarts, and scoring in nats with a ceiling."""

import logging
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from rpmodels import checks, errors
from rpmodels.free_energy import Score
from rpmodels.learning import Attempt, Move, Start, Training, best_of, device_of, dtype_of
from rpmodels.learning.batches import divide
from rpmodels.learning.seeding import seeded, spawn
from rpmodels.model import RPM
from rpmodels.observations import Observations, read

logger = logging.getLogger("rpmodels")

Estimator = TypeVar("Estimator", bound="RPMEstimator")

AT_CEILING = 0.98
LEARNT_NOTHING = 1e-3


class RPMEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """fit / score / score_samples in scikit-learn's manner. A subclass builds the model and names its verbs."""

    model_: RPM
    history_: dict[str, NDArray[Any]]
    restarts_: list[Attempt]
    n_iter_: int
    stop_reason_: str
    score_: Score
    validation_curve_: list[dict[str, float]]
    clipped_: dict[str, int]

    factors: Mapping[str, Any] | None
    n_init: int
    n_jobs: int | None
    random_state: int | None
    device: str
    dtype: str
    verbose: int
    callbacks: Sequence[Any] | None

    @abstractmethod
    def _training(self, observations: Observations) -> Training:
        """Settings of the loop for these data."""

    @abstractmethod
    def _build(self, observations: Observations) -> RPM:
        """A fresh model for these data."""

    @abstractmethod
    def _starts(self) -> Sequence[Start]:
        """Where the restarts begin."""

    @abstractmethod
    def _move(self) -> Move | None:
        """A way out of poor optima, if there is one for this kind of latent."""

    @abstractmethod
    def _rung(self, training: Training) -> int:
        """Steps between two halvings of the restarts."""

    def fit(
        self: Estimator,
        X: Any,
        y: Any = None,
        *,
        presence: Mapping[str, Any] | None = None,
        sample_weight: Any = None,
    ) -> Estimator:
        """Learn what makes the factors depend on each other.

        Args:
            X: a dict {factor: (N, *event) array}, or one array when `factors` was given
            y: ignored (labels, where there are some, are a factor)
            presence: {factor: (N,) booleans}; rows that are all NaN are missing too
            sample_weight: (N,) weights, in the free energy and in every mixture F_j

        """
        checks.integer("n_init", self.n_init, 1)
        if self.n_jobs is not None and (self.n_jobs == 0 or not isinstance(self.n_jobs, int)):
            raise errors.bad_value("n_jobs", "None, or an integer other than 0", self.n_jobs)
        observations = read(X, factors=self.factors, presence=presence, weights=sample_weight)
        observations.check_learnable()
        seeds = spawn(self.random_state, 3)
        training = self._training(observations)
        data = divide(observations, training.validation_fraction, seeds[2])
        with seeded(seeds[0]):
            model = self._build(data.training).to(device_of(self.device), dtype_of(self.dtype))
        model.prepare(data.training)
        run, attempts = best_of(
            model,
            data,
            training,
            self._starts(),
            rung=self._rung(training),
            random_state=seeds[1],
            n_jobs=self.n_jobs,
            move=self._move(),
            consumers=list(self.callbacks or ()),
            verbose=bool(self.verbose),
        )
        self.model_ = run.model
        self.history_ = run.history.table()
        self.validation_curve_ = run.validation_curve
        self.restarts_ = attempts
        self.n_iter_ = run.step
        self.stop_reason_ = run.stop_reason or ""
        self.clipped_ = {name: r.scaling.clipped for name, r in self.model_.recognisers()}
        self.score_ = self._fit_score(observations)
        logger.info("%s: %s", type(self).__name__, self._spread())
        return self

    def _spread(self) -> str:
        """What the restarts did, in a line."""
        lines = [
            f"{attempt.kind}: {', '.join(f'{f:.3f}' for f in attempt.free_energies) or 'only start'}"
            for attempt in self.restarts_
        ]
        return f"free energy of the starts at each rung: {'; '.join(lines)}"

    def _fit_score(self, observations: Observations) -> Score:
        """The training form: every observation is among the atoms already, and the mean has its tight ceiling."""
        values = torch.cat([inferred.energy.total for inferred in self.model_.infer(observations, own=False)])
        weights = observations.weights / observations.weights.sum()
        numbers = values.double().cpu().numpy()
        ceiling = self.model_.fit_ceiling(observations)
        # Rows of no weight are no atoms: what they would score says nothing about the fit.
        median = float(np.median(numbers[observations.weights > 0]))
        score = Score(float(weights @ numbers), ceiling, median)
        logger.info("%s: %s", type(self).__name__, score)
        if score > AT_CEILING * ceiling > 0:
            warnings.warn(errors.at_the_ceiling(score, ceiling), stacklevel=3)
        elif score < LEARNT_NOTHING:
            warnings.warn(errors.learnt_nothing(score), stacklevel=3)
        return score

    def _fitted(self) -> RPM:
        if not hasattr(self, "model_"):
            raise errors.not_fitted(type(self).__name__)
        return self.model_

    def _observations(self, X: Any, presence: Mapping[str, Any] | None = None) -> Observations:
        """New data, checked against what the model was fitted to."""
        known = self._fitted().specs
        factors = None if isinstance(X, Mapping) else self.factors
        return read(X, factors=factors, presence=presence, known=known)

    def score_samples(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> NDArray[np.float64]:
        """log W of every observation (eq 4): nats above the independent model, each scored alone."""
        return self._scores(self._observations(X, presence))[0]

    def score(self, X: Any, y: Any = None, *, presence: Mapping[str, Any] | None = None) -> Score:
        """Mean log W: nats above independence per observation. Prints with its ceiling and its median.

        Each observation is scored against the training atoms plus itself, so the score does not depend on
        the batch it came in; its ceiling is Σ_j log(atoms + 1).
        """
        values, ceilings = self._scores(self._observations(X, presence))
        return Score(float(values.mean()), float(ceilings.mean()), float(np.median(values)))

    def _scores(self, observations: Observations) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        energies = [inferred.energy for inferred in self._fitted().infer(observations)]
        totals = torch.cat([energy.total for energy in energies])
        ceilings = torch.cat([energy.log_atoms for energy in energies])
        return totals.double().cpu().numpy(), ceilings.double().cpu().numpy()
