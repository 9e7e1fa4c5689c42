"""Posterior-predictive checks: silent about data that the model draws, and a sentence where data are otherwise."""

import numpy as np
import pytest

import data
import rpmodels as rp
from registry import ESTIMATORS, made
from rpmodels import generative
from rpmodels.evaluation import diagnose

ODD = "unlike its draws"


def said(model, x):
    return [each.text for each in diagnose(model, x).findings if each.name == ODD]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_data_that_the_model_draws_raise_no_alarm(name):
    model, x = ESTIMATORS[name].fitted()
    one = model.description.one_factor or not isinstance(x, dict)
    rows = dict(x) if isinstance(x, dict) else x
    far = []
    for seed in range(2):
        drawn, _ = model.sample(40, rows=rows, random_state=seed)
        again = next(iter(drawn.values())) if one else drawn
        checks = generative.predictive_checks(model.model_, model.read(again), seed=seed)
        assert checks
        assert min(each.probability for each in checks) > 1e-3
        far += [abs(each.data - each.draws) / each.sd for each in checks]
        assert not said(model, again)
    # Not because nothing could be noticed: differences are as large as the spread of the draws, a little widened.
    assert 0.1 < np.median(far) < 1.2


@pytest.fixture(scope="module")
def views():
    x, _ = data.views(400, noise=0.5)
    return made(rp.RPFA, 1, max_iter=60, n_init=1, retries=0, learning_rate=4e-2, random_state=0).fit(x), x


def test_factors_of_different_trials_do_not_depend_on_each_other(views):
    model, x = views
    assert not said(model, x)
    (text,) = said(model, {"a": x["a"], "b": np.roll(x["b"], 1, axis=0)})
    assert "the correlation between factors 'a' and 'b'" in text
    assert "in data that the model draws" in text


def test_data_of_another_spread_and_place_are_noticed(views):
    model, x = views
    found = said(model, {name: 0.2 * each for name, each in x.items()})
    assert any("the variance of latent 0" in each for each in found)
    high = model.recognise(x["a"], "a")[0][:, 0] > 0
    assert any("the mean of latent 0" in each for each in said(model, {name: each[high] for name, each in x.items()}))


def test_trials_whose_times_are_shuffled_are_noticed():
    x, _ = data.dynamics(
        data.rotation(0.2, 0.95), 0.95, np.array([[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]]), 30, 20, noise=0.5
    )
    model = made(rp.RPLDS, 2, max_iter=30, n_init=1, retries=0, random_state=0).fit(x)
    assert not said(model, x)
    order = np.random.default_rng(0).permuted(np.tile(np.arange(20), (30, 1)), axis=1)
    found = said(model, np.take_along_axis(x, order[..., None], 1))
    assert any("the correlation of neighbouring sites of factor 'x'" in each for each in found)


def test_channels_that_vary_together_in_another_way_are_noticed():
    random = np.random.default_rng(0)
    z = data.dynamics(data.rotation(0.2, 0.9), 0.9, np.eye(2), 30, 15, noise=0.01)[1]
    rates = np.exp(0.6 * z @ random.normal(size=(2, 8)))
    counts = random.poisson(rates).astype(float)
    model = made(rp.RPGPFA, 2, channels="separate", max_iter=40, n_init=1, retries=0, random_state=0).fit(counts)
    assert not said(model, counts)
    together = random.poisson(rates * random.gamma(2.0, 0.5, rates.shape[:2])[..., None]).astype(float)
    together = np.minimum(together, counts.max((0, 1)))
    assert any("between channels of factor 'x'" in each for each in said(model, together))


def test_many_sites_and_atoms_are_thinned_out(monkeypatch, views):
    model, x = views
    whole = generative.predictive_checks(model.model_, model.read(x))
    monkeypatch.setattr("rpmodels.generative.checks.MOST_ATOMS", 150)
    monkeypatch.setattr("rpmodels.generative.checks.MOST_SITES", 100)
    few = generative.predictive_checks(model.model_, model.read(x))
    assert [each.what for each in few] == [each.what for each in whole]
    assert all(one.sd > other.sd for one, other in zip(few, whole, strict=True))
    assert min(each.probability for each in few) > 1e-3


def test_where_p0_is_a_density_its_draws_are_what_factors_show():
    x, _ = data.views(60, noise=0.5)
    model = made(rp.RPFA, 1, max_iter=5, n_init=1, retries=0, random_state=0, marginal="kernel_density").fit(x)
    assert generative.predictive_checks(model.model_, model.read(x), replicates=4)
    diagnose(model, x)
