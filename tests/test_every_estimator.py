"""Registry × property: what every estimator must satisfy, whatever its data and its latents."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import rpmodels as rp
from registry import ESTIMATORS

every = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture(scope="module")
def fits():
    """Every estimator fitted, with its data."""
    return {name: each.fitted() for name, each in ESTIMATORS.items()}


def answers(tiny, model, x):
    return [*tiny.latents_of(model, x), model.score_samples(x)]


def assert_equal(one, other):
    for left, right in zip(one, other, strict=True):
        np.testing.assert_array_equal(left, right)


def part(x, index):
    """Some of the observations, in the form of all of them."""
    if isinstance(x, dict):
        return {name: part(each, index) for name, each in x.items()}
    return [x[n] for n in index] if isinstance(x, list) else x[index]


@every
def test_there_are_as_many_latents_as_its_argument_says(name, fits):
    tiny, (model, x) = ESTIMATORS[name], fits[name]
    sizes = ((model, 1),) if tiny.size is None else ((model, tiny.width), (tiny.fitted(size=3)[0], 3))
    for fit, size in sizes:
        found = tiny.latents_of(fit, x)
        assert {each.shape[-1] for each in found} == {size}
        assert all(np.isfinite(each).all() for each in found)
        assert len(found) == len(fit.score_samples(x))


@every
def test_a_seed_gives_the_same_numbers_to_the_estimator_and_its_clone(name, fits):
    tiny, (model, x) = ESTIMATORS[name], fits[name]
    assert_equal(answers(tiny, clone(model).fit(x), x), answers(tiny, model, x))
    new = tiny.data(1)
    other = tiny.make(random_state=1).fit(x)
    assert not np.array_equal(other.score_samples(new), model.score_samples(new))


@pytest.mark.parametrize("name", ["circular", "fa"])
def test_so_does_a_fit_that_goes_to_its_end(name):
    tiny = ESTIMATORS[name]
    model, x = tiny.fitted(size=1, finish="auto", network="linear")
    assert "L-BFGS" in model.stop_reason_
    for twin in (clone(model).fit(x), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_equal(answers(tiny, twin, x), answers(tiny, model, x))


@every
def test_copies_answer_as_the_model_does(name, fits):
    tiny, (model, x) = ESTIMATORS[name], fits[name]
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert_equal(answers(tiny, twin, x), answers(tiny, model, x))


@every
def test_the_score_is_the_mean_over_observations_and_below_its_ceiling(name, fits):
    tiny, (model, x) = ESTIMATORS[name], fits[name]
    for seen in (x, tiny.data(1)):
        score = model.score(seen)
        assert float(score) == pytest.approx(model.score_samples(seen).mean(), rel=1e-5)
        assert float(score) <= score.ceiling


@every
def test_an_observation_alone_is_as_among_others(name, fits):
    tiny, (model, _) = ESTIMATORS[name], fits[name]
    new = tiny.data(1)
    latents, scores = tiny.latents_of(model, new), model.score_samples(new)
    for n in (0, 4):
        alone = part(new, [n])
        np.testing.assert_allclose(tiny.latents_of(model, alone)[0], latents[n], atol=1e-4)
        np.testing.assert_allclose(model.score_samples(alone)[0], scores[n], atol=1e-3)


@every
def test_no_latents_at_all_are_refused_by_the_name_of_the_argument(name):
    tiny = ESTIMATORS[name]
    if tiny.size is None:
        assert next(iter(tiny.kind.declared.values())).kw_only
        return
    with pytest.raises(rp.RPModelsError, match=tiny.size):
        tiny.fitted(size=0)


@every
def test_nothing_is_answered_before_a_fit(name):
    tiny = ESTIMATORS[name]
    with pytest.raises(rp.errors.NotFittedError, match=tiny.kind.__name__):
        tiny.latents_of(tiny.make(), tiny.data(0))


BAYES = {"categorical": "prior", "graph": "tables", "hmm": "transitions", "lds": "dynamics"}


@pytest.mark.parametrize("name", BAYES)
def test_what_variational_bayes_has_learned_of_parameters_is_in_the_score(name):
    """By its share of their divergence, whoever is scored; and it is not nothing."""
    tiny = ESTIMATORS[name]
    model, _ = tiny.fitted(**{BAYES[name]: 1.0})
    new = model.read(tiny.data(1))
    parts, divergence = model.model_.free_energies(new), float(model.model_.prior.parameter_kl().detach())
    assert divergence > 0.01
    rest = parts.prior + parts.recognition + parts.mixture
    expected = rest.detach().numpy() - divergence / model.model_.n_observations
    np.testing.assert_allclose(parts.values, expected, rtol=1e-5, atol=1e-5)
    assert float(model.model_.score(new)) == pytest.approx(parts.values.mean(), rel=1e-5)
