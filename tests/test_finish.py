"""The end of a fit: L-BFGS reaches the maximum, folds choose how far, and it keeps out of where it has no place."""

import warnings

import numpy as np
import pytest
import scipy.optimize
import torch

import rpmodels as rp
from data import clusters, views
from rpmodels.errors import RPModelsWarning
from rpmodels.learning import NoFinish, QuasiNewton, RPMObjective, TrainingSettings
from rpmodels.learning import finish as finishing
from rpmodels.learning.climbing import Penalty, climb

DOUBLE = torch.float64
PRECISIONS = (24.0, 16.0, 16.0)


def three_views(n, seed, width=2):
    """x_j = c_j z + noise of unit variance with |c_j|² the precision that view j adds, and the c_j."""
    random = np.random.default_rng(seed)
    z = random.standard_normal((n, 1))
    x, loadings = {}, {}
    for name, precision in zip("abc", PRECISIONS, strict=True):
        direction = random.standard_normal((1, width))
        loadings[name] = np.sqrt(precision) * direction / np.linalg.norm(direction)
        x[name] = z @ loadings[name] + random.standard_normal((n, width))
    return x, loadings


def everything(objective, observations):
    return observations.batch(np.arange(len(observations)), objective.model.dtype, objective.model.device)


def maximum(objective, observations):
    """Of the free energy of all the data, by scipy from where the objective is, which is left at the maximum."""
    batch = everything(objective, observations)
    parameters = [each for each in objective.model.recognition.parameters() if each.requires_grad]
    start = torch.nn.utils.parameters_to_vector(parameters).detach().numpy()

    def loss(vector):
        torch.nn.utils.vector_to_parameters(torch.tensor(vector), parameters)
        objective.zero_grad()
        value = -objective(batch)["free_energy"]
        value.backward()
        return float(value.detach()), torch.cat([each.grad.flatten() for each in parameters]).numpy()

    found = scipy.optimize.minimize(loss, start, jac=True, method="BFGS", options={"maxiter": 500, "gtol": 1e-5})
    torch.nn.utils.vector_to_parameters(torch.tensor(found.x), parameters)
    return -float(found.fun)


def test_a_default_fit_ends_at_the_maximum():
    """In-model data, and as a reference the optimum nearest to the parameters that made them."""
    x, loadings = three_views(400, 0)
    observations = rp.read(x)
    estimator = rp.RPFA(1, network="linear", n_init=1, max_iter=50, random_state=0)
    reference, _ = rp.RPFA(1, network="linear", engine=rp.Engine(dtype="float64")).build(observations)
    reference.prepare(observations)
    with torch.no_grad():
        for (name, recogniser), precision in zip(reference.recognisers(), PRECISIONS, strict=True):
            layer = next(each for each in recogniser.network.modules() if isinstance(each, torch.nn.Linear))
            mean, spread = x[name].mean(0), x[name].std(0)
            layer.weight[0] = torch.as_tensor(loadings[name][0] * spread)
            layer.bias[0] = float(loadings[name][0] @ mean)
            layer.weight[1] = 0.0
            layer.bias[1] = np.log(np.expm1(precision))
    objective = RPMObjective(reference, observations).eval()
    batch = everything(objective, observations)
    true = float(objective(batch)["free_energy"].detach())
    best = maximum(objective, observations)
    assert 0 < best - true < 0.1  # a few parameters' worth: it began near there
    model = estimator.fit(x)
    assert model.converged_
    score = float(model.score_)
    assert score == pytest.approx(best, rel=0.01)
    without = estimator.set_params(training=rp.Training(finish="none")).fit(x)
    assert float(without.score_) < score - 0.02 * best


def test_whatever_the_seed():
    x, _ = three_views(120, 1)
    scores = []
    for seed in range(3):
        model = rp.RPFA(1, network="linear", n_init=1, max_iter=30, random_state=seed).fit(x)
        assert ", then L-BFGS (+" in model.stop_reason_
        scores.append(float(model.score_))
    assert np.ptp(scores) < 0.01 * max(scores)


def chains(n, t, seed):
    """Three states that stay or go on, behind four channels."""
    random = np.random.default_rng(seed)
    moves = np.cumsum(random.random((n, t)) < 0.2, 1) % 3
    return np.eye(3)[moves] @ (2 * np.eye(3, 4)) + 0.7 * random.standard_normal((n, t, 4))


