"""Several starts, judged by free energy, the worse half dropped at every comparison (successive halving)."""

import copy
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic

from rpmodels import errors
from rpmodels.learning.agreement import BEYOND, agreed, independent
from rpmodels.learning.batches import Divided
from rpmodels.learning.checkpoints import Checkpoints
from rpmodels.learning.consumers import Progress
from rpmodels.learning.contenders import Attempt, Contender, Plan, enter
from rpmodels.learning.distributed import communicator
from rpmodels.learning.loop import Consumer
from rpmodels.learning.moves import Move
from rpmodels.learning.parallel import parallel_map
from rpmodels.learning.run import Run
from rpmodels.learning.starts import Start
from rpmodels.learning.trainable import Model
from rpmodels.observations import Observations
from rpmodels.seeding import spawn

logger = logging.getLogger("rpmodels")

BEFORE_MOVES = 3
"""Intervals that a run must have trained before a move can read its states."""
CHALLENGE = 2
"""Intervals that champion and rival train before they are compared."""
STUCK = 0.05
"""A start that has not learnt this share of what is enough after two intervals is stuck (factors that say nothing)."""
FINAL = 0.22
"""Of all steps, after which the best taught and the best free start are compared."""
DIRECT = 0.05
"""The same where a deterministic end follows that needs no more steps: finalists are compared by where it leads."""
FEWEST_STEPS = 50
"""That such fits have, where they are to have as many."""
FINALISTS = 3
"""Of such fits."""
CLEAR = 4.0
"""Times what is enough: a start so far ahead needs no more rivals."""


@dataclass(frozen=True)
class Context:
    """Where and how a fit runs, whatever it tries: its seed, its processes, its files, and who watches.

    Args:
        random_state: seed of all starts
        n_jobs: starts at once, in processes of their own
        checkpoints: where runs are kept
        consumers: called after every step of the last run
        verbose: progress bars

    """

    random_state: Any = None
    n_jobs: int | None = None
    checkpoints: Checkpoints | None = None
    consumers: Sequence[Consumer] = ()
    verbose: bool = False


def tournament(plan: Plan[Model], data: Divided, context: Context) -> tuple[Run[Model], list[Attempt]]:
    """Train from every start up to a comparison, keep the better half, and so on; the last one to the end.

    Starts are compared by the score of held-out observations or, where there are none, by their mean free energy over
    the last epoch, always after the same number of steps. While the best of them is not above `plan.enough` nats
    nothing has been learnt that they could be judged by, and all go on (to half of the steps at most). Where there is
    so much to gain and none has it clearly, starts that are stuck are begun once more, each from another seed, and
    brought to the same step. Where the leader and an independent start have found the same (learning/agreement.py),
    nothing is left to compare.
    Otherwise, before it goes to the end, the best run meets the rivals that the move proposes, under the same rule.
    Where a deterministic end needs no more steps than the search, the best few runs have it, and the highest is taken.
    An interrupt from the keyboard ends the training with the best run there is.
    """
    seeds = spawn(context.random_state, len(plan.starts))
    attempts = [Attempt(start.name, seed) for start, seed in zip(plan.starts, seeds, strict=True)]
    several = len(plan.starts) > 1 and plan.interval <= plan.training.max_iter
    stages = len(plan.starts) + math.ceil(math.log2(len(plan.starts))) + (0 if plan.move is None else plan.moves)
    progress = Progress(stages, context.verbose and several, "search")
    field = _Field(plan, data, context, progress)
    alive: list[Contender[Model]] = []
    try:
        field.enter(list(zip(plan.starts, attempts, strict=True)), [plan.interval] if several else [], alive)
        if not (several and _halve(field, alive, attempts)):
            _challenge(field, alive, attempts)
    except KeyboardInterrupt:
        alive = [each for each in alive if each.run.history.any_finite]
        if not alive:
            raise
        alive.sort(key=lambda each: each.run.judged(), reverse=True)
        alive[0].run.interrupt()
    finally:
        progress.close()
    winner, *others = alive
    ending = Progress(plan.training.max_iter, context.verbose, "training", winner.run.taken)
    try:
        reached = winner.run.finish(
            data, [ending, *context.consumers], winner.saving(), winner.start.settle,
            field.last_step(winner), [each.run for each in others],
        )  # fmt: skip
    finally:
        ending.close()
    for each, value in zip(alive, reached if others else (), strict=False):
        each.attempt.end = value
    return winner.run, attempts


