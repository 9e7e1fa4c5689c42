"""Linear GPFA against dense Gaussians, against Elephant's, and against factor analysis in the limit."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.decomposition import FactorAnalysis

import rpmodels as rp
from oracles import dense_gaussian
from rpmodels.baselines import GPFA
from rpmodels.linear.gpfa import NOISE, kernel

D, SCALES = 5, (2.0, 6.0)


def trials(lengths, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    loadings = rng.standard_normal((D, len(SCALES)))
    z = [np.stack([np.linalg.cholesky(kernel(t, s)) @ rng.standard_normal(t) for s in SCALES], -1) for t in lengths]
    return z, [each @ loadings.T + 1.0 + noise * rng.standard_normal((len(each), D)) for each in z]


def fitted(x, steps=8, **options):
    return GPFA(len(SCALES), max_iter=steps, random_state=0, **options).fit(x)


def dense(model, times):
    kernels = [kernel(times, scale) for scale in model.time_scales_]
    return dense_gaussian.measured(kernels, model.loadings_.T, model.noise_, model.offset_)


def test_likelihood_and_posterior_are_those_of_one_large_gaussian():
    _, x = trials([7, 7, 9])
    model = fitted(x)
    total = sum(multivariate_normal(*dense(model, len(each))).logpdf(each.ravel()) for each in x)
    assert model.score(x) * sum(map(len, x)) == pytest.approx(total, abs=1e-8)
    for each, z in zip(x, model.transform(x), strict=True):
        mean, covariance = dense(model, len(each))
        weighted = np.linalg.solve(covariance, each.ravel() - mean).reshape(len(each), D)
        expected = np.stack([
            kernel(len(each), scale) @ weighted @ loading
            for loading, scale in zip(model.loadings_.T, model.time_scales_, strict=True)
        ], -1)  # fmt: skip
        np.testing.assert_allclose(z, expected, atol=1e-8)


def test_missing_bins_are_marginalised():
    _, x = trials([8])
    model = fitted(x)
    gappy = x[0].copy()
    gappy[[2, 5]] = np.nan
    kept = ~np.isnan(gappy).any(1)
    mean, covariance = dense(model, 8)
    wide = np.repeat(kept, D)
    expected = multivariate_normal(mean[wide], covariance[np.ix_(wide, wide)]).logpdf(gappy[kept].ravel())
    assert model.score([gappy]) * kept.sum() == pytest.approx(expected, abs=1e-8)
    assert np.isfinite(model.transform([gappy])[0]).all()


def test_every_step_of_em_raises_the_likelihood():
    _, x = trials([12, 12, 20, 15, 15], seed=1)
    x[0][3] = np.nan
    values = fitted(x, steps=30, tol=0.0).log_likelihoods_
    assert len(values) == 30
    assert np.diff(values).min() > -1e-8 * abs(values[0])


def test_the_truth_comes_back():
    z, x = trials([40] * 20, seed=2)
    model = fitted(x, steps=60)
    assert rp.metrics.nmse(model.transform(x), z) < 0.05
    np.testing.assert_allclose(np.sort(model.time_scales_), SCALES, rtol=0.25)
    np.testing.assert_allclose(model.noise_, 0.25, rtol=0.2)


def test_without_smoothness_it_is_factor_analysis():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((2000, 1)) @ rng.standard_normal((1, D)) + 0.7 * rng.standard_normal((2000, D))
    model = GPFA(1, max_iter=50, time_scale=0.3).fit(rows[:, None])  # trials of one bin have nothing to smooth
    other = FactorAnalysis(1, tol=1e-8, max_iter=5000).fit(rows)
    assert model.score(rows[:, None]) == pytest.approx(other.score(rows), abs=1e-4)


def test_elephants_inference_agrees():
    core = pytest.importorskip("elephant.gpfa.gpfa_core")
    _, x = trials([10, 14, 10], seed=3)
    model = fitted(x)
    sequences = np.array([(len(each), each.T) for each in x], dtype=[("T", int), ("y", object)])
    parameters = {
        "covType": "rbf",
        "gamma": model.time_scales_**-2.0,
        "eps": np.full(len(SCALES), NOISE),
        "C": model.loadings_,
        "d": model.offset_,
        "R": np.diag(model.noise_),
        "notes": {"RforceDiagonal": True, "learnKernelParams": True, "learnGPNoise": False},
    }
    latents, log_likelihood = core.exact_inference_with_ll(sequences, parameters)
    assert model.score(x) * sum(map(len, x)) == pytest.approx(float(log_likelihood), rel=1e-8)
    for ours, theirs in zip(model.transform(x), latents["latent_variable"], strict=True):
        np.testing.assert_allclose(ours, theirs.T, atol=1e-8)


def test_elephants_em_reaches_no_higher():
    """Both from a factor analysis, on the same data: EM steps of either end at the same likelihood."""
    core = pytest.importorskip("elephant.gpfa.gpfa_core")
    _, x = trials([20] * 10, seed=4)
    sequences = np.array([(len(each), each.T) for each in x], dtype=[("T", int), ("y", object)])
    parameters, _ = core.fit(sequences, x_dim=2, bin_width=1.0, tau_init=2.0, em_max_iters=100, em_tol=1e-10)
    _, theirs = core.exact_inference_with_ll(sequences, parameters)
    ours = fitted(x, steps=100, tol=0.0, time_scale=2.0).log_likelihoods_[-1]
    assert ours > float(theirs) - 0.5


def test_arrays_come_back_as_arrays_and_lists_as_lists():
    _, x = trials([6, 6])
    model = fitted(x, steps=2)
    stacked = model.transform(np.stack(x))
    assert stacked.shape == (2, 6, 2)
    np.testing.assert_allclose(stacked, np.stack(model.transform(x)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda x: GPFA(9).fit(x), "n_latents.*at most"),
        (lambda x: GPFA(0).fit(x), "n_latents"),
        (lambda x: fitted(x, steps=1).transform([each[:, :3] for each in x]), "5 channels"),
        (lambda x: GPFA(2).transform(x), "fit"),
    ],
)
def test_bad_input_gets_a_sentence(call, words):
    with pytest.raises(Exception, match=words):
        call(trials([6, 6])[1])
