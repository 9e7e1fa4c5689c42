"""What is known after a fit: posteriors without free energies, evaluation mode, the score that closes a fit."""

import copy
import pickle

import numpy as np
import pytest
import torch

import rpmodels as rp
from data import views
from registry import ESTIMATORS, tiny_data, tiny_model
from rpmodels.families import DiagonalGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.inference import Amortised, FreePotentials
from rpmodels.learning import RPMObjective, closing
from rpmodels.learning.closing import closing_of
from rpmodels.mixtures import InteriorBound
from rpmodels.priors import CategoricalPrior, GaussianPrior
from rpmodels.recognition import Linear
from rpmodels.seeding import seeded

DOUBLE = torch.float64
N = 400
PAIRS = N * 2 * N
"""Of all sites with all atoms of two factors."""


class ComputedError(Exception):
    pass


class Refusing(InteriorBound):
    """⟨log F⟩ that nobody may compute."""

    def __call__(self, eta_q, mixture, local):
        raise ComputedError


# ---- posteriors and modes -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fa", "gpfa", "lds"])
def test_a_posterior_costs_no_free_energy(name):
    model, x = ESTIMATORS[name].fitted()
    expected = ESTIMATORS[name].latents_of(model, x)
    model.model_.pattern.expected_log_mixture = Refusing()
    for found, before in zip(ESTIMATORS[name].latents_of(model, x), expected, strict=True):
        np.testing.assert_array_equal(found, before)
    assert all(np.isfinite(each).all() for each in model.posterior(x).mean)
    assert [each.posterior.mu.shape[0] for each in model.model_.posterior(model.read(x))] == [len(expected)]
    for asks in (model.score, model.score_samples, lambda data: model.posterior(data, e_step="natural_gradient")):
        with pytest.raises(ComputedError):
            asks(x)


def test_the_posterior_is_the_one_that_is_scored():
    """−KL of the scored energies is that of the posteriors, batch after batch."""
    model, observations = tiny_model(CategoricalPrior.uniform(3), tiny_data(n=9))
    kl = torch.cat([each.posterior.kl for each in model.posterior(observations)])
    torch.testing.assert_close(model.free_energies(observations).prior, -kl, rtol=0, atol=0)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_fitted_model_stays_in_evaluation_mode(name):
    options = {} if name == "lda" else {"dropout": 0.5, "input_dropout": 0.5}
    model, x = ESTIMATORS[name].fitted(validation_fraction=0.4, **options)
    scores = model.score_samples(x)
    for fitted in (model.model_, model.model_.train(), copy.deepcopy(model.model_), model.model_.double().float()):
        assert not any(module.training for module in fitted.modules())
    np.testing.assert_array_equal(model.score_samples(x), scores)


# ---- the closing score --------------------------------------------------------------------------


def factor_analysis(n=N, seed=0, e_step=None, **options):
    """Sharp factors, not trained: observations differ much in their scores."""
    observations = rp.read(views(n, seed=seed)[0], **options)
    with seeded(seed):
        networks = {name: Linear((4,), 2) for name in "ab"}
    model = rp.RPM(
        GaussianPrior(DiagonalGaussian(1)),
        networks,
        e_step=e_step or Amortised(),
        expected_log_mixture=InteriorBound(),
        dtype=DOUBLE,
    )
    model.prepare(observations)
    return FittedRPM.collected(model, observations), observations


def uneven(n=N):
    """Weights that differ, and observations of which nothing is there."""
    random = np.random.default_rng(5)
    there = random.random(n) > 0.15
    return {"weights": random.exponential(size=n), "presence": {"a": there, "b": there}}