def test_learned_transitions_end_where_em_would():
    x = chains(25, 12, 0)
    model = rp.RPHMM(3, network="linear", n_init=1, max_iter=60, engine=rp.Engine(dtype="float64"), random_state=0)
    model.fit(x)
    observations = model.read(x)
    objective = RPMObjective(model.model_.pattern, observations).eval()
    batch = everything(objective, observations)
    prior = model.model_.pattern.prior
    before = prior.transitions.clone(), prior.probabilities.clone()
    with prior.by_gradient():
        logits = [each for name, each in objective.named_parameters() if name.endswith("logits")]
        assert len(logits) == 2
        objective(batch)["free_energy"].backward()
        assert all(float(each.grad.abs().max()) < 1e-3 for each in logits)
    objective(batch)
    objective.after_step()
    np.testing.assert_allclose(prior.transitions, before[0], atol=1e-4)
    np.testing.assert_allclose(prior.probabilities, before[1], atol=1e-4)
    assert model.converged_


def test_learned_tables_follow_the_gradient_and_keep_their_counts():
    """Beside a search, the logarithms are parameters; after it the counts have the sum that they had."""
    x, _ = clusters(100, 3, distance=2.0)
    observations = rp.read(x)
    model, _ = rp.RPCategorical(3, prior="learned", network="linear", random_state=0).build(observations)
    model.prepare(observations)
    objective = RPMObjective(model.to(DOUBLE), observations).eval()
    objective(everything(objective, observations))
    objective.after_step()
    simplex, total = model.prior.simplex, float(model.prior.simplex.count.sum())
    names = set(dict(model.named_parameters()))
    batch = everything(objective, observations)
    before = float(objective(batch)["free_energy"].detach())
    climbed = climb(objective, observations, Penalty(0.0), 1)
    after = float(objective(batch)["free_energy"].detach())
    assert after - before == pytest.approx(climbed.gained, abs=1e-9)  # what the search found is what is there
    assert set(dict(model.named_parameters())) == names
    assert float(simplex.count.sum()) == pytest.approx(total)
    np.testing.assert_allclose(simplex.count / simplex.count.sum(), simplex.probabilities())
    assert not np.allclose(simplex.probabilities(), 1 / 3, atol=0.01)


def wide(n, seed):
    """Two views of 30 channels with one weak latent in three of them: more noise than rows can tell from it."""
    random = np.random.default_rng(seed)
    z = random.standard_normal((n, 1))
    loadings = np.zeros((1, 30))
    loadings[0, :3] = 0.8
    return {name: z @ loadings + random.standard_normal((n, 30)) for name in "ab"}


def test_folds_choose_a_strong_penalty_where_noise_rules():
    """Ten times as many observations of the same kind are scored by what was learnt from few."""
    x, new = wide(60, 0), wide(600, 1)
    arguments = {"network": "linear", "n_init": 1, "max_iter": 60, "search": rp.Search(retries=0), "random_state": 0}
    scores, reasons = {}, {}
    for finish in ("auto", "none"):
        model = rp.RPFA(1, **arguments, training=rp.Training(finish=finish)).fit(x)
        scores[finish], reasons[finish] = float(model.score(new)), model.stop_reason_
    strength = float(reasons["auto"].rsplit("penalised by ", 1)[1].rstrip(")"))
    assert strength >= 3
    assert "L-BFGS" not in reasons["none"]
    assert scores["auto"] >= scores["none"]


@pytest.mark.parametrize("seed", [1000, 1001])
def test_a_penalty_that_silences_all_states_is_not_where_the_next_begins(seed):
    """All weights zero is a saddle: from there every weaker penalty seemed as bad, and the strongest was taken."""
    random = np.random.default_rng(seed)
    states = random.integers(3, size=50)
    centres = 2.5 * np.eye(3)
    x = {name: centres[states] + random.standard_normal((50, 3)) for name in "ab"}
    model = rp.RPCategorical(3, network="linear", n_init=2, random_state=seed).fit(x)
    assert model.score_ > 0.4
    found = model.predict(x)
    order = rp.metrics.match_states(states, found, 3)
    assert (order[found] == states).mean() >= 0.9


def test_without_a_penalty_noise_is_learnt():
    """What the folds protect from: the maximum of the likelihood of few rows is worse for others."""
    x, new = rp.read(wide(60, 0)), rp.read(wide(600, 1))
    scores = {}
    for strength in (0.0, 10.0):
        model, _ = rp.RPFA(1, network="linear", random_state=0).build(x)
        model.prepare(x)
        objective = RPMObjective(model, x).eval()
        climb(objective, x, Penalty(strength), 3)
        scores[strength] = float(objective.fitted(x).score(new))
    assert scores[10.0] > scores[0.0] + 0.1


