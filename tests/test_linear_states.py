"""States that linear networks find under a penalty that weakens: what clusters miss, and what they must not touch."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from rpmodels import errors
from rpmodels.estimators.regularisation import has_plenty
from rpmodels.fitted import FittedRPM
from rpmodels.learning import KMeans, StatesStart, linear_states
from rpmodels.learning.linear_start import begins_straight
from rpmodels.learning.linear_states import LinearStates
from rpmodels.recognition import WithLinear


def loud(n=400, k=4, seed=0):
    """Two factors that share a class in a few quiet columns, each beside loud groups of its own; and the class."""
    random = np.random.default_rng(seed)
    z = random.integers(k, size=n)
    x = {}
    for name in "ab":
        own = 3.0 * random.normal(size=(k, 12))[random.integers(k, size=n)]
        x[name] = np.concatenate([np.eye(k)[z], own], 1) + 0.2 * random.normal(size=(n, k + 12))
    return x, z


def prepared(estimator, observations):
    model, _ = estimator.build(observations)
    model.prepare(observations)
    return model


def accuracy(model, observations, z):
    """Of the most probable states, all factors together."""
    with torch.no_grad():
        fitted = FittedRPM.collected(model.eval(), observations)
        states = torch.cat([each.posterior.mu[:, 0].argmax(-1) for each in fitted.posterior(observations)]).numpy()
    return (rp.metrics.match_states(z, states, 4)[states] == z).mean()


def begun(x, start, **options):
    observations = rp.read(x)
    model = prepared(rp.RPCategorical(4, random_state=0, **options), observations)
    return start(model, observations, 0), model, observations


def test_what_factors_share_is_found_beside_what_is_loud():
    """Few rows: the networks, which have no linear map beside them, are taught."""
    x, z = loud()
    taken, model, observations = begun(x, LinearStates())
    assert taken > 1
    assert not begins_straight(model)
    assert accuracy(model, observations, z) > 0.9
    _, model, observations = begun(x, StatesStart(KMeans()))
    assert accuracy(model, observations, z) < 0.6


def test_with_many_rows_networks_begin_as_their_linear_maps():
    x, z = loud(900)
    taken, model, observations = begun(x, LinearStates())
    assert taken is None
    wrapped = [each for each in model.recognition.modules() if isinstance(each, WithLinear)]
    assert len(wrapped) == 2
    assert all(each.is_straight() for each in wrapped)
    assert accuracy(model, observations, z) > 0.95


def test_a_prior_that_is_learned_is_left_to_the_steps():
    x, _ = loud(900)
    _, model, _ = begun(x, LinearStates(), prior="learned")
    torch.testing.assert_close(model.prior.probabilities, torch.full((4,), 0.25))


def test_only_some_observations_are_fitted_and_all_are_taught(monkeypatch):
    x, z = loud()
    fitted = []
    monkeypatch.setattr(linear_states, "NUMBERS", 200 * 2 * 16)
    descend = linear_states.descend
    monkeypatch.setattr(linear_states, "descend", lambda model, part: fitted.append(len(part)) or descend(model, part))
    _, model, observations = begun(x, LinearStates())
    assert fitted == [200]
    assert accuracy(model, observations, z) > 0.9


def test_shared_networks_labels_and_missing_rows():
    x, z = loud()
    tied = prepared(rp.RPCategorical(4, recognition=rp.Recognition(tied=True), random_state=0), rp.read(x))
    networks = {id(factor.network) for _, factor in linear_states._twin(tied).recognisers()}
    assert len(networks) == 1
    x["a"][:40] = np.nan
    _, model, observations = begun({"x": x["a"], "label": np.array(list("pqrs"))[z]}, LinearStates())
    assert accuracy(model, observations, z) > 0.9


@pytest.mark.parametrize("n", [400, 900])
def test_where_numbers_fail_weights_are_random(n, monkeypatch):
    def failing(model, part):
        model.recognition[0].network[-1].weight.data.fill_(torch.nan)
        raise errors.NumericalError

    monkeypatch.setattr(linear_states, "descend", failing)
    taken, model, _ = begun(loud(n)[0], LinearStates())
    assert taken is None
    assert all(torch.isfinite(each).all() for each in model.parameters())


def test_a_penalty_that_leaves_nothing_is_not_where_the_next_begins(monkeypatch):
    """Weights that a penalty has taken to zero are a saddle, from which no weaker penalty leads away."""
    x, z = loud(900)
    monkeypatch.setattr(linear_states, "STRENGTHS", (1e4, 0.01))
    _, model, observations = begun(x, LinearStates())
    assert accuracy(model, observations, z) > 0.95
    monkeypatch.setattr(linear_states, "LEAST", -1.0)
    _, model, observations = begun(x, LinearStates())
    assert accuracy(model, observations, z) < 0.6


@pytest.mark.parametrize("n_init", [2, 6])
def test_it_is_the_first_that_is_taught(n_init):
    taught = [each for each in rp.RPCategorical(4, n_init=n_init)._starts() if each.taught]
    assert isinstance(taught[0], LinearStates)


def test_rows_for_every_channel_bring_a_linear_map():
    x = {"a": np.zeros((300, 6)), "b": np.zeros((300, 2)), "picture": np.zeros((300, 8, 8))}
    assert has_plenty(rp.read(x))
    assert not has_plenty(rp.read({name: each[:299] for name, each in x.items()}))
