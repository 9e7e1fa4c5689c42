"""The deterministic end of a fit: all data, all atoms, no noise, until the free energy stands still.

Steps on batches leave a model near its optimum, and how near depends on their size and number. Where every number of a
model is close to a natural parameter (linear maps, tables, constants) L-BFGS goes the rest of the way: in double
precision where that costs little, without dropout, F_j over all atoms. Where rows are few the maximum of the likelihood
is one of noise, and what is maximised has a penalty on the weights, as strong as held-out observations want it. Of
networks with hidden layers the noise of the steps is the regulariser, and they are left where it brought them. Where a
pass over all pairs of sites and atoms takes seconds, a part of the observations shows the way (learning/long_climb.py,
docs/results/optimum.md).
"""

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch

from rpmodels import errors
from rpmodels.families import Family, InPlacePairs
from rpmodels.fitted import FittedRPM
from rpmodels.learning.climbing import ITERATIONS, STILL, Climbed, Penalty, climb
from rpmodels.learning.long_climb import climb_long
from rpmodels.learning.loop import Objective
from rpmodels.learning.objective import RPMObjective
from rpmodels.observations import Observations

PAIRS = 2**22
"""Of sites and atoms, up to which a pass over all of them is short."""
WORK = 2**30
"""Pairs that all short passes may see, and so how many rounds there are."""
LONGEST = 2**30
"""Pairs, above which a pass over all of them is too long (some seven seconds)."""
LONG_WORK = 2**34
"""Pairs that all long passes may see."""
PASSES = 60
"""Long ones, at most."""
PART = 2**23
"""Pairs of the observations that show the way where passes are long."""
EXACT = 2**20
"""Pairs up to which a pass in double precision costs little."""
ROUNDS = 20
ENOUGH_ROUNDS = 40
"""So many that would fit, and it costs less than the steps that it makes needless."""
PAIRS_OF_FOLDS = 2**20
"""Pairs, above which folds of the observations would take too long."""
NUMBERS = 2**25
"""Of all observations together, likewise."""
PLENTY = 50
"""Rows for every input channel, from which on the maximum of the likelihood is not one of noise."""
FOLDS = 5
STRENGTHS = (30.0, 5.0, 1.0, 0.2, 0.04, 0.0)
"""Of the penalty, strongest first: inverse variances of a normal prior of every weight, inputs being standardised."""
ITERATIONS_OF_FOLDS = 20
"""Under every strength; each begins where the last one led (ten are too few: the first of them stop far below)."""
WORSE = 1
"""Strengths in a row that held-out observations like less, after which weaker ones are not tried."""

NOTHING = 1e-3
"""Nats, up to which networks say nothing: under a strong penalty they may all be zero."""


@dataclass(frozen=True)
class Finished:
    """What became of it."""

    converged: bool
    gained: float
    """Nats per observation; less than nothing where steps had learnt noise."""
    reason: str
    reached: Sequence[float] = ()
    """What was maximised, at the end of this one and of every rival."""


class Finish(ABC):
    """What comes after the last step."""

    def suffices(self, objective: Objective[Any], observations: Observations) -> bool:
        """Whether it arrives from wherever a search has ended, so that more steps would be lost on it."""
        return False

    def is_short(self, objective: Objective[Any], observations: Observations) -> bool:
        """Whether it costs little from wherever it begins; else it is for the end of a fit alone."""
        return True

    @abstractmethod
    def __call__(
        self, objective: Objective[Any], observations: Observations, rivals: Sequence[Objective[Any]] = ()
    ) -> Finished | None:
        """Change the objective's parameters in place for the better; None where there is nothing that it could do.

        `rivals`: the same model as other starts have left it. Where one of them ends higher, its end is taken.
        """


class NoFinish(Finish):
    """The parameters of the last step."""

    def __call__(
        self, objective: Objective[Any], observations: Observations, rivals: Sequence[Objective[Any]] = ()
    ) -> Finished | None:
        """Nothing."""
        return None


