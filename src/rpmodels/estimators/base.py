"""What every estimator shares: reading data, training with restarts, and scoring in nats with a ceiling."""

import copy
import logging
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from inspect import isabstract
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.estimators import choices, files, summary, tables
from rpmodels.estimators.common import CommonArguments
from rpmodels.estimators.description import Description, Latents
from rpmodels.estimators.fingerprint import fingerprint
from rpmodels.estimators.results import Results
from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import FreeEnergy, Score
from rpmodels.learning import (
    AsGiven,
    Attempt,
    Context,
    Move,
    Plan,
    RPMObjective,
    Run,
    Start,
    TrainingSettings,
    closing_score,
    device_of,
    dtype_of,
    tournament,
)
from rpmodels.learning.batches import Divided, divide
from rpmodels.learning.checkpoints import Checkpoints, open_checkpoints
from rpmodels.learning.distributed import communicator
from rpmodels.mixtures import AtomPolicy, Empirical, ExtraAtoms
from rpmodels.model import RPM
from rpmodels.observations import Observations, adapters, read
from rpmodels.priors import Prior
from rpmodels.seeding import seeded, spawn

logger = logging.getLogger("rpmodels")

Estimator = TypeVar("Estimator", bound="RPMEstimator")

CHECKPOINT_EVERY = 30.0
AT_CEILING = 0.98
LEARNT_NOTHING = 1e-3


