"""Several starts, judged by free energy, the worse half dropped at every comparison (successive halving)."""

import math
from collections.abc import Sequence

from rpmodels import errors
from rpmodels.checks import Nothing, Number
from rpmodels.learning.agreement import agreed, independent
from rpmodels.learning.batches import Divided
from rpmodels.learning.challenges import challenge
from rpmodels.learning.consumers import Progress
from rpmodels.learning.contenders import Attempt, Contender, Plan
from rpmodels.learning.distributed import communicator
from rpmodels.learning.field import DIRECT, Context, Field
from rpmodels.learning.run import Run
from rpmodels.learning.trainable import Model
from rpmodels.seeding import spawn

STUCK = 0.05
"""A start that has not learnt this share of what is enough after two intervals is stuck (factors that say nothing)."""
FINAL = 0.22
"""Of all steps, after which the best taught and the best free start are compared."""
CLEAR = 4.0
"""Times what is enough: a start so far ahead needs no more rivals."""


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
    field = Field(plan, data, context, progress)
    alive: list[Contender[Model]] = []
    try:
        field.enter(list(zip(plan.starts, attempts, strict=True)), [plan.interval] if several else [], alive)
        if not (several and _halve(field, alive, attempts)):
            challenge(field, alive, attempts)
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


def _halve(field: Field[Model], alive: list[Contender[Model]], attempts: list[Attempt]) -> bool:
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


def _agree(field: Field[Model], alive: Sequence[Contender[Model]], reached: int) -> bool:
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
    agreement = saved.get("agreement", "nothing")
    (Nothing() | Number()).check(key, agreement)
    other.attempt.agreement = agreement
    return other.attempt.agreement is not None


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


def _replace(attempts: list[Attempt], alive: Sequence[Contender[Model]]) -> None:
    """Attempts that came back from another process are copies: put them where the originals were."""
    by_seed = {contender.attempt.seed: contender.attempt for contender in alive}
    attempts[:] = [by_seed.get(attempt.seed, attempt) for attempt in attempts]
