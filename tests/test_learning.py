"""The loop and its consumers: reproducible, rescued, stopped, restarted."""

import importlib
import pickle
import re

import numpy as np
import pytest
import torch

import rpmodels as rp
from data import clusters as drawn
from rpmodels.errors import InputError, NumericalError, RPModelsWarning
from rpmodels.fitted import FittedRPM
from rpmodels.learning import (
    AsGiven,
    Context,
    KMeans,
    Plan,
    RandomStart,
    Run,
    SplitMerge,
    StatesStart,
    TrainingSettings,
    moves,
    tournament,
    train,
)
from rpmodels.learning.batches import Minibatches, divide
from rpmodels.learning.consumers import Plateau
from rpmodels.learning.loop import State
from rpmodels.learning.teaching import teach
from rpmodels.priors import CategoricalPrior, LearnedSimplex
from rpmodels.recognition import reinitialise
from rpmodels.seeding import seeded, spawn


def clusters(n=200, k=3, spread=0.4):
    x, z = drawn(n, k, names=("x0", "x1"), distance=2.0, noise=spread, places=99)
    return rp.read(x), z


def model_for(observations, k=3, seed=0, prior=None):
    prior = prior or CategoricalPrior.uniform(k)
    with seeded(seed):
        networks = {
            name: rp.recognition.MLP(spec.event_shape, prior.family.raw_size, hidden=(16,), dropout=0.1)
            for name, spec in observations.specs.items()
        }
    return rp.RPM(prior, networks)


def states_of(fitted, observations):
    return torch.cat([each.posterior.mu[:, 0].argmax(-1) for each in fitted.posterior(observations)]).numpy()


def test_training_finds_the_classes_and_says_why_it_stopped():
    observations, z = clusters()
    fitted = train(model_for(observations), observations, max_iter=120, learning_rate=2e-2, random_state=0)
    table = fitted.record.history
    assert table["free_energy"][-20:].mean() > 0.95 * np.log(3)
    terms = table["prior"] + table["recognition"] + table["mixture"] + table["parameters"]
    np.testing.assert_allclose(terms, table["free_energy"], atol=1e-4)
    assert fitted.record.stop_reason == "max_iter = 120 steps"
    states = states_of(fitted, observations)
    assert (rp.metrics.match_states(z, states, 3)[states] == z).mean() > 0.98


def test_same_seed_same_numbers_and_the_users_random_state_is_left_alone():
    observations, _ = clusters()
    curves = []
    for _ in range(2):
        before = torch.random.get_rng_state()
        fitted = train(model_for(observations), observations, max_iter=30, batch_size=64, random_state=3)
        assert torch.equal(before, torch.random.get_rng_state())
        curves.append(fitted.record.history["free_energy"])
        torch.randn(7)  # whatever the user draws in between
    np.testing.assert_array_equal(*curves)


def test_a_run_can_stop_travel_and_go_on():
    """Pickled half-way (as to another process), it ends at the same numbers as an uninterrupted run."""
    observations, _ = clusters()
    curves = []
    for interrupted in (False, True):
        model = model_for(observations)
        model.prepare(observations)
        run = Run.start(model, divide(observations, 0.0, 0), TrainingSettings(max_iter=40, batch_size=50), seed=1)
        if interrupted:
            run.advance(observations, 17)
            run = pickle.loads(pickle.dumps(run))
        run.advance(observations, 40)
        curves.append(run.history.table()["free_energy"])
    np.testing.assert_array_equal(*curves)


def test_batches_are_nearly_equal_and_cover_an_epoch():
    batches = Minibatches(103, 25, seed=0)
    epoch = [batches.next() for _ in range(batches.per_epoch)]
    assert sorted(len(part) for part in epoch) == [20, 20, 21, 21, 21]
    assert sorted(np.concatenate(epoch).tolist()) == list(range(103))


