"""Folds of the observations choose how strong a penalty on weights is, and what levels factors have under it."""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy import ndarray

from rpmodels.carriers import Batch
from rpmodels.learning.climbing import Climbed, Penalty, climb
from rpmodels.learning.levels import Fold, Levels, fitted_levels
from rpmodels.learning.loop import GOAL
from rpmodels.learning.objective import RPMObjective
from rpmodels.observations import Observations

FOLDS = 5
STRENGTHS = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.0)
"""Of the penalty, strongest first: inverse variances of a normal prior of every weight, inputs being standardised."""
ROUNDS = 2
WORSE = 1
"""Strengths in a row that held-out observations like less, after which weaker ones are not tried."""


@dataclass(frozen=True)
class Choice:
    """What held-out observations like best."""

    strength: float
    levels: Levels

    def climbed(self, objective: RPMObjective, observations: Observations, rounds: int) -> Climbed:
        """To the maximum under the penalty, and to the levels; what is learnt of the prior follows them."""
        batch = _everything(objective, observations)
        before = _free_energy(objective, batch)
        still = climb(objective, observations, Penalty(self.strength), rounds).still
        self.levels.bring(objective.model)
        with _factors_kept(objective):
            climb(objective, observations, Penalty(0.0), rounds)
        return Climbed(_free_energy(objective, batch) - before, still)


def chosen(objective: RPMObjective, observations: Observations) -> Choice | None:
    """The penalty under which the free energy of held-out observations is highest, each at its best levels.

    From strong to weak, each from where the last one led, or from the beginning where that says nothing: weights that
    a penalty has made zero do not come back. None where observations are too few.
    """
    if len(observations) < 2 * FOLDS:
        return None
    batch = _everything(objective, observations)
    parts = np.array_split(np.random.default_rng(0).permutation(len(observations)), FOLDS)
    training = [observations.subset(np.setdiff1d(np.arange(len(observations)), part)) for part in parts]
    folds, levels = _folds(objective, training, parts), Levels.neutral(objective.model)
    best, choice, worse = -math.inf, None, 0
    for strength in STRENGTHS:
        for fold, some in zip(folds, training, strict=True):
            climb(fold.objective, some, Penalty(strength), ROUNDS)
        levels, reached = fitted_levels(folds, batch, levels)
        if reached > best:
            best, choice, worse = reached, Choice(strength, levels), 0
        else:
            worse += 1
        if not reached > 0:
            folds, levels = _folds(objective, training, parts), Levels.neutral(objective.model)
        elif worse >= WORSE:
            break
    return choice


def _folds(objective: RPMObjective, training: Sequence[Observations], parts: Sequence[Int[ndarray, "n"]]) -> list[Fold]:
    """A model for every part, which will learn from the others."""
    folds = []
    for some, part in zip(training, parts, strict=True):
        own = copy.deepcopy(objective)
        own.n_observations = float(some.weights.sum())
        folds.append(Fold(own, torch.as_tensor(np.sort(part), device=objective.model.device)))
    return folds


def _everything(objective: RPMObjective, observations: Observations) -> Batch:
    return observations.batch(np.arange(len(observations)), objective.model.dtype, objective.model.device)


@torch.no_grad()
def _free_energy(objective: RPMObjective, batch: Batch) -> float:
    return float(objective(batch)[GOAL])


@contextmanager
def _factors_kept(objective: RPMObjective) -> Iterator[None]:
    """Inside, only what is learnt of the prior is learnt."""
    learning = [each for each in objective.model.recognition.parameters() if each.requires_grad]
    for each in learning:
        each.requires_grad = False
    try:
        yield
    finally:
        for each in learning:
            each.requires_grad = True