class RPMEstimator(Results, CommonArguments, ABC):
    """fit / score / score_samples in scikit-learn's manner. A subclass builds the model and names its verbs."""

    description: ClassVar[Description]
    """What everybody above asks of an estimator, beside `latents`."""
    low_rate: ClassVar[float] = 0.3
    """Share of the steps after the drop of the learning rate."""
    sites_and_trials_a_step: ClassVar[tuple[int, int]] = (10_000, 20)
    """What "auto" batches have: about so many sites, at least so many trials."""

    def _regularisation(self, observations: Observations) -> choices.Regularisation:
        """What "auto" stands for."""
        return choices.regularisation(int(observations.exists.sum()))

    def _training(self, observations: Observations) -> TrainingSettings:
        """TrainingSettings of the loop for these data."""
        default = self._regularisation(observations)
        given, workers = self._chosen().training, self._chosen().engine.workers
        return TrainingSettings(
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            batch_size=choices.batch_size(given.batch_size, observations, *self.sites_and_trials_a_step),
            weight_decay=choices.either(given.weight_decay, default.weight_decay, "weight_decay"),
            tol=given.tol,
            patience=given.patience,
            validation_fraction=given.validation_fraction,
            max_gradient_norm=cast(float | None, given.max_gradient_norm),
            low_rate=self.low_rate,
            optimiser=given.optimiser,
            scheduler=given.scheduler,
            workers=workers,
        )

    def build(self, observations: Observations) -> tuple[RPM, TrainingSettings]:
        """The untrained model for these data, and how to train it: for `rp.train`, and for loops of your own.

        No restarts, moves or retries: what `fit` adds to `rp.train(model, observations, settings)`.
        """
        engine = self._chosen().engine
        with seeded(spawn(self.random_state, 3)[0]):
            model = self._build(self._pieces(observations))
        return model.to(device_of(engine.device), dtype_of(engine.dtype)), self._training(self._pieces(observations))

    def _extra_atoms(self, model: RPM, observations: Observations) -> ExtraAtoms:
        """What a step has beside the atoms of its batch."""
        batch_size = self._training(observations).batch_size
        return self._chosen().engine.extra_atoms(batch_size, observations, isinstance(model.marginal, Empirical))

    @abstractmethod
    def _build(self, observations: Observations) -> RPM:
        """A fresh model for these data."""

    def _discrete(self, prior: Prior, atoms: AtomPolicy, observations: Observations) -> RPM:
        """A model with this prior over states, inferred exactly."""
        default, given = self._regularisation(observations), self._chosen().recognition
        return RPM(
            prior,
            choices.networks(
                self.network,
                given.tied,
                observations,
                dict.fromkeys(observations.specs, prior.family.raw_size),
                choices.either(given.dropout, default.dropout, "dropout", below=1.0),
                default.hidden,
            ),
            atoms=atoms,
            head=choices.head(given.head),
            scaling=given.scaling,
            input_dropout=choices.either(given.input_dropout, default.input_dropout, "input_dropout", below=1.0),
            computing=self._chosen().engine.computing(),
        )

    def _pieces(self, observations: Observations) -> Observations:
        """What the training steps see: the observations, or pieces of them."""
        return observations

    @abstractmethod
    def _starts(self) -> Sequence[Start]:
        """Where the restarts begin."""

    @abstractmethod
    def _move(self) -> Move | None:
        """A way out of poor optima, if there is one for this kind of latent."""

    @abstractmethod
    def _interval(self, training: TrainingSettings) -> int:
        """Steps between two comparisons of the starts."""

    def _enough(self, observations: Observations) -> float:
        """Free energy that the best start must have before others are dropped."""
        return -math.inf

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
        observations = read(table, factors=tables.columns(self), presence=presence, weights=sample_weight)
        return self._fit(observations, checkpoint, checkpoint_every)

    def _fit(
        self: Estimator, observations: Observations, checkpoint: str | Path | None, checkpoint_every: float
    ) -> Estimator:
        """Everything after reading; nothing of an earlier fit is touched until this one has succeeded."""
        retries = cast(int, self._chosen().search.retries)
        pieces = self._pieces(observations)
        training = self._training(pieces)
        seeds = communicator().first_does(lambda: spawn(self.random_state, 3))
        checkpoints = None
        if checkpoint is not None:
            checkpoints, seeds = open_checkpoints(checkpoint, checkpoint_every, fingerprint(self, observations), seeds)
        data = divide(pieces, training.validation_fraction, seeds[2])
        for attempt in range(1 + retries):
            # The first attempt has the seeds it always had; each further one its own.
            fresh = seeds if attempt == 0 else spawn(seeds[1] + attempt, 3)
            run, attempts = self._run(data, training, fresh, checkpoints)
            if not _collapsed(run.recent(), pieces) or attempt == retries or run.interrupted:
                break
            warnings.warn(errors.trying_again(run.recent(), attempt + 1, retries), stacklevel=3)
        self._keep(run, attempts, _closing_score(run, observations), pieces)
        return self

    def _run(
        self, data: Divided, training: TrainingSettings, seeds: Sequence[int], checkpoints: Checkpoints | None
    ) -> tuple[Run[RPM], list[Attempt]]:
        given = self._chosen()
        warm = given.training.warm_start and hasattr(self, "model_")
        with seeded(seeds[0]):
            built = copy.deepcopy(self.model_.pattern) if warm else self._build(data.training)
        model = built.to(device_of(given.engine.device), dtype_of(given.engine.dtype))
        model.prepare(data.training, as_before=warm)
        plan = Plan(
            model,
            training,
            [AsGiven()] if warm else self._starts(),
            self._interval(training),
            self._enough(data.training),
            None if warm else self._move(),
            partial(RPMObjective, extra=self._extra_atoms(model, data.training)),
        )
        callbacks = list(given.training.callbacks or ())
        context = Context(seeds[1], given.search.n_jobs, checkpoints, callbacks, bool(self.verbose))
        return tournament(plan, data, context)

    def _keep(self, run: Run[RPM], attempts: list[Attempt], score: Score, pieces: Observations) -> None:
        self.model_ = run.fitted
        self.history_ = run.history.table()
        self.validation_curve_ = run.validation_curve
        self.restarts_ = attempts
        self.n_iter_ = run.step
        self.stop_reason_ = run.stop_reason or ""
        self.clipped_ = {name: each.scaling.clipped for name, each in run.model.recognisers()}
        self.score_ = score
        logger.info("%s: %s; %s", type(self).__name__, score, self._spread())
        if score > AT_CEILING * score.ceiling > 0:
            warnings.warn(errors.at_the_ceiling(score, score.ceiling), stacklevel=4)
        elif _collapsed(run.recent(), pieces):
            warnings.warn(errors.learnt_nothing(run.recent()), stacklevel=4)

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

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """scikit-learn's text, and a line about the fit."""
        return summary.text(self, N_CHAR_MAX)

    def _spread(self) -> str:
        """What the restarts did, in a line."""
        lines = [
            f"{attempt.kind}: {', '.join(f'{f:.3f}' for f in attempt.free_energies) or 'only start'}"
            for attempt in self.restarts_
        ]
        return f"free energy of the starts at each rung: {'; '.join(lines)}"

    def _fitted(self) -> FittedRPM:
        if not hasattr(self, "model_"):
            raise errors.not_fitted(type(self).__name__)
        return self.model_

    def read(self, X: Any, presence: Mapping[str, Any] | None = None) -> Observations:
        """New data as the library holds them, checked against what the model was fitted to."""
        known = self._fitted().specs
        X, _ = adapters.to_trials(X, series=False)
        factors = None if isinstance(X, Mapping) else tables.columns(self)
        return read(tables.checked(self, X, reset=False), factors=factors, presence=presence, known=known)

    @abstractmethod
    def latents(self, X: Any, *, presence: Any = None) -> Latents:
        """What the model says of data, from whatever factors are present, in the form of X.

        Beside the data it takes what `description.takes` names.
        """

    def score_samples(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> NDArray[np.float64]:
        """log W of every observation (eq 4): nats above the independent model, each scored alone."""
        return _samples(self._fitted().free_energies(self.read(X, presence)))

    def score(self, X: Any, y: Any = None, *, presence: Mapping[str, Any] | None = None) -> Score:
        """Mean log W: nats above independence per observation. Prints with its ceiling and its median.

        Each observation is scored against the training atoms plus itself, so the score does not depend on
        the batch it came in; its ceiling is Σ_j log(atoms + 1).
        """
        return self._fitted().score(self.read(X, presence))


def _samples(energies: FreeEnergy) -> NDArray[np.float64]:
    return np.asarray(energies.total.double().cpu().numpy())


def _closing_score(run: Run[RPM], observations: Observations) -> Score:
    """With the parameters that training gave to single observations, where these are the same observations."""
    objective = cast(RPMObjective, run.objective)
    own = bool(objective.local_parameters()) and objective.local.fits(len(observations))
    return closing_score(run.fitted, observations, objective.local if own else None)


def _collapsed(free_energy: float, observations: Observations) -> bool:
    """Whether nothing was learnt: next to nothing per site."""
    return bool(free_energy < LEARNT_NOTHING * max(1.0, float(observations.exists.sum(1).mean())))


def concrete() -> dict[str, type[RPMEstimator]]:
    """Every estimator there is, by the name of its class."""
    return _below(RPMEstimator)


def _below(kind: Any) -> dict[str, Any]:
    tree = {each.__name__: each for each in kind.__subclasses__() if not isabstract(each)}
    for each in kind.__subclasses__():
        tree |= _below(each)
    return tree