def test_data_are_divided_once_without_what_can_teach_nothing():
    random = np.random.default_rng(0)
    data = {name: random.standard_normal((100, 2)) for name in "ab"}
    data["a"][:5], data["b"][:5] = np.nan, np.nan
    weights = np.ones(100)
    weights[90:] = 0
    observations = rp.read(data, weights=weights)
    parts = divide(observations, 0.2, seed=0)
    assert (len(parts.everything), len(parts.training), len(parts.validation)) == (100, 68, 17)
    kept = np.concatenate([parts.training.values["a"], parts.validation.values["a"]])[:, 0]
    assert sorted(kept[:, 0]) == sorted(data["a"][5:90, 0])
    again = divide(observations, 0.2, seed=0)
    np.testing.assert_array_equal(again.validation.values["a"], parts.validation.values["a"])
    # Batches of zero weight or of nothing at all would have no gradient: they cannot occur.
    sparse = rp.read(data, weights=(np.arange(100) % 10 == 5) * 1.0)
    model = rp.RPM(CategoricalPrior.uniform(3), {name: torch.nn.Linear(2, 3) for name in "ab"})
    fitted = train(model, sparse, max_iter=20, batch_size=2, random_state=0)
    assert np.isfinite(fitted.record.history["free_energy"]).all()


class Poisoned(torch.nn.Module):
    """A network that gives NaN at chosen calls."""

    def __init__(self, calls):
        super().__init__()
        self.linear = torch.nn.Linear(4, 3)
        self.calls, self.count = calls, 0

    def forward(self, x):
        self.count += self.training
        poison = torch.nan if self.training and self.calls(self.count) else 1.0
        return self.linear(x) * poison


def test_a_nan_is_rescued_and_said():
    observations, _ = clusters()
    networks = {"x0": Poisoned(lambda call: call == 40), "x1": torch.nn.Linear(4, 3)}
    model = rp.RPM(CategoricalPrior.uniform(3), networks)
    with pytest.warns(RPModelsWarning, match="at step 40: went back to step 25 and lowered the learning rate to 0.005"):
        fitted = train(model, observations, max_iter=60, learning_rate=1e-2, low_rate=0.01, random_state=0)
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert fitted.record.history["learning_rate"][45] == pytest.approx(5e-3)


def test_a_hopeless_fit_ends_with_a_sentence_and_the_last_good_state():
    observations, _ = clusters()
    networks = {"x0": Poisoned(lambda call: call > 30), "x1": torch.nn.Linear(4, 3)}
    model = rp.RPM(CategoricalPrior.uniform(3), networks)
    with pytest.warns(RPModelsWarning), pytest.raises(NumericalError, match="smaller learning_rate"):
        train(model, observations, max_iter=60, random_state=0)
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_plateau_stops_and_improvement_does_not():
    plateau = Plateau(1e-3, 10)
    states = [State(step, {"free_energy": min(step, 50) / 50}, True, 1e-3) for step in range(1, 101)]
    for state in states:
        plateau(state)
    assert not any(state.stop_reason for state in states[:59])
    assert "plateau" in states[79].stop_reason


def test_validation_stops_early_and_keeps_the_best_weights():
    """Tiny training set, strong network: the held-out curve turns, the training curve does not."""
    observations, _ = clusters(n=60, spread=2.5)
    with seeded(0):
        networks = {name: rp.recognition.MLP((4,), 3, hidden=(200,)) for name in observations.specs}
    model = rp.RPM(CategoricalPrior.uniform(3), networks)
    fitted = train(
        model, observations, max_iter=2000, learning_rate=1e-2, patience=100, validation_fraction=0.3, random_state=0
    )
    assert fitted.record.steps < 2000
    assert "held-out score" in fitted.record.stop_reason
    curve = {name: [row[name] for row in fitted.record.validation_curve] for name in ("step", "training", "validation")}
    assert curve["training"][-1] > curve["validation"][-1]
    data = divide(observations, 0.3, spawn(0, 2)[0])
    kept = FittedRPM.collected(fitted.pattern, data.training).score(data.validation)
    best = max(curve["validation"])
    step = int(re.search(r"at step (\d+)", fitted.record.stop_reason)[1])
    assert kept == pytest.approx(curve["validation"][curve["step"].index(step)], abs=1e-5)
    assert best - kept < 0.05  # what is better by less than its error is no better


def test_user_optimiser_scheduler_and_clipping():
    observations, _ = clusters()
    seen = []
    training = TrainingSettings(
        max_iter=20,
        max_gradient_norm=1e-8,
        optimiser=lambda parameters: torch.optim.SGD(parameters, lr=1.0),
        scheduler=lambda optimiser: torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5),
    )
    model = model_for(observations)
    before = [p.detach().clone() for p in model.parameters()]
    train(model, observations, training, random_state=0, callbacks=[lambda state: seen.append(state.learning_rate)])
    assert seen[:3] == [1.0, 0.5, 0.25]
    moved = sum(float((a - b.detach()).norm()) for a, b in zip(before, model.parameters(), strict=True))
    assert 0 < moved < 1e-6


