"""What every estimator shares: fit, score, save and load in scikit-learn's manner."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from inspect import isabstract
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels import checks, errors
from rpmodels.estimators import files, summary, tables
from rpmodels.estimators.adapting import WithAdapting
from rpmodels.estimators.description import Latents
from rpmodels.estimators.drift import heed
from rpmodels.estimators.fit import Fit, fit_to
from rpmodels.estimators.generative_side import WithGenerativeSide
from rpmodels.estimators.layout import Layout, Rows
from rpmodels.estimators.plan import Planning
from rpmodels.estimators.results import Results
from rpmodels.exporting import Program, export_recognition
from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import Score
from rpmodels.observations import Observations, adapters, read
from rpmodels.priors.symmetry import Symmetry

logger = logging.getLogger("rpmodels")

Estimator = TypeVar("Estimator", bound="RPMEstimator")

CHECKPOINT_EVERY = 30.0


class RPMEstimator(Results, WithGenerativeSide, Planning, WithAdapting, ABC):
    """fit / score / score_samples in scikit-learn's manner. A subclass builds the model and names its verbs."""

    gaps: ClassVar[bool] = False
    """Whether rows may be partly missing, which populations can use."""

    def fit(
        self: Estimator,
        X: Any,
        y: Any = None,
        *,
        presence: Mapping[str, Any] | None = None,
        sample_weight: Any = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: float = CHECKPOINT_EVERY,
    ) -> Estimator:
        """Learn what makes the factors depend on each other.

        Args:
            X: a dict {factor: (N, *event) array}, or one array when `factors` was given
            y: ignored (labels, where there are some, are a factor)
            presence: {factor: (N,) booleans}; rows that are all NaN are missing too
            sample_weight: (N,) weights, in the free energy and in every mixture F_j
            checkpoint: a folder; the same fit, called again after it was killed, goes on where it was
            checkpoint_every: seconds between two files of a run

        """
        self._chosen()
        table = tables.checked(self, adapters.to_trials(X, series=False)[0], reset=True)
        observations = read(
            table, factors=tables.columns(self), presence=presence, weights=sample_weight, gaps=self.gaps
        )
        return self._fit(observations, checkpoint, checkpoint_every)

    def _fit(
        self: Estimator, observations: Observations, checkpoint: str | Path | None, checkpoint_every: float
    ) -> Estimator:
        """Everything after reading; nothing of an earlier fit is touched until this one has succeeded."""
        warm = self._chosen().training.warm_start and hasattr(self, "model_")
        found = fit_to(self, observations, self.model_ if warm else None, checkpoint, checkpoint_every)
        self._keep(found)
        logger.info("%s: %s; %s", type(self).__name__, found.score, found.starts())
        found.warn()
        return self

    def _keep(self, found: Fit) -> None:
        run = found.run
        self.model_ = run.fitted
        self.history_ = run.history.table()
        self.validation_curve_ = run.validation_curve
        self.restarts_ = found.attempts
        self.n_iter_ = run.taken
        self.stop_reason_ = run.stop_reason or ""
        self.converged_ = run.converged
        self.clipped_ = {name: each.scaling.clipped for name, each in run.model.recognisers()}
        self.score_ = found.score

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file of exactly this name: no pickle, no training data, whole or not at all.

        Modules and kernels of your own are kept as tensors and must be passed to `load`.
        """
        files.save(self, self._fitted(), path)

    @classmethod
    def load(
        cls: type[Estimator], path: str | Path, *, device: str | None = None, dtype: str | None = None, **parts: Any
    ) -> Estimator:
        """A fitted model from a file, on any device and in any precision.

        Args:
            path: what `save` wrote
            device: default the CPU
            dtype: default as it was saved
            parts: arguments that are your own code (`network=`, `kernel=`, …), built as they were when saved

        """
        estimator = files.load(path, concrete(), device, dtype, parts)
        if not isinstance(estimator, cls):
            raise errors.other_class(str(path), cls.__name__, type(estimator).__name__)
        return estimator

    def export(self, path: str | Path, factor: str, *, n_rows: int = 1) -> Program:
        """Write the recognition of one factor as a program for elsewhere, by the suffix of its file: .pt2 or .onnx.

        It takes `n_rows` rows in the model's precision (labels: their places in the order of the vocabulary) and gives
        what they say beyond the prior (natural parameters), and f_j(z|x_j) itself: mean and covariance, or
        probabilities. What it returns, and what the file says in JSON, are names and shapes.
        """
        return export_recognition(self._fitted(), str(factor), path, checks.integer("n_rows", n_rows, 1))

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """scikit-learn's text, and a line about the fit."""
        return summary.text(self, N_CHAR_MAX)

    @property
    def symmetry_(self) -> Symmetry | None:
        """What p(Z) leaves free of the latents, by what it has learned: signs, rotations, orders; None: not known."""
        model = self._fitted()
        return model.prior.symmetry(torch.as_tensor(model.times, device=model.device))

    def _fitted(self) -> FittedRPM:
        if not hasattr(self, "model_"):
            raise errors.not_fitted(type(self).__name__)
        self.model_.verbose = bool(self.verbose)
        return self.model_

    def read(self, X: Any, presence: Mapping[str, Any] | None = None) -> Observations:
        """New data as the library holds them, checked against what the model was fitted to."""
        known = self._fitted().specs
        X, _ = adapters.to_trials(X, series=False)
        factors = None if isinstance(X, Mapping) else tables.columns(self)
        return read(tables.checked(self, X, reset=False), factors=factors, presence=presence, known=known)

    def _laid_out(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        self.description.check_options(options)
        return self.read(X, **options), Rows()

    def apart(self, X: Any, **options: Any) -> Observations:
        """New data as `read` gives them, without what it shows twice: of overlapping windows those that touch."""
        observations, layout = self._laid_out(X, **options)
        index = layout.apart()
        return observations if index is None else observations.subset(index)

    def _heed(self, on_drift: str | None, X: Any, **options: Any) -> None:
        """Look at new data first, where that was asked for."""
        if on_drift is not None:
            heed(self._fitted(), self.apart(X, **options), on_drift)

    @abstractmethod
    def latents(self, X: Any, *, presence: Any = None) -> Latents:
        """What the model says of data, from whatever factors are present, in the form of X.

        Beside the data it takes what `description.takes` names.
        """

    def score_samples(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> NDArray[np.float64]:
        """log W of every observation (eq 4): nats above the independent model, each scored alone."""
        return self._fitted().free_energies(self.read(X, presence)).values

    def score(self, X: Any, y: Any = None, *, presence: Mapping[str, Any] | None = None) -> Score:
        """Mean log W: nats above independence per observation. Prints with its ceiling and its median.

        Each observation is scored against the training atoms plus itself, so the score does not depend on
        the batch it came in; its ceiling is Σ_j log(atoms + 1).
        """
        return self._fitted().score(self.read(X, presence))


def concrete() -> dict[str, type[RPMEstimator]]:
    """Every estimator there is, by the name of its class."""
    return _below(RPMEstimator)


def _below(kind: Any) -> dict[str, Any]:
    tree = {each.__name__: each for each in kind.__subclasses__() if not isabstract(each)}
    for each in kind.__subclasses__():
        tree |= _below(each)
    return tree
