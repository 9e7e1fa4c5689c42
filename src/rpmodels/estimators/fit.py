"""A fit from observations to its result: seeds, checkpoints, the tournament, and another try after a collapse."""

import math
import numbers
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import torch

from rpmodels import errors
from rpmodels.estimators.fingerprint import architectures, fingerprint
from rpmodels.estimators.plan import Planning
from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import Score
from rpmodels.learning import Attempt, Context, RPMObjective, Run, tournament
from rpmodels.learning.batches import divide
from rpmodels.learning.checkpoints import Checkpoints, open_checkpoints
from rpmodels.learning.closing import Closing, closing_of
from rpmodels.learning.distributed import communicator
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.persistence import as_written
from rpmodels.profile import profile_of
from rpmodels.sampling_error import excess_of
from rpmodels.seeding import spawn
from rpmodels.temperature import found_temperature
from rpmodels.told import told_by

AT_CEILING = 0.98
"""Of its ceiling: a score from which on other partitions do as well."""
LEARNT_NOTHING = 1e-3
"""Nats a site."""


@dataclass(frozen=True)
class Fit:
    """What came out of a fit."""

    run: Run[RPM]
    attempts: list[Attempt]
    score: Score
    collapsed: bool

    def warn(self) -> None:
        """Say what everybody should know who uses it."""
        if self.score > AT_CEILING * self.score.ceiling > 0:
            warnings.warn(errors.at_the_ceiling(self.score, self.score.ceiling), stacklevel=5)
        elif self.collapsed:
            warnings.warn(errors.learnt_nothing(self.run.recent()), stacklevel=5)
        elif not self.run.converged and not self.run.interrupted:
            trend = self.run.history.trend()
            share = None if trend is None else (trend.share, trend.steps)
            warnings.warn(errors.not_converged(self.run.step, share), stacklevel=5)

    def starts(self) -> str:
        """What became of them, in a line."""
        lines = [
            f"{attempt.kind}: {', '.join(f'{f:.3f}' for f in attempt.free_energies) or 'only start'}"
            for attempt in self.attempts
        ]
        return f"free energy of the starts at each comparison: {'; '.join(lines)}"


def fit_to(
    estimator: Planning,
    observations: Observations,
    before: FittedRPM | None,
    checkpoint: str | Path | None,
    checkpoint_every: float,
) -> Fit:
    """Everything after reading; the estimator is only asked for its arguments and its plan."""
    chosen = estimator._chosen()
    retries = cast(int, chosen.search.retries)
    observations.check_something()
    estimator._afford(observations)
    pieces = estimator._pieces(observations)
    training = estimator._training(pieces)
    seeds = communicator().first_does(lambda: spawn(estimator.random_state, 3))
    checkpoints = None
    if checkpoint is not None:
        about = fingerprint(estimator, observations)
        known = isinstance(estimator.random_state, numbers.Integral)
        checkpoints, seeds = open_checkpoints(checkpoint, checkpoint_every, about, seeds, known)
    data = divide(pieces, training.validation_fraction, seeds[2])
    for attempt in range(1 + retries):
        # The first attempt has the seeds it always had; each further one its own.
        fresh = seeds if attempt == 0 else spawn(seeds[1] + attempt, 3)
        plan = estimator._plan(data, training, fresh[0], before)
        if checkpoints is not None and before is None and architectures(estimator.network):
            _as_begun(plan.model, checkpoints, f"weights as given {attempt}")
        watching = list(chosen.training.callbacks or ())
        context = Context(fresh[1], chosen.search.n_jobs, checkpoints, watching, bool(estimator.verbose))
        run, attempts = tournament(plan, data, context)
        # Where few steps had learnt nothing, their deterministic end may have.
        collapsed = _collapsed(run.recent() + run.gained, pieces)
        if not collapsed or attempt == retries or run.interrupted:
            break
        warnings.warn(errors.trying_again(run.recent(), attempt + 1, retries), stacklevel=4)
    run.fitted.verbose = bool(estimator.verbose)
    run.fitted.temperature = found_temperature(run.fitted, observations)
    run.fitted.excess = excess_of(run.fitted, observations)
    closing = _closing(run, observations, pieces)
    if not math.isfinite(closing.score):
        raise errors.score_not_finite(closing.score)
    run.fitted.profile = profile_of(observations, told_by(run.fitted, observations, closing.values, closing.distances))
    return Fit(run, attempts, closing.score, collapsed)


def _as_begun(model: RPM, checkpoints: Checkpoints, key: str) -> None:
    """Networks of the user's own begin where they began when the fit was begun, which is kept."""
    saved = checkpoints.load(key)
    if saved is None:
        checkpoints.save(key, {"model": model.state_dict()})
        return
    with as_written(checkpoints.path(key)):
        given = model.state_dict()
        same = all(torch.equal(each, given[name].cpu()) for name, each in saved["model"].items())
        model.load_state_dict(saved["model"])
    if not same:
        warnings.warn(errors.other_weights(str(checkpoints.folder)), stacklevel=5)


def _closing(run: Run[RPM], observations: Observations, pieces: Observations) -> Closing:
    """With the parameters that training gave to single observations, where these are the same observations."""
    objective = cast(RPMObjective, run.objective)
    own = bool(objective.local_parameters()) and objective.local.fits(len(observations))
    shorter = pieces if len(pieces) > len(observations) else None
    return closing_of(run.fitted, observations, objective.local if own else None, pieces=shorter)


def _collapsed(free_energy: float, observations: Observations) -> bool:
    """Whether nothing was learnt: next to nothing per site."""
    return bool(free_energy < LEARNT_NOTHING * max(1.0, float(observations.exists.sum(1).mean())))
