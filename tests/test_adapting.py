"""A shifted population: p(Z) learned anew, everything else kept."""

import copy

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp

import data
import rpmodels as rp
from registry import PROBABILITIES, made, tiny_data, tiny_model
from rpmodels.errors import RPModelsError
from rpmodels.learning.adapting import adapted, shift_of
from rpmodels.linalg.shares import best_shares
from rpmodels.priors import CategoricalPrior, DiscreteGraph

PRIORS = {
    "uniform": lambda: CategoricalPrior.uniform(3),
    "fixed": lambda: CategoricalPrior.fixed(PROBABILITIES),
    "learned": lambda: CategoricalPrior.learned(3),
    "dirichlet": lambda: CategoricalPrior.dirichlet(3, 0.7),
    "graph": lambda: DiscreteGraph.learned({"state": 3}),
}


def shifted_data(n=40, seed=5, missing=True):
    x = tiny_data(n, seed=seed)
    x["x0"] += 0.8
    if missing:
        x["x1"][: n // 4] = np.nan
    return x


def by_hand(model, observations):
    """log Σ over factors of f_j/F_j⁺ of every observation and state, from f_j alone."""
    total = np.zeros((len(observations), 3))
    for name in model.names:
        atoms = model.atoms(name)
        before = torch.log_softmax(atoms.reference + atoms.g[0], -1).exp().numpy()
        own = torch.cat(list(model.recognise(observations, name)))[:, 0]
        own = torch.log_softmax(own, -1).exp().numpy()
        mixture = (before.sum(0) + own) / (len(before) + 1)
        total += np.where(observations.present[name], np.log(own / mixture), 0.0)
    return total


def maximum_by_scipy(said, weights):
    """Over the simplex, by sequential quadratic programming from its middle."""

    def loss(pi):
        inside = np.log(np.exp(said) @ pi)
        return -weights @ inside, -(weights / np.exp(inside)) @ np.exp(said)

    k = said.shape[1]
    rule = {"type": "eq", "fun": lambda pi: pi.sum() - 1.0, "jac": lambda pi: np.ones(k)}
    options = {"ftol": 1e-15, "maxiter": 1000}
    found = minimize(
        loss, np.full(k, 1 / k), jac=True, bounds=[(1e-14, 1)] * k, constraints=rule, method="SLSQP", options=options
    )
    return found.x, -found.fun


@pytest.mark.parametrize("kind", PRIORS)
def test_it_is_direct_maximum_likelihood(kind):
    model, _ = tiny_model(PRIORS[kind](), tiny_data(20))
    new = rp.read(shifted_data(), series=True, known=model.specs)
    found = adapted(model, new)
    said = by_hand(model, new)
    pi, best = maximum_by_scipy(said, np.ones(len(new)))
    reached = found.free_energies(new).values
    assert reached.sum() == pytest.approx(best, abs=1e-8)
    probabilities = found.prior.table("state") if kind == "graph" else found.prior.probabilities
    # Of a graph by L-BFGS, whose end is a value, not a place.
    np.testing.assert_allclose(probabilities.numpy(), pi, atol=1e-4 if kind == "graph" else 1e-7)
    np.testing.assert_allclose(reached, logsumexp(said + np.log(probabilities.numpy()), axis=1), atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_the_optimum_is_certified_even_where_states_are_alike_or_vanish(seed):
    random = np.random.default_rng(seed)
    said = torch.as_tensor(random.normal(scale=[0.1, 1.0, 5.0, 20.0][seed % 4], size=(60, 6)))
    said[:, 1] = said[:, 0]
    weights = torch.as_tensor(random.random(60))
    pi = best_shares(said, weights)
    inside = (said.exp() @ pi)[:, None]
    gradient = (weights[:, None] * said.exp() / inside).sum(0) / weights.sum()
    # No other π is higher by more than this (concavity); what has a share has the highest gradient.
    assert float(gradient.max().log()) < 1e-10
    assert float((pi * (gradient - 1.0).abs()).sum()) < 1e-8


@pytest.mark.parametrize("kind", PRIORS)
def test_everything_else_stays(kind):
    model, before = tiny_model(PRIORS[kind](), tiny_data(20))
    kept = copy.deepcopy(model.state_dict())
    found = adapted(model, rp.read(shifted_data(), series=True, known=model.specs))
    for name, each in model.state_dict().items():
        torch.testing.assert_close(each, kept[name], rtol=0, atol=0)
    for name in model.names:
        one, other = (torch.cat(list(each.recognise(before, name))) for each in (model, found))
        torch.testing.assert_close(one, other, rtol=0, atol=0)
        torch.testing.assert_close(model.summary(name).log_ratio(), found.summary(name).log_ratio(), rtol=0, atol=0)


def test_the_model_stays_normalised():
    model, _ = tiny_model(CategoricalPrior.fixed(PROBABILITIES), x := tiny_data(6))
    found = adapted(model, rp.read(shifted_data(), series=True, known=model.specs))
    first, second = (each.ravel() for each in np.meshgrid(np.arange(6), np.arange(6)))
    grid = rp.read({"x0": x["x0"][first], "x1": x["x1"][second]}, series=True, known=model.specs)
    weights = np.exp(found.free_energies(grid, in_training=True).values)
    assert weights.mean() == pytest.approx(1.0, abs=1e-12)


@pytest.fixture(scope="module")
def classes():
    x, _ = data.clusters(600, seed=0, places=1, noise=0.6)
    return made(rp.RPCategorical, 3, max_iter=200, n_init=2, prior="learned", random_state=0).fit(x)


def population(shares, n, seed):
    x, z = data.clusters(4 * n, seed=seed, places=1, noise=0.6)
    random = np.random.default_rng(seed)
    wanted = random.choice(3, n, p=shares)
    index = np.array([random.choice(np.flatnonzero(z == each)) for each in wanted])
    return {name: each[index] for name, each in x.items()}, wanted


def test_shares_of_a_shifted_population_are_found_without_labels(classes):
    x, z = population([0.7, 0.2, 0.1], 400, 7)
    found = classes.adapt_prior({"a": x["a"]})
    matching = rp.metrics.match_states(z, classes.predict(x), 3)
    shares, before = np.zeros(3), np.zeros(3)
    np.add.at(shares, matching, found.prior_)
    np.add.at(before, matching, classes.prior_)
    true = np.bincount(z, minlength=3) / len(z)
    assert np.abs(shares - true).sum() < 0.3 * np.abs(before - true).sum()
    right = [(matching[each.predict({"a": x["a"]})] == z).mean() for each in (classes, found)]
    assert right[1] > right[0]
    assert found.score({"a": x["a"]}) == pytest.approx(classes.score({"a": x["a"]}) + found.shift_.gain, abs=1e-5)
    assert found.score_ == pytest.approx(float(found.score({"a": x["a"]})))
    assert found.shift_.p_value < 1e-6
    assert "p = " in str(found.shift_)


def test_a_population_that_has_not_shifted_is_rarely_said_to_have(classes):
    p = [classes.adapt_prior(population([1 / 3] * 3, 100, seed)[0]).shift_.p_value for seed in range(20, 50)]
    assert np.mean(np.array(p) <= 0.05) <= 0.05


def test_few_observations_are_not_tested(classes):
    x, _ = population([1 / 3] * 3, 3, 0)
    shift = classes.adapt_prior(x).shift_
    assert np.isnan(shift.p_value)
    assert shift.gain >= 0


def test_files_know_it(classes, tmp_path):
    x, _ = population([0.7, 0.2, 0.1], 100, 8)
    found = classes.adapt_prior(x)
    found.save(tmp_path / "m")
    again = rp.load(tmp_path / "m")
    np.testing.assert_array_equal(again.predict_proba(x), found.predict_proba(x))
    assert again.shift_ == found.shift_
    assert not hasattr(classes, "shift_")
    other, _ = population([0.1, 0.1, 0.8], 100, 9)  # from there on to another: as if there had been none between
    np.testing.assert_allclose(again.adapt_prior(other).prior_, classes.adapt_prior(other).prior_, atol=1e-5)


def chains(stay, seed, n=60, t=30):
    random = np.random.default_rng(seed)
    steps = np.full((2, 2), 1 - stay) + (2 * stay - 1) * np.eye(2)
    z = np.zeros((n, t), int)
    z[:, 0] = random.integers(2, size=n)
    for time in range(1, t):
        z[:, time] = np.where(random.random(n) < steps[z[:, time - 1], 0], 0, 1)
    return 2.0 * np.eye(2)[z] + 0.7 * random.standard_normal((n, t, 2)), z


@pytest.fixture(scope="module")
def hmm():
    return made(rp.RPHMM, 2, max_iter=150, n_init=2, dtype="float64", random_state=0).fit(chains(0.9, 0)[0])


def test_new_transitions_are_those_of_the_target(hmm):
    x, z = chains(0.6, 1)
    found = hmm.adapt_prior(x)
    often = np.array([(z[:, 1:] == z[:, :-1])[z[:, :-1] == k].mean() for k in range(2)])
    stays = np.diag(found.transitions_)
    assert np.abs(np.sort(stays) - np.sort(often)).max() < 0.06
    assert np.diag(hmm.transitions_).min() > 0.8
    assert found.shift_.p_value < 1e-3


def test_no_transitions_are_better(hmm):
    x, _ = chains(0.6, 2, n=20)
    found = hmm.adapt_prior(x)
    model = found.model_
    each = next(iter(model.posterior(hmm.read(x))))
    said = model.pattern.e_step.potentials(each.step).numpy()

    def loss(raw):
        start, steps = raw[:2], raw[2:].reshape(2, 2)
        log_start, log_steps = start - logsumexp(start), steps - logsumexp(steps, axis=1, keepdims=True)
        forward = log_start + said[:, 0]
        for time in range(1, said.shape[1]):
            forward = logsumexp(forward[:, :, None] + log_steps, axis=1) + said[:, time]
        return -logsumexp(forward, axis=1).mean()

    here = np.concatenate([np.log(found.initial_), np.log(found.transitions_).ravel()])
    assert found.score_samples(x).mean() == pytest.approx(-loss(here), abs=1e-8)
    best = min(minimize(loss, each, method="BFGS").fun for each in (here, np.zeros(6)))
    assert loss(here) <= best + 1e-5


def test_length_scales_of_slower_latents():
    random = np.random.default_rng(0)
    mixing = random.normal(size=(1, 6))

    def smooth(scale, n):
        times = np.arange(30)
        cov = np.exp(-0.5 * ((times[:, None] - times) / scale) ** 2) + 1e-8 * np.eye(30)
        z = random.standard_normal((n, 30)) @ np.linalg.cholesky(cov).T
        return z[..., None] @ mixing + 0.3 * random.standard_normal((n, 30, 6))

    model = made(rp.RPGPFA, 1, max_iter=150, n_init=1, retries=0, random_state=0).fit(smooth(3.0, 40))
    new = smooth(8.0, 20)
    found = model.adapt_prior(new)
    before, after = (float(np.ravel(each.length_scales_)[0]) for each in (model, found))
    assert before < 4.5
    assert 6.0 < after < 11.0
    assert found.score(new) > model.score(new)


def test_dynamics_that_turn_faster():
    loadings = np.random.default_rng(0).normal(size=(2, 6))
    slow, fast = (
        data.dynamics(data.rotation(angle, 0.9), 0.9, loadings, 30, 30, noise=0.3, seed=seed)[0]
        for angle, seed in ((0.2, 0), (0.6, 1))
    )
    model = made(rp.RPLDS, 2, max_iter=150, n_init=1, retries=0, random_state=0).fit(slow)
    found = model.adapt_prior(fast)
    turns = [np.abs(np.angle(each.model_.prior.eigenvalues().numpy())).max() for each in (model, found)]
    assert turns[0] == pytest.approx(0.2, abs=0.1)
    assert turns[1] == pytest.approx(0.6, abs=0.1)


def test_what_cannot_change_is_refused():
    x, _ = data.views(30)
    model = made(rp.RPFA, 1, max_iter=3, n_init=1, retries=0, random_state=0).fit(x)
    with pytest.raises(RPModelsError, match="GaussianPrior has nothing that can change"):
        model.adapt_prior(x)
    driven = made(rp.RPLDS, 1, max_iter=2, n_init=1, retries=0, finish="none", random_state=0)
    trials, u = data.waves((8, 8, 8), 3, period=2.0, noise=0.3, random=np.random.default_rng(0)), np.zeros((3, 8, 1))
    u[:, 2] = 1.0
    with pytest.raises(RPModelsError, match="without inputs"):
        driven.fit(trials, inputs=list(u)).adapt_prior(trials, inputs=list(u))


def test_the_test_is_of_halves():
    model, _ = tiny_model(CategoricalPrior.learned(3), tiny_data(20))
    new = rp.read(shifted_data(missing=False), series=True, known=model.specs)
    shift = shift_of(model, adapted(model, new), new)
    assert shift.gain >= shift.held_out
    assert 0 <= shift.p_value <= 1
