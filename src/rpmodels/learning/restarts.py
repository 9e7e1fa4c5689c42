"""Several starts, judged by free energy, the worse half dropped at every rung (successive halving)."""

import copy
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rpmodels import errors
from rpmodels.learning.batches import Divided
from rpmodels.learning.consumers import Progress
from rpmodels.learning.loop import Consumer
from rpmodels.learning.moves import Move
from rpmodels.learning.parallel import parallel_map
from rpmodels.learning.starts import Start
from rpmodels.learning.train import Run, Training
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.seeding import spawn

logger = logging.getLogger("rpmodels")

MOVES = 4
"""Moves tried at most."""
SETTLED = 3
"""Rungs that a run must have trained before a move can read its states."""
CHALLENGE = 2
"""Rungs that champion and rival train before they are compared."""
STUCK = 0.05
"""A start that has not learnt this share of the lead after two rungs is stuck (F ≈ 0: factors that say nothing)."""
CLEAR = 4.0
"""Times the lead: a start so far ahead needs no more rivals."""


@dataclass
class Attempt:
    """What became of one start: its kind, seed, and free energy at every rung it reached."""

    kind: str
    seed: int
    free_energies: list[float] = field(default_factory=list)
    failure: str | None = None
    again: bool = False
    """Whether it stands for an earlier start that was stuck."""


@dataclass(eq=False)
class _Contender:
    start: Start
    attempt: Attempt
    run: Run


def best_of(
    model: RPM,
    data: Divided,
    training: Training,
    starts: Sequence[Start],
    *,
    rung: int,
    lead: float = -math.inf,
    random_state: Any,
    n_jobs: int | None = None,
    move: Move | None = None,
    consumers: Sequence[Consumer] = (),
    verbose: bool = False,
) -> tuple[Run, list[Attempt]]:
    """Train from every start for `rung` steps, keep the better half, and so on; the last one to the end.

    `model` is a prepared pattern that every start copies. Starts are compared by their mean free energy
    over the last epoch, always after the same number of steps. While the best of them is not above `lead` nats
    nothing has been learnt that they could be judged by, and all go on (to half of the steps at most). Where there
    is a lead to gain and none has it clearly, starts that are stuck are begun once more, each from another seed, and
    brought to the same step.
    Before it goes to the end, the best run meets the rivals that `move` proposes, under the same rule.
    """
    seeds = spawn(random_state, len(starts))
    attempts = [Attempt(start.name, seed) for start, seed in zip(starts, seeds, strict=True)]
    tasks = list(zip(starts, attempts, strict=True))
    several = len(starts) > 1 and rung <= training.max_iter
    progress = Progress(math.ceil(math.log2(len(starts))), verbose and several, "restarts")
    alive = parallel_map(_enter, tasks, n_jobs, model, data, training, [rung] if several else [])
    reached = rung
    while several and reached <= training.max_iter:
        _replace(attempts, alive)
        if stuck := _stuck(alive, lead):
            again = [(each.start, _again(each.attempt)) for each in stuck]
            attempts += [attempt for _, attempt in again]
            alive = [each for each in alive if each not in stuck]
            alive += parallel_map(_enter, again, n_jobs, model, data, training, range(rung, reached + 1, rung))
            _replace(attempts, alive)
        alive.sort(key=_free_energy, reverse=True)
        leader = _free_energy(alive[0])
        if math.isinf(leader):
            raise errors.diverged(reached, len(starts))
        if leader > lead or 2 * reached > training.max_iter:
            alive = alive[: math.ceil(len(alive) / 2)]
            progress.advance(leader)
        if len(alive) == 1:
            break
        reached += rung
        if reached <= training.max_iter:
            alive = parallel_map(_climb, alive, n_jobs, data.training, reached)
    progress.close()
    winner = _challenged(alive[0], attempts, data.training, move, rung).run
    ending = Progress(training.max_iter, verbose, "training", winner.step)
    try:
        winner.finish(data, [ending, *consumers])
    finally:
        ending.close()
    return winner, attempts


def _enter(
    task: tuple[Start, Attempt], model: RPM, data: Divided, training: Training, rungs: Sequence[int]
) -> _Contender:
    """Begin and climb these rungs, in one journey to another process."""
    start, attempt = task
    own = copy.deepcopy(model)
    start(own, data.training, attempt.seed)
    contender = _Contender(start, attempt, Run.start(own, data, training, attempt.seed))
    for until in rungs:
        contender = _climb(contender, data.training, until)
    return contender


def _free_energy(contender: _Contender) -> float:
    return contender.attempt.free_energies[-1]


def _stuck(alive: Sequence[_Contender], lead: float) -> list[_Contender]:
    """Starts that were given two rungs, and have learnt nothing, while no other is clearly ahead."""
    if max(map(_free_energy, alive)) > CLEAR * lead:
        return []
    first = [each for each in alive if len(each.attempt.free_energies) > 1 and not each.attempt.again]
    return [each for each in first if _free_energy(each) <= STUCK * lead]


def _again(attempt: Attempt) -> Attempt:
    return Attempt(f"{attempt.kind}, again", spawn(attempt.seed, 1)[0], again=True)


def _climb(contender: _Contender, observations: Observations, until: int) -> _Contender:
    try:
        contender.run.advance(observations, until)
        contender.attempt.free_energies.append(contender.run.recent())
    except errors.NumericalError as failure:
        contender.attempt.failure = str(failure)
        contender.attempt.free_energies.append(-math.inf)
    return contender


def _challenged(
    champion: _Contender, attempts: list[Attempt], observations: Observations, move: Move | None, rung: int
) -> _Contender:
    """The champion, or what became of it through moves that raised the free energy."""
    if move is None:
        return champion
    if champion.run.step < SETTLED * rung <= champion.run.training.max_iter:
        champion = _climb(champion, observations, SETTLED * rung)
    for number in range(MOVES):
        until = champion.run.step + CHALLENGE * rung
        if until >= champion.run.training.max_iter:
            break
        rival = copy.deepcopy(champion)
        rival.attempt = Attempt(f"{champion.attempt.kind} + move", champion.attempt.seed + number + 1)
        if not move(rival.run.model, observations, rival.attempt.seed):
            break
        attempts.append(rival.attempt)
        champion, rival = _climb(champion, observations, until), _climb(rival, observations, until)
        better = rival.attempt.free_energies[-1] > champion.attempt.free_energies[-1]
        logger.info("move %s: %.4f nats against %.4f", "kept" if better else "dropped",
                    rival.attempt.free_energies[-1], champion.attempt.free_energies[-1])  # fmt: skip
        if not better:
            break
        champion = rival
    return champion


def _replace(attempts: list[Attempt], alive: Sequence[_Contender]) -> None:
    """Attempts that came back from another process are copies: put them where the originals were."""
    by_seed = {contender.attempt.seed: contender.attempt for contender in alive}
    attempts[:] = [by_seed.get(attempt.seed, attempt) for attempt in attempts]