@pytest.mark.parametrize(
    "bad",
    [{"max_iter": 0}, {"learning_rate": 0}, {"batch_size": 1},
     {"weight_decay": -1}, {"validation_fraction": 1.0}, {"patience": 0}],
)  # fmt: skip
def test_bad_settings_are_refused(bad):
    with pytest.raises(InputError, match=f"{next(iter(bad))}: expected"):
        TrainingSettings(**bad)


def test_a_validation_set_of_one_is_refused():
    observations, _ = clusters(n=10)
    with pytest.raises(InputError, match="at least 2 of 10"):
        train(model_for(observations), observations, validation_fraction=0.1)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_restarts_halve_and_report_their_spread(n_jobs):
    observations, _ = clusters()
    pattern = model_for(observations)
    pattern.prepare(observations)
    starts = [AsGiven(), RandomStart(), RandomStart(), StatesStart(KMeans(), 60)]
    plan = Plan(pattern, TrainingSettings(max_iter=60), starts, interval=10)
    run, attempts = tournament(plan, divide(observations, 0.0, 0), Context(random_state=0, n_jobs=n_jobs))
    # Three free starts become two, then one; the taught one is alone, and meets that one in the end.
    assert [attempt.kind for attempt in attempts] == ["as given", "random", "random", "k-means"]
    *free, taught = [attempt.free_energies for attempt in attempts]
    assert sorted(map(len, free)) == [1, 2, 3]
    assert len(taught) == 3
    for comparison in (0, 1):
        there = [each for each in free if len(each) > comparison]
        (dropped,) = [each for each in there if len(each) == comparison + 1]
        assert dropped[comparison] == min(each[comparison] for each in there)
    assert run.taken == 60
    finalists = [each for each in attempts if len(each.free_energies) == 3]
    winner = max(finalists, key=lambda each: each.free_energies[-1])
    assert run.history.table()["free_energy"][20:30].mean() == pytest.approx(winner.free_energies[-1])


def test_a_start_that_diverges_is_dropped():
    observations, _ = clusters()

    class Broken(RandomStart):
        name = "broken"

        def __call__(self, model, observations, seed):
            with torch.no_grad():
                next(iter(model.recognition.parameters())).fill_(torch.nan)

    pattern = model_for(observations)
    pattern.prepare(observations)
    with pytest.warns(RPModelsWarning):
        run, attempts = tournament(
            Plan(pattern, TrainingSettings(max_iter=30), [Broken(), RandomStart()], interval=10),
            divide(observations, 0.0, 0),
            Context(random_state=0),
        )
    assert "non-finite" in attempts[0].failure
    assert all(torch.isfinite(p).all() for p in run.model.parameters())


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_start_that_collapses_is_begun_once_more(n_jobs):
    observations, _ = clusters()
    pattern = model_for(observations)
    pattern.prepare(observations)
    plan = Plan(pattern, TrainingSettings(max_iter=120, learning_rate=2e-2), [Mute(), Mute()], interval=10, enough=0.3)
    run, attempts = tournament(plan, divide(observations, 0.0, 0), Context(random_state=0, n_jobs=n_jobs))
    assert [attempt.kind for attempt in attempts] == ["mute", "mute", "mute, again", "mute, again"]
    assert len({attempt.seed for attempt in attempts}) == 4
    assert [len(attempt.free_energies) for attempt in attempts[:2]] == [2, 2]
    assert all(abs(attempt.free_energies[-1]) < 0.003 for attempt in attempts[:2])
    assert max(attempt.free_energies[-1] for attempt in attempts[2:]) > 0.3
    assert run.history.table()["free_energy"][-1] > 0.8 * np.log(3)


class Mute(RandomStart):
    """Half of the seeds begin with networks that can never say anything: every unit is dead."""

    name = "mute"
    seeds = spawn(0, 2)

    def __call__(self, model, observations, seed):
        super().__call__(model, observations, seed)
        if seed in self.seeds:
            for parameter in model.recognition.parameters():
                parameter.data.zero_()