def test_the_penalty_is_a_normal_prior_of_the_weights():
    x, _ = views(30, 1, 3)
    observations = rp.read(x)
    model, _ = rp.RPFA(1, network="linear", random_state=0).build(observations)
    objective = RPMObjective(model, observations)
    by_hand = 0.0
    for _, recogniser in model.recognisers():
        weights = recogniser.network[-1].weight.detach()
        by_hand += float(weights[0].square().sum() + 10.0 * weights[1:].square().sum())
    assert float(Penalty(2.0).of(objective).detach()) == pytest.approx(by_hand / 30)
    assert float(Penalty(0.0).of(objective)) == 0.0


def test_a_climb_never_ends_lower_and_says_what_it_gained():
    x, _ = three_views(150, 2)
    observations = rp.read(x)
    model, _ = rp.RPFA(1, network="linear", engine=rp.Engine(dtype="float64"), random_state=0).build(observations)
    model.prepare(observations)
    objective = RPMObjective(model, observations).eval()
    batch = everything(objective, observations)
    values = [float(objective(batch)["free_energy"].detach())]
    for _ in range(6):
        climbed = climb(objective, observations, Penalty(0.0), 2)
        values.append(float(objective(batch)["free_energy"].detach()))
        assert values[-1] - values[-2] == pytest.approx(climbed.gained, abs=1e-9)
    assert (np.diff(values) >= 0).all()
    assert values[1] > values[0] + 0.5
    assert climbed.still


@pytest.mark.parametrize("poison", [1, 3, 10])
def test_a_climb_that_meets_no_number_is_undone(poison, monkeypatch):
    x, _ = three_views(150, 2)
    observations = rp.read(x)
    model, _ = rp.RPFA(1, network="linear", random_state=0).build(observations)
    model.prepare(observations)
    objective = RPMObjective(model, observations).eval()
    before = {name: each.clone() for name, each in objective.state_dict().items()}
    calls, forward = [], RPMObjective.forward

    def poisoned(self, batch):
        calls.append(1)
        terms = dict(forward(self, batch))
        if torch.is_grad_enabled() and len(calls) > 2 + poison:
            terms["free_energy"] = terms["free_energy"] * torch.nan
        return terms

    monkeypatch.setattr(RPMObjective, "forward", poisoned)
    climbed = climb(objective, observations, Penalty(0.0), 3)
    monkeypatch.undo()
    assert all(bool(torch.isfinite(each).all()) for each in objective.parameters())
    assert climbed.gained >= 0
    changed = any(not torch.equal(before[name], each) for name, each in objective.state_dict().items())
    assert changed == (climbed.gained > 0)


def none_of(estimator, x):
    """What the finish makes of the estimator's untrained model, and whether it changed anything."""
    observations = rp.read(x)
    model, _ = estimator.build(observations)
    model.prepare(observations)
    objective = RPMObjective(model, observations)
    before = {name: each.clone() for name, each in objective.state_dict().items()}
    finished = QuasiNewton()(objective, observations)
    after = objective.state_dict()
    return finished, all(torch.equal(each, after[name]) for name, each in before.items())


ONE_STEP = {"n_init": 1, "max_iter": 1, "random_state": 0}
OTHERS = {
    "hidden layers": rp.RPFA(1, network="mlp", **ONE_STEP),
    "free E-step": rp.RPFA(1, network="linear", inference=rp.Inference(e_step="free"), **ONE_STEP),
    "free bound": rp.RPFA(
        1, network="linear", inference=rp.Inference(expected_log_mixture="interior_free"), **ONE_STEP
    ),
    "Monte Carlo": rp.RPFA(1, network="linear", inference=rp.Inference(expected_log_mixture="monte_carlo"), **ONE_STEP),
    "kernel density": rp.RPFA(1, network="linear", inference=rp.Inference(marginal="kernel_density"), **ONE_STEP),
    "one network of several": rp.RPFA(1, network={"a": "linear", "b": "mlp"}, **ONE_STEP),
    "frozen": rp.RPFA(1, network=torch.nn.Linear(2, 2).requires_grad_(requires_grad=False), **ONE_STEP),
}


@pytest.mark.parametrize("name", OTHERS)
def test_it_has_no_place_beside(name):
    finished, same = none_of(OTHERS[name], views(120, 1, 2)[0])
    assert finished is None
    assert same


@pytest.mark.parametrize(
    "estimator",
    [
        rp.RPFA(1, network="linear", **ONE_STEP),
        rp.RPFA(1, network="linear", recognition=rp.Recognition(precision="constant"), **ONE_STEP),
        rp.RPFA(1, network=torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(2, 2)), **ONE_STEP),
    ],
    ids=["linear", "constant precision", "the user's own"],
)
def test_it_has_a_place_beside(estimator):
    finished, same = none_of(estimator, views(120, 1, 2)[0])
    assert finished.gained > 0
    assert not same