class QuasiNewton(Finish):
    """L-BFGS on the free energy of all the data, for small models without hidden layers."""

    def suffices(self, objective: Objective[Any], observations: Observations) -> bool:
        """Where it has as many rounds as it may want, and folds to choose a penalty by."""
        if not objective.is_direct() or not (_has_plenty(observations) or len(observations) >= 2 * FOLDS):
            return False
        pairs = _pairs(cast(RPMObjective, objective), observations)
        return not _is_too_much(pairs, observations) and WORK // (ITERATIONS * max(1, pairs)) >= ENOUGH_ROUNDS

    def is_short(self, objective: Objective[Any], observations: Observations) -> bool:
        """Where passes over all pairs are."""
        return not objective.is_direct() or _pairs(cast(RPMObjective, objective), observations) <= PAIRS

    def __call__(
        self, objective: Objective[Any], observations: Observations, rivals: Sequence[Objective[Any]] = ()
    ) -> Finished | None:
        """Climb; where rows are few, with the penalty that folds of them choose."""
        if not objective.is_direct():
            return None
        objective = cast(RPMObjective, objective)
        pairs = _pairs(objective, observations)
        if _is_too_much(pairs, observations):
            return None
        alone = _prepared(objective, pairs)
        strength = 0.0 if _has_plenty(observations) else _chosen(alone, observations)
        if strength is None:
            return None
        best, climbed = alone, _climbed(alone, observations, Penalty(strength), pairs)
        before, reached = climbed.reached - climbed.gained, [climbed.value]
        for rival in rivals:
            other = _prepared(cast(RPMObjective, rival), pairs)
            end = climbed
            with suppress(errors.NumericalError):  # a start that had failed
                end = _climbed(other, observations, Penalty(strength), pairs)
            reached.append(end.value)
            # By more than a climb leaves open: which of two equal ends is taken shall not hang on their last digits.
            if end.value - climbed.value > STILL * max(1.0, abs(climbed.value)):
                best, climbed = other, end
        objective.load_state_dict(best.state_dict())
        gained = climbed.reached - before
        penalty = "" if strength == 0 else f", weights penalised by {strength:g}"
        start = "" if best is alone else ", from another start"
        return Finished(climbed.still, gained, f"L-BFGS ({gained:+.3g} nats{penalty}{start})", reached)


def _prepared(objective: RPMObjective, pairs: int) -> RPMObjective:
    """A copy without noise, in double precision where that costs little."""
    alone = copy.deepcopy(objective.alone()).eval()
    return alone.to(torch.float64) if pairs <= EXACT else alone


def _climbed(objective: RPMObjective, observations: Observations, penalty: Penalty, pairs: int) -> Climbed:
    if pairs <= PAIRS:
        return climb(objective, observations, penalty, _rounds(pairs))
    part = math.ceil(len(observations) * math.sqrt(PART / pairs))  # pairs grow with the square
    return climb_long(objective, observations, penalty, part, min(PASSES, LONG_WORK // pairs))


def _is_too_much(pairs: int, observations: Observations) -> bool:
    return pairs > (LONGEST if _has_plenty(observations) else PAIRS_OF_FOLDS) or _numbers(observations) > NUMBERS


def _rounds(pairs: int) -> int:
    return max(1, min(ROUNDS, WORK // (ITERATIONS * max(1, pairs))))


def _pairs(objective: RPMObjective, observations: Observations) -> int:
    model = objective.model
    sites = int(observations.exists.sum())
    atoms = sites if model.atoms.shared else len(observations)
    work = model.expected_log_mixture.numbers_per_pair * model.e_step.passes
    return atoms * sites * work * sum(_per_pair(each.family) for _, each in model.recognisers())


def _per_pair(family: Family) -> int:
    """A family that knows its pairs computes them in place; of others every number of a pair is kept for gradients."""
    return (1 + family.spare_buffers) // 4 if isinstance(family, InPlacePairs) else 4 * family.natural_size


def _numbers(observations: Observations) -> int:
    return sum(int(np.prod(np.shape(each))) for each in observations.values.values())


def _has_plenty(observations: Observations) -> bool:
    """Whether there are rows enough for the number of input channels."""
    widest = max(math.prod(spec.event_shape) for spec in observations.specs.values())
    return bool(observations.exists.sum() >= PLENTY * widest)


def _chosen(objective: RPMObjective, observations: Observations) -> float | None:
    """The penalty under which the free energy of held-out observations is highest; None where they are too few.

    From strong to weak, each from where the last one led, or from the beginning where that says nothing.
    """
    if len(observations) < 2 * FOLDS:
        return None
    folds = np.array_split(np.random.default_rng(0).permutation(len(observations)), FOLDS)
    parts = [(np.sort(np.setdiff1d(np.arange(len(observations)), fold)), np.sort(fold)) for fold in folds]
    halves = [(observations.subset(rest), observations.subset(fold)) for rest, fold in parts]
    models = [copy.deepcopy(objective) for _ in halves]
    for model, (training, _) in zip(models, halves, strict=True):
        model.n_observations = float(training.weights.sum())
    best, chosen, worse = -math.inf, None, 0
    for strength in STRENGTHS:
        total, says = 0.0, False
        for model, (training, others) in zip(models, halves, strict=True):
            reached = climb(model, training, Penalty(strength), 1, ITERATIONS_OF_FOLDS).reached
            total += len(others) * float(FittedRPM.collected(copy.deepcopy(model.model), training).score(others))
            if reached > NOTHING:
                says = True
            else:  # all states alike is a saddle, from which no weaker penalty would lead away
                model.load_state_dict(objective.state_dict())
        if total > best:
            best, chosen, worse = total, strength, 0
        elif says:
            worse += 1
        if worse == WORSE or not math.isfinite(total):
            break
    return chosen
