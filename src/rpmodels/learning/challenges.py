"""Rivals that a move makes of the best run, and whether they take its place."""

import copy
import logging
import math

from rpmodels.learning.agreement import BEYOND
from rpmodels.learning.contenders import Attempt, Contender
from rpmodels.learning.distributed import communicator
from rpmodels.learning.field import Field, told
from rpmodels.learning.moves import Move
from rpmodels.learning.trainable import Model
from rpmodels.observations import Observations

logger = logging.getLogger("rpmodels")

BEFORE_MOVES = 3
"""Intervals that a run must have trained before a move can read its states."""
CHALLENGE = 2
"""Intervals that champion and rival train before they are compared."""


def challenge(field: Field[Model], alive: list[Contender[Model]], attempts: list[Attempt]) -> None:
    """Put what became of the champion through moves that raised the free energy in its place."""
    move = field.plan.move
    if move is None or not field.plan.moves:
        return
    interval, champion = field.plan.interval, alive[0]
    longest = champion.run.longest
    if champion.reached < BEFORE_MOVES * interval <= longest:
        champion.train_to(field.data, BEFORE_MOVES * interval)
    failures = 0
    for number in range(field.plan.moves):
        until = champion.reached + CHALLENGE * interval
        if until >= longest:
            break
        rival = _rival(champion, number, field.data.training, move, failures)
        if rival is None:
            break
        attempts.append(rival.attempt)
        field.progress.advance(told(rival.attempt))
        champion.train_to(field.data, until)
        rival.train_to(field.data, until)
        better = rival.free_energy > champion.free_energy + BEYOND * math.hypot(champion.noise, rival.noise)
        logger.info(
            "move %s: %.4f nats against %.4f",
            "kept" if better else "dropped", rival.free_energy, champion.free_energy,
        )  # fmt: skip
        failures = 0 if better else failures + 1
        if failures == move.patience:
            break
        if better:
            alive[0] = rival
            champion, longest = rival, rival.run.longest


def _rival(
    champion: Contender[Model], number: int, observations: Observations, move: Move, failures: int
) -> Contender[Model] | None:
    """What the move makes of the champion; None when it has nothing to propose.

    Saved before the champion trains on: a resumed champion may be past the point where the move saw it.
    """
    rival = copy.deepcopy(champion)
    rival.attempt = Attempt(f"{champion.attempt.kind} + move", champion.attempt.seed + number + 1)
    kept = champion.checkpoints
    saved = None if kept is None else kept.load(rival.attempt.key)
    if saved is not None:
        if saved.get("run", 0) is None:
            return None
        rival.restore(saved)
        return rival
    taken = move(rival.run.model, observations, rival.attempt.seed, failures)
    taken = communicator().first_does(lambda: taken)
    communicator().same(rival.run.model.state_dict())
    rival.run.unseen()
    if taken is not None:
        rival.taught(taken)
    if kept is not None and not (rival.save() if taken is not None else kept.save(rival.attempt.key, {"run": None})):
        # Without this file a later one of the champion would be worth nothing.
        champion.checkpoints = rival.checkpoints = None
    return None if taken is None else rival
