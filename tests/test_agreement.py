"""Starts that found the same: how latents are compared, whose agreement counts, and what it ends."""

import copy
import importlib

import numpy as np
import pytest
import torch

import rpmodels as rp
from data import clusters, views
from rpmodels.estimators.summary import starts as told
from rpmodels.learning import (
    Attempt,
    Context,
    KMeans,
    Move,
    Plan,
    RandomStart,
    Run,
    StatesStart,
    TrainingSettings,
    agreement,
    tournament,
)
from rpmodels.learning.batches import divide
from rpmodels.learning.contenders import Contender


def prepared(estimator, observations):
    model, _ = estimator.build(observations)
    model.prepare(observations)
    return model


def outputs(model):
    """The layers whose numbers are raw numbers of a factor."""
    size = model.prior.family.raw_size
    layers = [each for each in model.recognition.modules() if isinstance(each, torch.nn.Linear)]
    return [each for each in layers if each.out_features == size]


def test_states_agree_in_any_order_and_not_by_chance():
    observations = rp.read(clusters(200, 3)[0])
    one = prepared(rp.RPCategorical(3, random_state=0), observations)
    StatesStart(KMeans())(one, observations, 0)
    other = copy.deepcopy(one)
    for layer in outputs(other):
        layer.weight.data, layer.bias.data = layer.weight[[2, 0, 1]].data, layer.bias[[2, 0, 1]].data
    assert agreement.agreement(one, other, observations) == pytest.approx(1.0)
    RandomStart()(other, observations, 1)
    assert agreement.agreement(one, other, observations) < 0.8
    for model in (one, other):  # one state for everything
        for layer in outputs(model):
            layer.weight.data.zero_()
            layer.bias.data = torch.tensor([1.0, 0.0, 0.0])
    assert agreement.agreement(one, other, observations) == 0.0
    assert one.training


def test_numbers_agree_up_to_an_orthogonal_map():
    observations = rp.read(views(200, 2)[0])
    one = prepared(rp.RPFA(2, network="linear", random_state=0), observations)
    other = copy.deepcopy(one)
    for layer in outputs(other):  # the linear part of every factor, then its precisions: exchanged, one reversed
        order, sign = [1, 0, 3, 2], torch.tensor([-1.0, 1.0, 1.0, 1.0])
        layer.weight.data, layer.bias.data = sign[:, None] * layer.weight[order].data, sign * layer.bias[order].data
    assert agreement.agreement(one, other, observations) == pytest.approx(1.0)
    for layer in outputs(other):  # as far as a regression sees nothing has changed
        layer.weight.data[:2] *= 0.3
        layer.bias.data[:2] *= 0.3
    assert agreement.agreement(one, other, observations) < 0.8


def contender(start, free_energy, noise=0.0, model=None, held_out=None):
    observations = rp.read(clusters(20)[0])
    model = model or prepared(rp.RPCategorical(3, random_state=0), observations)
    run = Run.start(model, divide(observations, 0.0, 0), TrainingSettings(), 0)
    if held_out is not None:
        run._stopping_state = {"best": held_out}
    return Contender(start, Attempt(start.name, 0, [free_energy], [noise]), run)


class Taught(RandomStart):
    name = "taught"
    taught = True


def test_two_that_were_taught_are_not_independent():
    best, second = contender(Taught(), 3.0), contender(Taught(), 2.9)
    free, last = contender(RandomStart(), 2.0), contender(RandomStart(), 1.0)
    assert agreement.independent([best, second, free, last]) is free
    assert agreement.independent([free, best, second]) is best
    assert agreement.independent([free, last]) is last
    assert agreement.independent([best, second]) is None
    assert agreement.independent([best]) is None


def test_scores_must_be_the_same_within_their_noise():
    observations = rp.read(clusters(100)[0])
    model = prepared(rp.RPCategorical(3, random_state=0), observations)

    def both(difference, noise, **options):
        one, other = (contender(RandomStart(), value, noise, model, **options) for value in (1.0 + difference, 1.0))
        return agreement.agreed(one, other, observations)

    assert both(0.1, 0.1) == pytest.approx(1.0)
    assert both(0.1, 0.01) is None
    random = np.random.default_rng(0)
    scores = 5.0 * random.standard_normal(50)
    near, far = (
        [contender(RandomStart(), 0.0, 0.0, model, held_out=(scores + by).tolist())
         for by in (0.0, shift + 0.1 * random.standard_normal(50))]
        for shift in (0.0, 0.1)
    )  # fmt: skip
    assert agreement.agreed(*near, observations) == pytest.approx(1.0)
    assert agreement.agreed(*far, observations) is None  # the same observations differ by little, and all alike


class Never(Move):
    """Asked, or not."""

    def __init__(self, asked):
        super().__init__()
        self.asked = asked

    def __call__(self, model, observations, seed, failed=0):
        self.asked.append(seed)


def easy_plan(asked):
    observations = rp.read(clusters(200, 2, distance=4.0)[0])
    model = prepared(rp.RPCategorical(2, random_state=0), observations)
    starts = [RandomStart(), StatesStart(KMeans(), 200)]
    training = TrainingSettings(max_iter=200, learning_rate=1e-2)
    return Plan(model, training, starts, interval=10, move=Never(asked), moves=3), divide(observations, 0.0, 0)


def test_agreement_ends_the_comparisons(monkeypatch):
    asked = []
    plan, data = easy_plan(asked)
    monkeypatch.setattr(agreement, "BEYOND", 1e3)
    run, attempts = tournament(plan, data, Context(random_state=0))
    (same,) = [each for each in attempts if each.agreement is not None]
    assert same.agreement >= agreement.SAME
    assert not asked
    assert run.taken == 200
    assert f"two found the same at comparison {len(same.free_energies)}" in told(attempts)
    monkeypatch.setattr(agreement, "SAME", 2.0)
    _, longer = tournament(plan, data, Context(random_state=0))
    assert asked
    assert all(each.agreement is None for each in longer)
    assert "found the same" not in told(longer)
    assert sum(len(each.free_energies) for each in attempts) < sum(len(each.free_energies) for each in longer)


def test_a_resumed_fit_does_not_ask_again(tmp_path, monkeypatch):
    looked = []
    agreed = agreement.agreed
    module = importlib.import_module("rpmodels.learning.tournament")  # the name is that of the function, too
    monkeypatch.setattr(module, "agreed", lambda *given: looked.append(1) or agreed(*given))
    options = {"max_iter": 100, "n_init": 2, "random_state": 0}
    X = clusters(100)[0]
    first = rp.RPCategorical(3, **options).fit(X, checkpoint=tmp_path, checkpoint_every=0.0)
    assert looked
    before = len(looked)
    again = rp.RPCategorical(3, **options).fit(X, checkpoint=tmp_path, checkpoint_every=0.0)
    assert len(looked) == before
    assert [vars(each) for each in again.restarts_] == [vars(each) for each in first.restarts_]
    assert float(again.score_) == float(first.score_)
