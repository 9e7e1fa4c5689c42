"""Each sentence of the diagnosis is said when it is true, and not when it is not."""

import copy

import numpy as np
import pytest
import torch

import rpmodels as rp
from data import views
from rpmodels.evaluation import diagnose
from rpmodels.evaluation.diagnostics import mixture_distance


@pytest.fixture(scope="module")
def healthy():
    x, _ = views(400, noise=0.5)
    return rp.RPFA(1, max_iter=150, n_init=1, search=rp.Search(retries=0), learning_rate=2e-2, random_state=0).fit(x), x


def test_a_healthy_fit_has_nothing_to_say(healthy):
    model, x = healthy
    found = diagnose(model, x)
    assert not found.findings
    assert repr(found).startswith("nothing amiss\n(to know) width not identified")


def test_data_far_away_are_noticed(healthy):
    model, x = healthy
    far = {name: 3.9 * np.sign(values) * np.abs(values).max() for name, values in x.items()}
    assert "far from the prior" in diagnose(model, far)


def test_a_latent_that_no_factor_speaks_of_is_dead(healthy):
    _, x = healthy
    model = rp.RPFA(
        2,
        recognition=rp.Recognition(targets={"a": [0], "b": [0]}),
        max_iter=40,
        n_init=1,
        search=rp.Search(retries=0),
        random_state=0,
    ).fit(x)
    dead = [each.text for each in diagnose(model, x).findings if each.name == "dead latent"]
    assert len(dead) == 1
    assert "latent 1" in dead[0]


def test_a_factor_that_says_nothing_is_named(healthy):
    model, x = copy.deepcopy(healthy[0]), healthy[1]
    network = model.model_.recogniser("b").network
    network.straighten()
    with torch.no_grad():
        network.linear[-1].weight.zero_()
        network.linear[-1].bias.copy_(torch.tensor([0.0, -20.0]))
    silent = [each.text for each in diagnose(model, x).findings if each.name == "silent factor"]
    assert len(silent) == 1
    assert "'b'" in silent[0]


def test_a_fit_that_learnt_nothing_says_so():
    x = {name: np.random.default_rng(j).standard_normal((50, 2)) for j, name in enumerate("ab")}
    brief = {"max_iter": 1, "n_init": 1, "search": rp.Search(retries=0), "training": rp.Training(finish="none")}
    with pytest.warns(rp.RPModelsWarning):
        model = rp.RPFA(1, learning_rate=1e-9, random_state=0, **brief).fit(x)
    assert "learnt nothing" in diagnose(model, x)


def test_ceilings_and_empty_states_of_discrete_latents():
    rng = np.random.default_rng(0)
    z = rng.integers(2, size=200)
    x = {name: 20.0 * np.eye(2)[z] + 0.1 * rng.standard_normal((200, 2)) for name in "ab"}
    with pytest.warns(rp.RPModelsWarning, match="ceiling"):
        model = rp.RPCategorical(
            2, max_iter=150, n_init=1, learning_rate=2e-2, recognition=rp.Recognition(dropout=0.0), random_state=0
        ).fit(x)
    assert "at the ceiling" in diagnose(model, x)
    only = {name: values[z == 0] for name, values in x.items()}
    found = diagnose(model, only)
    assert "empty states" in found


def test_outliers_that_were_clipped_are_counted(healthy):
    _, x = healthy
    odd = {name: values.copy() for name, values in x.items()}
    odd["a"][:30] *= 1e4
    model = rp.RPFA(1, max_iter=3, n_init=1, search=rp.Search(retries=0), random_state=0).fit(odd)
    assert "'a'" in repr(diagnose(model, odd))


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_the_distance_of_a_mixture_is_that_of_its_moments(covariance, healthy):
    _, x = healthy
    model = rp.RPFA(
        2,
        recognition=rp.Recognition(covariance=covariance),
        max_iter=5,
        n_init=1,
        search=rp.Search(retries=0),
        engine=rp.Engine(dtype="float64"),
        random_state=0,
    ).fit(x)
    rng = np.random.default_rng(1)
    mean, spread = model.recognise(x["a"], "a")
    drawn = np.concatenate([rng.multivariate_normal(m, s, 300) for m, s in zip(mean, spread, strict=True)])
    variance = drawn.var(0)
    expected = 0.5 * (variance + drawn.mean(0) ** 2 - 1 - np.log(variance)).sum()
    assert mixture_distance(model.model_, "a") == pytest.approx(expected, abs=0.02)


def test_sessions_without_a_common_factor_are_warned_of():
    rng = np.random.default_rng(0)
    x = {name: rng.standard_normal((40, 6, 2)) for name in ("monday", "tuesday", "behaviour")}
    x["monday"][:20], x["tuesday"][20:] = np.nan, np.nan
    model = rp.RPGPFA(1, max_iter=2, n_init=1, search=rp.Search(retries=0), n_inducing=3, random_state=0)
    apart = {name: x[name] for name in ("monday", "tuesday")}
    with pytest.warns(rp.RPModelsWarning, match=r"monday \| tuesday"):
        model.fit(apart)
    with pytest.warns(rp.RPModelsWarning) as said:
        model.fit(x)
    assert not [each for each in said if "connects" in str(each.message)]