def test_k_means_start_begins_near_the_clusters():
    observations, _ = clusters(spread=0.1)
    scores = {}
    for start in (RandomStart(), StatesStart(KMeans())):
        model = model_for(observations)
        model.prepare(observations)
        start(model, observations, 0)
        energies = FittedRPM.collected(model, observations).free_energies(observations, in_training=True)
        scores[start.name] = float(energies.total.mean())
    assert scores["k-means"] > scores["random"] + 0.2


def test_k_means_start_takes_labels_and_missing_rows():
    random = np.random.default_rng(0)
    z = random.integers(3, size=90)
    x = np.eye(3)[z] + 0.1 * random.standard_normal((90, 3))
    x[:10] = np.nan
    for data in ({"label": z, "x": x}, {"label": z, "other": z}):
        observations = rp.read(data)
        networks = {
            name: rp.recognition.LookupTable(3, 3) if spec.is_label else torch.nn.Linear(3, 3)
            for name, spec in observations.specs.items()
        }
        model = rp.RPM(CategoricalPrior.uniform(3), networks)
        model.prepare(observations)
        StatesStart(KMeans())(model, observations, 0)
        assert all(torch.isfinite(p).all() for p in model.parameters())


def test_split_merge_repairs_two_classes_in_one_state():
    """Taught a bad partition (classes 0 and 1 together, class 2 in halves), only the move finds the good one."""
    observations, z = clusters(n=400, k=4, spread=0.6)
    bad = np.where(z == 1, 0, z)
    bad[(z == 2) & (np.arange(400) % 2 == 0)] = 1

    class Misled(RandomStart):
        def __call__(self, model, observations, seed):
            teach(model, observations, bad[:, None], 0)

    accuracies = {}
    for move in (None, SplitMerge()):
        pattern = model_for(observations, k=4)
        pattern.prepare(observations)
        training = TrainingSettings(max_iter=240, learning_rate=1e-2)
        plan = Plan(pattern, training, [Misled()], interval=20, move=move)
        run, _ = tournament(plan, divide(observations, 0.0, 0), Context(random_state=0))
        states = states_of(run.fitted, observations)
        accuracies[move is not None] = (rp.metrics.match_states(z, states, 4)[states] == z).mean()
    assert accuracies[False] < 0.85
    assert accuracies[True] > 0.95
    assert not SplitMerge()(run.model, observations, 0)  # nothing left to repair


def test_seeds_are_independent_and_repeatable():
    assert spawn(5, 3) == spawn(5, 3)
    assert len({*spawn(5, 3), *spawn(6, 3)}) == 6
    assert spawn(np.random.RandomState(0), 2) == spawn(np.random.RandomState(0), 2)


def test_a_rescue_keeps_the_schedule_and_does_not_spoil_the_ranking():
    observations, _ = clusters()
    networks = {"x0": Poisoned(lambda call: call == 45), "x1": torch.nn.Linear(4, 3)}
    model = rp.RPM(CategoricalPrior.uniform(3), networks)
    model.prepare(observations)
    data = divide(observations, 0.0, 0)
    run = Run.start(model, data, TrainingSettings(max_iter=60, learning_rate=1e-2, low_rate=0.33), seed=0)
    with pytest.warns(RPModelsWarning, match="at step 45"):
        run.finish(data)
    rates = run.record.history["learning_rate"]
    falling = [0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * (step - 40.2) / 19.8)) for step in (42, 49)]
    assert rates[39] == pytest.approx(1e-2)
    assert rates[42] == pytest.approx(1e-2 * falling[0])  # on its way down since step 40
    assert rates[50] == pytest.approx(5e-3 * falling[1])  # and halved from there: the step that failed did not count
    assert np.isfinite(run.history.recent(30))


def test_a_fit_that_never_took_a_step_is_an_error():
    observations, _ = clusters()
    networks = {"x0": Poisoned(lambda call: True), "x1": torch.nn.Linear(4, 3)}
    with pytest.warns(RPModelsWarning), pytest.raises(NumericalError):
        train(rp.RPM(CategoricalPrior.uniform(3), networks), observations, max_iter=3)


def test_validation_looks_at_least_once_and_at_equal_numbers():
    observations, _ = clusters(n=50)
    model = model_for(observations)
    fitted = train(model, observations, max_iter=5, validation_fraction=0.6, random_state=0, learning_rate=1e-2)
    assert [row["step"] for row in fitted.record.validation_curve] == [0, 5]