@dataclass(frozen=True)
class _Field(Generic[Model]):
    """What all contenders of a fit have in common."""

    plan: Plan[Model]
    data: Divided
    context: Context
    progress: Progress

    @cached_property
    def direct(self) -> bool:
        """Whether a deterministic end needs no more steps than the search."""
        if self.data.validation is not None:
            return False
        objective = self.plan.objective(copy.deepcopy(self.plan.model), self.data.training)
        return self.plan.training.finish.suffices(objective, self.data.training)

    @property
    def finalists(self) -> int:
        """Runs that the search may leave."""
        return FINALISTS if self.direct else 1

    def last_step(self, winner: Contender[Model]) -> int:
        """Of the run that is kept."""
        longest = winner.run.longest
        if not self.direct:
            return longest
        return min(longest, max(winner.reached, FEWEST_STEPS, math.ceil(DIRECT * self.plan.training.max_iter)))

    def enter(
        self, tasks: list[tuple[Start, Attempt]], comparisons: Sequence[int], alive: list[Contender[Model]]
    ) -> None:
        """Begin these and train them; each joins those alive as soon as it is there."""
        shared = (self.plan, self.data, comparisons, self.context.checkpoints)
        for contender in parallel_map(enter, tasks, self.context.n_jobs, *shared):
            alive.append(contender)  # what is there when an interrupt comes is kept
            self.progress.advance(_told(contender.attempt))

    def train_to(self, alive: list[Contender[Model]], until: int) -> None:
        """All of them, in place."""
        alive[:] = parallel_map(Contender.train_to, alive, self.context.n_jobs, self.data, until)


def _halve(field: _Field[Model], alive: list[Contender[Model]], attempts: list[Attempt]) -> bool:
    """Comparison after comparison until one is left, in `alive`; whether an independent start agrees with it.

    Taught starts are compared with each other, and so are free ones, as a lesson lets the former lead for a while; the
    best of both meet once `FINAL` of all steps have made that even.
    """
    interval, enough = field.plan.interval, field.plan.enough
    reached, longest = interval, field.plan.training.max_iter
    while reached <= longest:
        _replace(attempts, alive)
        if stuck := _stuck(alive, enough):
            again = [(each.start, _again(each.attempt)) for each in stuck]
            attempts += [attempt for _, attempt in again]
            alive[:] = [each for each in alive if each not in stuck]
            field.enter(again, range(interval, reached + 1, interval), alive)
            _replace(attempts, alive)
        alive.sort(key=lambda each: each.free_energy, reverse=True)
        leader = alive[0].free_energy
        if math.isinf(leader):
            raise errors.diverged(reached, len(attempts))
        if leader > enough and _agree(field, alive, reached):
            alive[:] = alive[:1]
            return True
        final = reached >= (DIRECT if field.direct else FINAL) * longest
        if leader > enough or 2 * reached > longest:
            alive[:] = _kept(alive, final, field.finalists)
            field.progress.advance(f"best F = {leader:.3f} nats")
        if len(alive) == 1 or (final and len(alive) <= field.finalists):
            return False
        reached += interval
        if reached <= longest:
            field.train_to(alive, reached)
    alive[:] = alive[: field.finalists]
    return False


def _agree(field: _Field[Model], alive: Sequence[Contender[Model]], reached: int) -> bool:
    """Whether the leader and an independent start have found the same; its attempt says how far.

    Written down with the checkpoints: a run that is resumed may be past the point where it was looked at.
    """
    leader, other = alive[0], independent(alive)
    if other is None:
        return False
    kept, key = field.context.checkpoints, f"agreement {leader.attempt.key} {reached}"
    saved = None if kept is None else kept.load(key)
    if saved is None:
        saved = {"agreement": communicator().first_does(lambda: agreed(leader, other, field.data.training))}
        if kept is not None and not kept.save(key, saved):
            # As with moves: without this file later ones are worth nothing.
            for each in alive:
                each.checkpoints = None
    other.attempt.agreement = saved["agreement"]
    return other.attempt.agreement is not None


def _told(attempt: Attempt) -> str:
    return f"{attempt.kind}: {attempt.lessons} steps of lessons" if attempt.lessons else attempt.kind


def _kept(alive: Sequence[Contender[Model]], final: bool, finalists: int) -> list[Contender[Model]]:
    """The better half of either league, best first, and as many as there may be finalists; in the end these alone."""
    leagues = [[each for each in alive if each.start.taught is taught] for taught in (True, False)]
    kept = [each for league in leagues for each in league[: math.ceil(len(league) / 2)]]
    kept += [each for each in alive if each not in kept][: max(0, finalists - len(kept))]
    kept.sort(key=lambda each: each.free_energy, reverse=True)
    if not final or (finalists == 1 and any(len(league) > 1 for league in leagues)):
        return kept
    return kept[:finalists]


def _stuck(alive: Sequence[Contender[Model]], enough: float) -> list[Contender[Model]]:
    """Starts that were given two intervals, and have learnt nothing, while no other is clearly ahead."""
    if max(each.free_energy for each in alive) > CLEAR * enough:
        return []
    first = [each for each in alive if len(each.attempt.free_energies) > 1 and not each.attempt.again]
    return [each for each in first if each.free_energy <= STUCK * enough]


def _again(attempt: Attempt) -> Attempt:
    return Attempt(f"{attempt.kind}, again", spawn(attempt.seed, 1)[0], again=True)


def _challenge(field: _Field[Model], alive: list[Contender[Model]], attempts: list[Attempt]) -> None:
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
        field.progress.advance(_told(rival.attempt))
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
        if saved["run"] is None:
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


def _replace(attempts: list[Attempt], alive: Sequence[Contender[Model]]) -> None:
    """Attempts that came back from another process are copies: put them where the originals were."""
    by_seed = {contender.attempt.seed: contender.attempt for contender in alive}
    attempts[:] = [by_seed.get(attempt.seed, attempt) for attempt in attempts]
