"""How much populations are believed: data drawn from the model itself, and curves that claim too much."""

from functools import cache

import numpy as np
import pytest
import torch

import rpmodels as rp
from registry import made
from rpmodels import inference
from rpmodels.evaluation import diagnose
from rpmodels.temperature import _excess, found_temperature
from test_population_fits import spikes


@cache
def fitted():
    return made(rp.RPGPFA, 2, max_iter=150, random_state=0, dtype="float64").fit(spikes()[0])


def drawn(model, n, seed):
    """Counts of n new trials from p(x|z) = p₀ f_c/F_c of the model, and Z from its prior."""
    generator = torch.Generator().manual_seed(seed)
    own = model.model_
    with torch.no_grad():
        z = own.prior.sample(own.sites(n), generator)
        mixture = own.summary(own.names[0])
        u = mixture.curves.along(z)[:, :, None]
        shares = mixture.log_probabilities(u)[:, :, 0].exp()
        place = torch.multinomial(shares.flatten(0, -2), 1, generator=generator).reshape(shares.shape[:-1])
        curves = own.recogniser(own.names[0]).network
        values = curves.grid.values.expand(*place.shape, -1).gather(-1, place[..., None])[..., 0]
    return values.numpy()


def excess(model, x, temperature=1.0):
    own = model.model_
    return _excess(own, model.read(x), list(own.names), own.pattern.e_step.for_new_data(), temperature)[0]


def test_halves_of_a_model_that_is_right_agree_as_well_as_they_say():
    assert excess(fitted(), drawn(fitted(), 60, 0)) == pytest.approx(0.0, abs=0.12)


def test_channels_that_claim_too_much_are_believed_less():
    model, x = fitted(), drawn(fitted(), 60, 1)
    curves = model.model_.recogniser(model.model_.names[0]).network
    before = {name: each.clone() for name, each in curves.state_dict().items()}
    try:
        with torch.no_grad():
            curves.slope.mul_(3.0)
            curves.bend.mul_(3.0)
            curves.log_precision.add_(np.log(3.0))
        model.model_._summaries = {}
        assert excess(model, x) > 0.3
        found = found_temperature(model.model_, model.read(x))
        assert 0.15 < found < 0.75
        assert excess(model, x, found) == pytest.approx(0.0, abs=0.1)
    finally:
        curves.load_state_dict(before)
        model.model_._summaries = {}


def test_posteriors_have_it_and_scores_do_not(tmp_path):
    model, x = fitted(), spikes()[0]
    kept = model.model_.temperature
    score, own = model.score(x), model.posterior(x)
    try:
        model.model_.temperature = 0.5
        weak = model.posterior(x)
        asked = model.posterior(x, e_step=inference.Refined(late=True, temperature=0.5))
        assert np.allclose(weak.mean, asked.mean)
        assert (weak.variance > own.variance).mean() > 0.99
        assert model.score(x) == score
        model.save(tmp_path / "model.rpm")
        assert np.array_equal(rp.load(tmp_path / "model.rpm").transform(x), weak.mean)
    finally:
        model.model_.temperature = kept


def test_half_the_temperature_is_half_of_what_sites_say():
    """By one pass of the refined E-step taken apart: its sites, conditioned on by hand."""
    own = fitted().model_
    inferred = next(iter(own.posterior(fitted().read(spikes()[0]), inference.Refined(temperature=0.5))))
    name, factor = next(iter(inferred.factors.items()))
    prior, sites = own.prior, inferred.batch.sites
    with torch.no_grad():
        first = prior.condition(0.5 * factor.g, sites)
        site = inferred.mixtures[name].refined(factor, first.marginal(factor.targets))
        expected = prior.condition(0.5 * site.g, sites)
    assert torch.allclose(inferred.posterior.eta, expected.eta)


def test_factors_with_networks_are_believed_as_they_are():
    random = np.random.default_rng(0)
    x, other = spikes()[0], random.standard_normal((*spikes()[0].shape[:2], 3))
    model = made(rp.RPGPFA, 1, max_iter=3, random_state=0).fit({"spikes": x, "other": other})
    own = model.model_
    alone = {"other": other}
    weak = inference.Refined(temperature=0.2)
    (one,), (two,) = (tuple(own.posterior(model.read(alone), each)) for each in (weak, weak.tempered(1.0)))
    assert torch.equal(one.posterior.eta, two.posterior.eta)


def test_a_diagnosis_names_halves_that_disagree():
    model = fitted()
    kept = model.model_.temperature
    try:
        model.model_.temperature = 0.4
        assert "halves disagree" in diagnose(model, spikes()[0])
        model.model_.temperature = 0.9
        assert "halves disagree" not in diagnose(model, spikes()[0])
    finally:
        model.model_.temperature = kept


def test_models_without_populations_have_one():
    random = np.random.default_rng(0)
    model = made(rp.RPGPFA, 1, max_iter=2, random_state=0).fit(random.standard_normal((6, 8, 3)))
    assert model.temperature_ == 1.0


def test_a_temperature_of_nothing_is_refused():
    with pytest.raises(rp.errors.RPModelsError, match="temperature"):
        inference.Refined(temperature=0.0)