def test_held_out_observations_are_seen_by_nothing_but_the_stopping(monkeypatch):
    X, _ = clusters(n=100)
    seen = []
    for name in ("starts", "moves"):
        module = importlib.import_module(f"rpmodels.learning.{name}")
        monkeypatch.setattr(module, "teach", lambda model, part, *rest: seen.append(len(part)))
    data = {name: values[:, 0] for name, values in X.values.items()}
    rp.RPCategorical(3, n_init=2, max_iter=40, training=rp.Training(validation_fraction=0.25), random_state=0).fit(data)
    assert seen
    assert set(seen) == {75}


@pytest.mark.parametrize(
    "options",
    [
        {"optimiser": lambda p: torch.optim.LBFGS(p, max_iter=3)},
        {"scheduler": lambda o: torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=2)},
        {"optimiser": lambda p: torch.optim.SGD(p, lr=0.5, momentum=0.9)},
    ],
    ids=["LBFGS", "ReduceLROnPlateau", "SGD"],
)
def test_any_torch_optimiser_and_scheduler(options):
    observations, _ = clusters()
    with seeded(0):
        networks = {name: torch.nn.Linear(4, 3) for name in observations.specs}
    model = rp.RPM(CategoricalPrior.uniform(3), networks)
    fitted = train(model, observations, TrainingSettings(max_iter=25, batch_size=None, learning_rate=0.05, **options))
    values = fitted.record.history["free_energy"]
    assert values[-1] > values[0] + 0.1


def test_settings_and_a_training_together_are_refused():
    observations, _ = clusters(n=20)
    with pytest.raises(InputError, match=r"both \(max_iter\)"):
        train(model_for(observations), observations, TrainingSettings(), max_iter=5)


def test_restarts_leave_frozen_layers_alone():
    body = torch.nn.Linear(4, 8).requires_grad_(requires_grad=False)
    head = torch.nn.Linear(8, 3)
    before = body.weight.clone(), head.weight.detach().clone()
    reinitialise(torch.nn.Sequential(body, head))
    assert torch.equal(body.weight, before[0])
    assert not torch.equal(head.weight, before[1])


def test_learned_probabilities_weigh_long_and_short_trials_rightly():
    """Half the trials have 4 sites in state 0, half 1 site in state 1: π₀ = 0.8 whatever the batches."""
    simplex = LearnedSimplex(torch.full((1, 2), 0.5, dtype=torch.float64))
    random = np.random.default_rng(0)
    n, size = 2000, 4
    for _ in range(20):
        for batch in np.array_split(random.permutation(n), n // size):
            long = float((batch < n // 2).sum())
            simplex.update(torch.tensor([[4 * long, size - long]], dtype=torch.float64), size / n)
    assert float(simplex.probabilities()[0, 0]) == pytest.approx(0.8, abs=0.01)


def test_the_cost_of_a_merger_is_the_change_of_the_score():
    """Against a model built from the summed factors, with weights and missing rows."""
    observations, _ = clusters(n=30, k=3)
    data = {name: values[:, 0].copy() for name, values in observations.values.items()}
    data["x0"][3] = np.nan
    data["x1"][7] = np.nan
    weighted = rp.read(data, weights=np.random.default_rng(0).random(30))
    model = model_for(weighted, prior=CategoricalPrior.fixed(torch.tensor([0.5, 0.3, 0.2])))
    model.prepare(weighted)
    terms = moves._log_terms(model, weighted)
    w = torch.as_tensor(weighted.weights / weighted.weights.sum())
    cost, a, b = moves.cheapest_merger(terms, w)

    def score(columns):
        logs = []
        for group in columns:
            value = terms.log_prior[group].logsumexp(0).expand(30)
            for f, here in zip(terms.log_f, terms.have, strict=True):
                merged = f[:, group].exp().sum(-1)
                c = w * here
                value = value + torch.where(here, (merged / ((c * merged).sum() / c.sum())).log(), 0.0)
            logs.append(value)
        return float(w @ torch.stack(logs, -1).logsumexp(-1))

    other = ({0, 1, 2} - {a, b}).pop()
    assert cost == pytest.approx(score([[0], [1], [2]]) - score([[a, b], [other]]), abs=1e-12)
