"""RP-GPFA without inducing points: chosen, refused, the same as with one at every time, whole recordings."""

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, RQKernel
from gpytorch.means import ConstantMean

import rpmodels as rp
from data import ball
from registry import made
from rpmodels.errors import BuildError, InputError
from rpmodels.estimators import kernels
from rpmodels.learning import closing
from rpmodels.priors import GaussianProcessPrior, MarkovianProcessPrior

FAST = {"n_init": 1, "max_iter": 4, "random_state": 0, "retries": 0}
BINS = 20


def matern(nu=1.5, length=4.0):
    kernel = MaternKernel(nu=nu).double()
    kernel.lengthscale = length
    return kernel


def fitted(x, n_inducing, latents=1, **options):
    options = {**FAST, "kernel": matern(), "dtype": "float64", "n_inducing": n_inducing, **options}
    return made(rp.RPGPFA, latents, **options).fit(x)


@pytest.fixture(scope="module")
def both():
    """With every time an inducing point, and without any."""
    x = ball().x
    return x, fitted(x, BINS, max_iter=20), fitted(x, None, max_iter=20)


def test_a_fit_is_the_one_with_every_time_an_inducing_point(both):
    x, sparse, exact = both
    assert isinstance(sparse.model_.prior, GaussianProcessPrior)
    assert isinstance(exact.model_.prior, MarkovianProcessPrior)
    assert float(exact.score_) == pytest.approx(float(sparse.score_), rel=1e-5)
    np.testing.assert_allclose(exact.length_scales_, sparse.length_scales_, rtol=1e-5)
    np.testing.assert_allclose(exact.transform(x), sparse.transform(x), atol=1e-4)
    np.testing.assert_allclose(exact.score_samples(x), sparse.score_samples(x), rtol=1e-5, atol=1e-5)


def test_its_verbs_are_those_of_the_sparse_one(both):
    x, sparse, exact = both
    lengths = (BINS, 5, 9, BINS, 3, BINS, BINS, 7)
    trials = [each[:length] for each, length in zip(x, lengths, strict=True)]
    ways = (
        lambda model: model.posterior(x),
        lambda model: model.posterior(x, at=[3.5, 30.0, 2.0]),
        lambda model: model.filter(x),
        lambda model: model.forecast(x, 3),
        lambda model: model.posterior(trials),
        lambda model: model.forecast(trials, 2),
    )
    for verb in ways:
        ours, theirs = verb(exact), verb(sparse)
        for name in ("mean", "covariance"):
            for mine, other in zip(getattr(ours, name), getattr(theirs, name), strict=True):
                np.testing.assert_allclose(mine, other, atol=1e-4)
    assert [each.shape for each in exact.posterior(x).sample(2)] == [(8, BINS, 1)] * 2


def test_log_w_by_joint_draws_is_that_of_the_sparse_one(both):
    x, sparse, exact = both
    ours, theirs = exact.log_weight(x), sparse.log_weight(x)
    error = np.hypot(ours.standard_error, theirs.standard_error)
    assert (np.abs(ours.values - theirs.values) < 5 * error + 1e-3).all()


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_the_same_weights_have_the_same_scores(covariance):
    x = ball().x
    sparse = fitted(x, BINS, latents=2, covariance=covariance)
    expected = sparse.score_samples(x)
    before = sparse.model_.prior
    sparse.model_.pattern.prior = MarkovianProcessPrior(before.family, before.kernel)
    np.testing.assert_allclose(sparse.score_samples(x), expected, rtol=1e-5, atol=1e-5)


def test_it_comes_back_from_a_file(both, tmp_path):
    x, _, exact = both
    exact.save(tmp_path / "exact.rpm")
    again = rp.load(tmp_path / "exact.rpm")
    assert isinstance(again.model_.prior, MarkovianProcessPrior)
    np.testing.assert_array_equal(again.transform(x), exact.transform(x))
    np.testing.assert_array_equal(again.length_scales_, exact.length_scales_)


def test_the_line_about_a_fit_says_which(both):
    _, sparse, exact = both
    assert f"{BINS} inducing points" in repr(sparse)
    assert "exact without inducing points" in repr(exact)


# ---- chosen ---------------------------------------------------------------------------------------


def prior_of(length, **options):
    model = rp.RPGPFA(**options)
    observations = rp.read({"x": np.zeros((2, length, 3))}, series=True)
    return model._prior(rp.families.DiagonalGaussian(1), observations)


def test_by_itself_where_trials_are_long_and_the_kernel_allows_it():
    assert isinstance(prior_of(1001, kernel="matern52"), MarkovianProcessPrior)
    assert isinstance(prior_of(1001, kernel=matern()), MarkovianProcessPrior)
    assert isinstance(prior_of(1000, kernel="matern52"), GaussianProcessPrior)
    assert isinstance(prior_of(1001), MarkovianProcessPrior)
    assert isinstance(prior_of(1001, kernel="periodic"), MarkovianProcessPrior)
    assert isinstance(prior_of(1001, kernel=matern() * RBFKernel()), MarkovianProcessPrior)
    assert isinstance(prior_of(1000), GaussianProcessPrior)
    assert isinstance(prior_of(1001, kernel=RQKernel()), GaussianProcessPrior)
    assert isinstance(prior_of(1001, kernel="matern52", n_inducing=30), GaussianProcessPrior)
    assert isinstance(prior_of(1001, kernel="matern52", inducing="learned"), GaussianProcessPrior)
    assert isinstance(prior_of(1001, kernel="matern52", mean=ConstantMean()), GaussianProcessPrior)
    needs = rp.Inference(e_step="free_inducing")
    assert isinstance(prior_of(1001, kernel="matern52", inference=needs), GaussianProcessPrior)