def test_it_has_a_place_beside_tables():
    random = np.random.default_rng(0)
    z = random.integers(3, size=200)
    x = {name: np.where(random.random(200) < 0.8, z, random.integers(3, size=200)) for name in "abc"}
    finished, _ = none_of(rp.RPCategorical(3, **ONE_STEP), x)
    assert finished.gained > 0.3


def objectives(x, *seeds):
    """Of linear factor analyses with fresh weights from these seeds; None: weights that say nothing, a saddle."""
    observations = rp.read(x)
    found = []
    for seed in seeds:
        model, _ = rp.RPFA(1, network="linear", random_state=seed or 0).build(observations)
        model.prepare(observations)
        if seed is None:
            for each in model.recognition.parameters():
                torch.nn.init.zeros_(each)
        found.append(RPMObjective(model, observations))
    return observations, found


def test_of_several_the_highest_end_is_taken():
    x, _ = three_views(150, 0)
    observations, (stuck, free) = objectives(x, None, 1)
    _, (alone,) = objectives(x, 1)
    QuasiNewton()(alone, observations)
    finished = QuasiNewton()(stuck, observations, [free])
    assert finished.reached[0] < 0.1 < 1.0 < finished.reached[1]
    assert "from another start" in finished.reason
    assert finished.gained > 1.0
    for name, each in alone.state_dict().items():
        torch.testing.assert_close(stuck.state_dict()[name], each)


def test_ends_that_are_equal_change_nothing():
    """Whose digits are last is no reason to take another start."""
    observations, (one, other) = objectives(three_views(150, 0)[0], 1, 2)
    finished = QuasiNewton()(one, observations, [other])
    assert finished.reached[0] == pytest.approx(finished.reached[1], abs=1e-4)
    assert "another" not in finished.reason


def test_where_its_end_suffices_a_fit_has_the_steps_of_its_search():
    x, _ = three_views(150, 0)
    arguments = {"network": "linear", "max_iter": 400, "random_state": 0}
    model = rp.RPFA(1, **arguments).fit(x)
    assert 50 <= model.n_iter_ < 300
    assert f"{model.n_iter_} of max_iter = 400 steps" in model.stop_reason_
    assert model.converged_
    ends = [each.end for each in model.restarts_ if each.end is not None]
    assert len(ends) == 3
    assert float(model.score_) == pytest.approx(max(ends), abs=1e-3)
    observations = rp.read(x)
    built, settings = rp.RPFA(1, **arguments).build(observations)
    longer = rp.train(built, observations, settings, random_state=0)  # all its steps, then the same end
    assert longer.record.stop_reason.startswith("max_iter = 400 steps, then")
    assert float(model.score(x)) == pytest.approx(float(longer.score(observations)), abs=0.02)


def test_too_many_pairs_are_left_alone(monkeypatch):
    x, _ = views(120, 1, 2)
    monkeypatch.setattr(finishing, "LONGEST", 2 * 120**2 - 1)
    assert none_of(rp.RPFA(1, network="linear", **ONE_STEP), x)[0] is None
    monkeypatch.setattr(finishing, "LONGEST", 2**23)
    monkeypatch.setattr(finishing, "NUMBERS", 2 * 2 * 120 - 1)
    assert none_of(rp.RPFA(1, network="linear", **ONE_STEP), x)[0] is None


def test_it_can_be_asked_not_to():
    x, _ = views(120, 1, 2)
    observations = rp.read(x)
    for finish, said in ((NoFinish(), "max_iter = 20 steps"), (QuasiNewton(), "max_iter = 20 steps, then L-BFGS (")):
        model, _ = rp.RPFA(1, network="linear", random_state=0).build(observations)
        fitted = rp.train(model, observations, TrainingSettings(max_iter=20, finish=finish), random_state=0)
        assert fitted.record.stop_reason.startswith(said)
        assert ("L-BFGS" in fitted.record.stop_reason) == isinstance(finish, QuasiNewton)
        assert fitted.record.converged == isinstance(finish, QuasiNewton)
    with pytest.raises(rp.RPModelsError, match="finish"):
        rp.RPFA(1, training=rp.Training(finish="later")).fit(x)


def test_a_fit_that_its_end_has_saved_is_not_begun_again():
    """Two steps at no rate learn nothing; L-BFGS does."""
    x, _ = views(60, noise=0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RPModelsWarning)
        model = rp.RPFA(1, network="linear", max_iter=2, learning_rate=1e-9, n_init=1, random_state=0).fit(x)
    assert model.history_["free_energy"][-1] < 0.1 < float(model.score_)
    assert model.converged_
