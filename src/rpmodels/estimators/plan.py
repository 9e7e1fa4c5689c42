"""From an estimator's arguments and the data to a plan: everything that is decided before any work."""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, cast

from rpmodels import learning, memory
from rpmodels.estimators import parts
from rpmodels.estimators.building import model_of_states
from rpmodels.estimators.common import CommonArguments
from rpmodels.estimators.description import Description
from rpmodels.estimators.going_on import given_latents, going_on
from rpmodels.estimators.regularisation import Regularisation, batch_size, either, held_out_share, regularisation
from rpmodels.fitted import FittedRPM
from rpmodels.learning.batches import Divided
from rpmodels.learning.linear_start import LinearStart
from rpmodels.learning.starts import TaughtStart
from rpmodels.mixtures import AtomPolicy, ExtraAtoms
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors import Prior
from rpmodels.seeding import seeded, spawn

WIDTH = 50
"""Of the last hidden layer of a network."""


class Planning(CommonArguments, ABC):
    """What an estimator must say so that a plan can be made: its model, its starts, and how these are compared."""

    description: ClassVar[Description]
    """What everybody above asks of an estimator, beside `latents`."""
    low_rate: ClassVar[float] = 0.3
    """Share of the steps in which the learning rate falls."""
    strong: ClassVar[learning.Strong | None] = None
    """Regularisation while the fit searches."""
    sites_and_trials_a_step: ClassVar[tuple[int, int]] = (10_000, 20)
    """What "auto" batches have: about so many sites, at least so many trials."""

    # ---- to be said by every estimator --------------------------------------------------------

    @abstractmethod
    def _build(self, observations: Observations) -> RPM:
        """A fresh model for these data."""

    def _taught(self) -> Sequence[learning.Start]:
        """Starts that a simpler method teaches, the most trusted first: none, where there is no such method."""
        return []

    def _free(self, number: int) -> learning.Start:
        """The start after so many others that nobody teaches; the first of all are the weights as given."""
        return learning.RandomStart()

    @abstractmethod
    def _move(self) -> learning.Move | None:
        """A way out of poor optima, if there is one for this kind of latent."""

    @abstractmethod
    def _interval(self, training: learning.TrainingSettings) -> int:
        """Steps between two comparisons of the starts."""

    def _enough(self, observations: Observations) -> float:
        """Free energy that the best start must have before others are dropped."""
        return -math.inf

    def _pieces(self, observations: Observations) -> Observations:
        """What the training steps see: the observations, or pieces of them."""
        return observations

    def _regularisation(self, observations: Observations) -> Regularisation:
        """What "auto" stands for."""
        return regularisation(int(observations.exists.sum()))

    def _has_straight(self, observations: Observations) -> bool:
        """Whether MLPs of vectors have a linear map beside them, for those whose latents are states."""
        return False

    def _numbers(self, observations: Observations) -> tuple[int, int]:
        """How many numbers say what a factor says of a site, and how many the prior has at least."""
        size = getattr(self, self.description.size) if self.description.size else 1
        return (sum(size.values()),) * 2 if isinstance(size, Mapping) else (size, size)

    def _afford(self, observations: Observations) -> None:
        """Refuse more latents than the machine has memory for, before there are any."""
        name = self.description.size
        if name is None:
            return
        each, prior = self._numbers(observations)
        factors = len(observations.specs)
        # Of every factor the atoms, and a layer of weights with their gradients and moments.
        needed = 8.0 * (observations.exists.size * factors * each + 4 * WIDTH * factors * each + prior)
        memory.afford(name, getattr(self, name), needed)

    # ---- what follows -------------------------------------------------------------------------

    def _starts(self) -> Sequence[learning.Start]:
        """Half of `n_init` taught by different methods, the others free; one alone is as given."""
        count = max(1, round(self.n_init * self._chosen().search.starts))
        taught = self._taught()[: count // 2]
        free = [learning.AsGiven(), *(self._free(number) for number in range(1, count - len(taught)))]
        return [*free, *taught]

    def _held_out(self, observations: Observations) -> float:
        """Share of the observations to choose starts and to stop by."""
        given = self._chosen().training
        if not isinstance(given.validation_fraction, str):
            return given.validation_fraction
        # Who gave a tolerance wants another end; search under strong regularisation has an answer of its own to
        # networks that learn by heart.
        if given.tol is not None or self.strong is not None:
            return 0.0
        with seeded(0):
            return held_out_share(self._build(observations), observations)

    def _all_starts(self, data: Divided, training: learning.TrainingSettings) -> Sequence[learning.Start]:
        """The same; latents of the user's own in the place of all that others would teach.

        What is taught is taught to linear maps first, where networks have some beside them.
        """
        starts, given = self._starts(), self._chosen().search.start
        if given is not None:
            own = learning.GivenStart(given_latents(self, given, data.everything)[data.index], self.max_iter)
            starts = [*(each for each in starts if not each.taught), own]
        if self.strong is not None:
            return starts
        enough = self._enough(data.training)
        return [LinearStart(each, training, enough) if isinstance(each, TaughtStart) else each for each in starts]

    def _training(self, observations: Observations) -> learning.TrainingSettings:
        """Settings of the loop for these data."""
        default = self._regularisation(observations)
        given, workers = self._chosen().training, self._chosen().engine.workers
        return learning.TrainingSettings(
            max_iter=self.max_iter,
            learning_rate=self.learning_rate,
            batch_size=batch_size(given.batch_size, observations, *self.sites_and_trials_a_step),
            weight_decay=either(given.weight_decay, default.weight_decay, "weight_decay"),
            tol=given.tol,
            patience=given.patience,
            validation_fraction=self._held_out(observations),
            max_gradient_norm=cast(float | None, given.max_gradient_norm),
            low_rate=self.low_rate,
            optimiser=given.optimiser,
            scheduler=given.scheduler,
            workers=workers,
            finish=parts.named("finish", given.finish, parts.FINISHES, learning.Finish),
            strong=self.strong,
        )

    def build(self, observations: Observations) -> tuple[RPM, learning.TrainingSettings]:
        """The untrained model for these data, and how to train it: for `rp.train`, and for loops of your own.

        No restarts, moves or retries: what `fit` adds to `rp.train(model, observations, settings)`.
        """
        engine = self._chosen().engine
        self._afford(observations)
        with seeded(spawn(self.random_state, 3)[0]):
            model = self._build(self._pieces(observations))
        return model.to(learning.device_of(engine.device), learning.dtype_of(engine.dtype)), self._training(
            self._pieces(observations)
        )

    def _plan(
        self, data: Divided, training: learning.TrainingSettings, seed: int, before: FittedRPM | None
    ) -> learning.Plan[RPM]:
        """What will be tried; from the weights of an earlier fit, where there is one to go on from."""
        engine, pieces = self._chosen().engine, data.training
        with seeded(seed):
            # What depends on how much data there are does not change because some of them are held out.
            built = self._build(pieces if data.validation is None else data.everything)
        if before is not None:
            built = going_on(copy.deepcopy(before.pattern), built)
        model = built.to(learning.device_of(engine.device), learning.dtype_of(engine.dtype))
        model.prepare(pieces, as_before=before is not None)
        return learning.Plan(
            model,
            training,
            self._all_starts(data, training) if before is None else [learning.AsGiven()],
            self._interval(training),
            self._enough(pieces),
            self._move() if before is None else None,
            self._chosen().search.moves,
            partial(learning.RPMObjective, extra=self._extra_atoms(model, pieces)),
        )

    def _model_of_states(
        self,
        prior: Prior,
        atoms: AtomPolicy,
        observations: Observations,
        targets: Mapping[str, Sequence[str]] | None = None,
    ) -> RPM:
        """A model with this prior over states, inferred exactly."""
        default = replace(self._regularisation(observations), straight=self._has_straight(observations))
        factors = getattr(self, "factors", None)
        return model_of_states(prior, atoms, observations, self.network, self._chosen(), default, targets, factors)

    def _extra_atoms(self, model: RPM, observations: Observations) -> ExtraAtoms:
        """What a step has beside the atoms of its batch."""
        size = batch_size(self._chosen().training.batch_size, observations, *self.sites_and_trials_a_step)
        return self._chosen().engine.extra_atoms(size, observations, not model.draws_atoms)