def test_length_scales_begin_where_they_do_with_inducing_points():
    sparse, exact = (prior_of(100, kernel="matern32", n_inducing=each) for each in ("auto", None))
    torch.testing.assert_close(exact.length_scales(), sparse.length_scales())
    given = prior_of(100, kernel="matern32", n_inducing=None, length_scale=7.0)
    assert float(given.length_scales()) == pytest.approx(7.0, rel=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"kernel": RQKernel()}, {"kernel": "matern32", "mean": ConstantMean()},
     {"kernel": "matern32", "inducing": "learned"}, {"kernel": "matern32", "inducing": [0.0, 3.0]}],
)  # fmt: skip
def test_what_needs_inducing_points_is_refused_without_any(options):
    with pytest.raises(InputError, match="n_inducing"):
        made(rp.RPGPFA, n_inducing=None, **FAST, **options).fit(ball().x)


def test_free_inducing_variables_want_some():
    with pytest.raises(BuildError, match="inducing"):
        made(rp.RPGPFA, n_inducing=None, kernel="matern32", e_step="free_inducing", **FAST).fit(ball().x)


# ---- whole recordings -----------------------------------------------------------------------------


def test_a_recording_stays_whole():
    x = rp.datasets.plain_ball(n_trials=1, n_times=1100, random_state=0).x[0]
    model = made(rp.RPGPFA, kernel="matern32", window=None, **FAST).fit(x)
    assert isinstance(model.model_.prior, MarkovianProcessPrior)
    assert model.transform(x).shape == (1100, 1)
    assert model.filter(x).mean.shape == (1100, 1)
    assert model.forecast(x, 4).mean.shape == (4, 1)
    gaps = np.arange(1100) % 7 != 0
    times = np.cumsum(np.where(gaps, 0.1, 0.3)) + 1.7e9
    timed = made(rp.RPGPFA, kernel="matern32", window=None, **FAST).fit({"x": x}, times=times, presence={"x": gaps})
    assert np.isfinite(timed.posterior({"x": x}, times=times).covariance).all()
    with pytest.raises(InputError, match="window"):
        made(rp.RPGPFA, window=None, n_inducing=20, **FAST).fit(x)


def test_a_long_recording_is_whole_by_itself_and_trained_in_pieces(monkeypatch):
    monkeypatch.setattr(kernels, "LONG", 50)
    monkeypatch.setattr(kernels, "PIECE", 60)
    x = rp.datasets.plain_ball(n_trials=1, n_times=430, random_state=0).x[0]
    model = made(rp.RPGPFA, **FAST).fit(x)
    assert "a chain without inducing points (kernel to 2e-03)" in repr(model)
    assert int(torch.isfinite(model.model_.atoms("x").log_count).sum()) == 430
    assert len(model.model_.times) == 60
    observations, form = model._new(x)
    assert observations.exists.shape == (1, 430)
    assert form.form(np.zeros((1, 430, 1))).shape == (430, 1)
    # In one piece: what is seen at the end of a window is heard in the next.
    whole = model.posterior(x).mean
    gone = x.copy()
    gone[200:260] = np.nan
    there = model.posterior(gone)
    assert np.isfinite(there.mean).all()
    np.testing.assert_allclose(there.mean[:150], whole[:150], atol=1e-2)
    assert np.isfinite(model.score(x))
    pieces = made(rp.RPGPFA, n_inducing=None, window=40, **FAST).fit(x)
    assert len(pieces.model_.times) == 40
    assert pieces.transform(x).shape == (430, 1)


def test_a_recording_with_inducing_points_is_cut_as_ever():
    x = rp.datasets.plain_ball(n_trials=1, n_times=430, random_state=0).x[0]
    for options in ({}, {"n_inducing": 20}):
        model = made(rp.RPGPFA, **FAST, **options).fit(x)
        assert isinstance(model.model_.prior, GaussianProcessPrior)
        assert len(model.model_.times) == 200
        assert len(model._new(x)[0]) == 4


def test_a_score_by_pieces_is_near_that_of_the_whole(monkeypatch):
    x = rp.datasets.plain_ball(n_trials=1, n_times=600, random_state=0).x[0]
    options = {**FAST, "max_iter": 60, "n_inducing": None, "kernel": "matern32", "window": 50}
    model = made(rp.RPGPFA, **options).fit(x)
    monkeypatch.setattr(closing, "PAIRS", 1)
    observations = model._as_for_fit(x)
    pieces = model._pieces(observations)
    whole = closing.closing_of(model.model_, observations, pairs=None).score
    for wanted in (1, 2**40):
        monkeypatch.setattr(closing, "PAIRS_OF_PIECES", wanted)
        found = closing.closing_of(model.model_, observations, pairs=1, pieces=pieces).score
        assert found.ceiling == whole.ceiling
        assert abs(found - whole) < 4 * found.standard_error + 0.1 * abs(whole)
    assert found.standard_error == 0.0