def test_few_pairs_are_all_scored():
    fitted, observations = factor_analysis(**uneven())
    values = fitted.free_energies(observations, in_training=True).total.numpy()
    for pairs in (None, PAIRS):
        score = closing_of(fitted, observations, pairs=pairs).score
        assert float(score) == pytest.approx(np.average(values, weights=observations.weights), abs=1e-12)
        assert score.median == np.median(values)
        assert score.standard_error == 0.0
        assert "±" not in repr(score)
    assert closing_of(fitted, observations, pairs=PAIRS - 1).score.standard_error > 0


@pytest.mark.parametrize("options", [{}, uneven()], ids=["even", "uneven"])
def test_a_sample_is_as_far_from_the_whole_as_it_says(options, monkeypatch):
    fitted, observations = factor_analysis(**options)
    whole = closing_of(fitted, observations, pairs=None).score
    off = []
    for seed in range(40):
        monkeypatch.setattr(closing, "SEED", seed)
        score = closing_of(fitted, observations, pairs=PAIRS // 5).score
        assert score.ceiling == whole.ceiling
        assert score.label == whole.label
        off.append((float(score) - float(whole)) / score.standard_error)
    assert np.abs(off).max() < 4
    assert 0.7 < np.sqrt(np.mean(np.square(off))) < 1.35
    assert abs(np.mean(off)) < 0.6


def test_more_pairs_leave_a_smaller_error(monkeypatch):
    fitted, observations = factor_analysis()
    spread = float(fitted.free_energies(observations, in_training=True).total.std())

    def error(share):
        """Its root mean square over samples: single ones seldom have the few observations far out."""
        found = []
        for seed in range(30):
            monkeypatch.setattr(closing, "SEED", seed)
            found.append(closing_of(fitted, observations, pairs=PAIRS // share).score.standard_error)
        return np.sqrt(np.mean(np.square(found)))

    for share in (12, 6, 3):  # n = N/share of N observations: √((1 − n/N)/n) of their spread
        assert error(share) == pytest.approx(spread * np.sqrt((1 - 1 / share) * share / N), rel=0.15)


def test_the_same_data_give_the_same_sample():
    fitted, observations = factor_analysis()
    one, two = (closing_of(fitted, observations, pairs=PAIRS // 4).score for _ in range(2))
    assert one.plain == two.plain


def test_finite_latents_have_no_pairs():
    model, observations = tiny_model(CategoricalPrior.uniform(3), tiny_data(n=90))
    score = closing_of(model, observations, pairs=1).score
    assert score.standard_error == 0.0
    expected = model.free_energies(observations, in_training=True).total.mean()
    assert float(score) == pytest.approx(float(expected), abs=1e-12)


def test_sampled_observations_keep_their_own_parameters():
    fitted, observations = factor_analysis(e_step=FreePotentials())
    objective = RPMObjective(fitted.pattern, observations)
    whole = closing_of(fitted, observations, objective.local, pairs=None).score
    score = closing_of(fitted, observations, objective.local, pairs=PAIRS // 5).score
    assert abs(float(score) - float(whole)) < 4 * score.standard_error
    others = objective.local.subset(torch.arange(N).roll(1))
    assert float(closing_of(fitted, observations, others, pairs=None).score) < float(whole) - 20 * score.standard_error


def test_an_error_is_printed_and_kept(tmp_path):
    x = views(N)[0]
    model = rp.RPFA(1, max_iter=3, n_init=1, search=rp.Search(retries=0), random_state=0).fit(x)
    assert model.score_.standard_error == 0.0
    model.score_ = closing_of(model.model_, model.read(x), pairs=PAIRS // 5).score
    error = f" ± {model.score_.standard_error:.2g} nats"
    assert error in repr(model.score_)
    assert error in repr(model)
    model.save(tmp_path / "model")
    for score in (
        pickle.loads(pickle.dumps(model.score_)),
        copy.deepcopy(model.score_),
        rp.load(tmp_path / "model").score_,
    ):
        assert score.plain == model.score_.plain
        assert repr(score) == repr(model.score_)
    assert model.score_.called("another").standard_error == model.score_.standard_error
