"""Lessons are steps: counted in max_iter, told in the progress bar, and written down for every start and move."""

import numpy as np
import pytest

import rpmodels as rp
from data import clusters, views
from rpmodels.learning import Context, KMeans, Move, Plan, RandomStart, SplitMerge, StatesStart, TrainingSettings
from rpmodels.learning import tournament as tournament_of
from rpmodels.learning.batches import divide
from rpmodels.learning.consumers import Progress
from rpmodels.learning.contenders import Attempt, enter
from rpmodels.learning.teaching import LESSON, SHARE_OF_NUMBERS, SHARE_OF_STATES, teach


def prepared(estimator, observations):
    model, _ = estimator.build(observations)
    model.prepare(observations)
    return model


def hard():
    """States that no short lesson teaches well."""
    return rp.read(clusters(100, 3, distance=0.5)[0])


def test_a_lesson_says_how_long_it_was():
    easy, z = clusters(100, 3, distance=8.0)
    model = prepared(rp.RPCategorical(3, random_state=0), rp.read(easy))
    assert 1 < teach(model, rp.read(easy), z[:, None], 0) < LESSON


@pytest.fixture
def never_enough(monkeypatch):
    """Lessons that take all the steps they may."""
    monkeypatch.setattr("rpmodels.learning.teaching.ENOUGH", 0.0)


@pytest.mark.usefixtures("never_enough")
def test_a_lesson_is_never_longer_than_a_share_of_the_fit():
    observations = hard()
    model = prepared(rp.RPCategorical(3, random_state=0), observations)
    states = np.random.default_rng(0).integers(3, size=(100, 1))
    assert teach(model, observations, states, 0) == LESSON
    assert teach(model, observations, states, 0, 40) == round(SHARE_OF_STATES * 40)


@pytest.mark.parametrize("make", [
    lambda: rp.RPCategorical(3, max_iter=80, n_init=2, random_state=0),
    lambda: rp.RPFA(
        1, max_iter=80, n_init=2, random_state=0, network="linear", search=rp.Search(retries=0),
        training=rp.Training(finish="none"),
    ),
])  # fmt: skip
def test_a_fit_has_max_iter_steps_lessons_among_them(make):
    X = clusters(100, 3, distance=0.5)[0] if make().description.latent.finite else views(100)[0]
    model = make().fit(X)
    best = max(model.restarts_, key=lambda each: (len(each.free_energies), each.free_energies[-1]))
    (taught,) = [each for each in model.restarts_ if each.lessons and "move" not in each.kind]
    share = SHARE_OF_STATES if model.description.latent.finite else SHARE_OF_NUMBERS
    assert 0 < taught.lessons <= np.ceil(share * 80)
    assert all(each.lessons == 0 for each in model.restarts_ if each.kind in ("as given", "random"))
    assert model.n_iter_ == 80
    assert len(model.history_["step"]) == 80 - best.lessons
    # The fall of the rate is that of a run of so many steps.
    assert model.history_["learning_rate"][-1] < 0.05 * model.history_["learning_rate"][0]
    if best.lessons:
        assert f"max_iter = 80 steps ({best.lessons} of them lessons)" in model.stop_reason_


@pytest.mark.usefixtures("never_enough")
def test_lessons_leave_half_of_the_steps():
    observations = hard()
    model = prepared(rp.RPCategorical(3, random_state=0), observations)
    plan = Plan(model, TrainingSettings(max_iter=60), [], interval=10)
    data = divide(observations, 0.0, 0)
    contender = enter((StatesStart(KMeans()), Attempt("k-means", 0)), plan, data, [10])
    assert contender.attempt.lessons == LESSON
    assert contender.run.longest == 30
    assert contender.run.taken == LESSON + 10


@pytest.mark.usefixtures("never_enough")
def test_moves_are_counted_and_told(monkeypatch):
    observations = hard()

    class Idle(Move):
        def __call__(self, model, observations, seed, failed=0):
            return 7

    told = []
    advance = Progress.advance
    monkeypatch.setattr(Progress, "advance", lambda self, text: (advance(self, text), told.append(text))[0])
    model = prepared(rp.RPCategorical(3, random_state=0), observations)
    starts = [RandomStart(), StatesStart(KMeans(), 80)]
    plan = Plan(model, TrainingSettings(max_iter=80), starts, interval=4, move=Idle(), moves=1)
    run, attempts = tournament_of(plan, divide(observations, 0.0, 0), Context(random_state=0))
    *_, moved = attempts
    before = attempts[["random", "k-means"].index(moved.kind.removesuffix(" + move"))]
    assert moved.lessons == before.lessons + 7
    assert run.taken == 80
    assert "k-means: 8 steps of lessons" in told
    assert f"{moved.kind}: {moved.lessons} steps of lessons" in told


@pytest.mark.usefixtures("never_enough")
def test_the_lesson_of_a_move_is_a_share_of_the_fit():
    """Taught two classes in one state and one in halves, the move has something to repair."""
    x, z = clusters(200, 4, distance=2.0)
    observations = rp.read(x)
    bad = np.where(z == 1, 0, z)
    bad[(z == 2) & (np.arange(200) % 2 == 0)] = 1
    model = prepared(rp.RPCategorical(4, random_state=0), observations)
    teach(model, observations, bad[:, None], 0)
    assert SplitMerge(20)(model, observations, 0) == 2
    assert rp.RPCategorical(4, max_iter=8)._move().longest == 8
