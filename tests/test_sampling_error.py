"""What training data leave open about origin and scale: against draws of the prior, and against what it promises."""

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel
from gpytorch.means import ConstantMean
from scipy.linalg import sqrtm
from scipy.stats import norm

import rpmodels as rp
from registry import made
from rpmodels import priors
from rpmodels.carriers import Excess, Sites
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.sampling_error import excess_of, sampling_error

N, T, K, DRAWS = 30, 12, 2, 400


TIMES = torch.arange(T, dtype=torch.float64)


def error_of(prior, n_sites=N * T):
    return sampling_error(prior, TIMES, float(n_sites))


def gaussian_process():
    kernel = RBFKernel(batch_shape=torch.Size([K]))
    kernel.lengthscale = torch.tensor([[[2.0]], [[5.0]]])
    prior = priors.GaussianProcessPrior(DiagonalGaussian(K), kernel, torch.arange(T, dtype=torch.float64))
    return prior.double()


def dynamics():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return priors.LinearDynamicsPrior(FullGaussian(K), memory=0.8, rotation=0.5).double()


KINDS = {"gp": gaussian_process, "lds": dynamics, "static": lambda: priors.GaussianPrior(DiagonalGaussian(K)).double()}


def drawn(prior, generator):
    """Latents of N observations, flat."""
    with torch.no_grad():
        sites = Sites(TIMES.expand(N, -1), torch.ones(N, T, dtype=torch.bool))
        return prior.sample(sites, generator).numpy().reshape(-1, K)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_of_draws_vary_as_it_says(kind):
    prior, generator = KINDS[kind](), torch.Generator().manual_seed(1)
    error = error_of(prior)
    samples = [drawn(prior, generator) for _ in range(DRAWS)]
    means = np.stack([z.mean(0) for z in samples])
    seconds = np.stack([z.T @ z / len(z) for z in samples])
    # A variance of DRAWS draws is known to √(2/DRAWS), 7 %.
    assert np.diag(error.origin.numpy()) == pytest.approx(means.var(0), rel=0.3)
    assert error.scale.numpy() == pytest.approx(seconds.var(0), rel=0.3)


@pytest.mark.parametrize("kind", KINDS)
def test_bands_hold_where_factors_say_all_there_is(kind):
    """Latents seen without any noise, put to mean zero and variance one: then nothing else is open."""
    prior, generator = KINDS[kind](), torch.Generator().manual_seed(2)
    error = error_of(prior)
    inside = []
    for _ in range(60):
        z = drawn(prior, generator)
        centred = z - z.mean(0)
        # The symmetric root turns nothing: only origin and scale are off.
        found = centred @ np.real(np.linalg.inv(sqrtm(centred.T @ centred / len(z))))
        sd = np.sqrt(np.diagonal(error.covariance(found), axis1=-2, axis2=-1))
        inside.append((np.abs(found - z) <= norm.ppf(0.95) * sd).mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.05)


def test_more_observations_leave_less_open():
    prior = gaussian_process()
    few, many = error_of(prior), error_of(prior, 4 * N * T)
    assert torch.allclose(few.origin, 4.0 * many.origin)
    assert torch.allclose(few.scale, 4.0 * many.scale)


def test_priors_without_covariances_leave_it_out():
    assert error_of(priors.CategoricalPrior.fixed(torch.ones(3) / 3)) is None


def test_latents_of_another_scale_than_the_prior_widen_bands():
    """Found twice as large and around one: covered all the same, which the sampling error alone would not do."""
    error = error_of(gaussian_process(), 1e9)
    found = 1.0 + 2.0 * np.random.default_rng(0).standard_normal((500, K))
    excess = Excess(found.mean(0), np.cov(found.T) - np.eye(K))
    sd = np.sqrt(np.diagonal(error.beside(excess).covariance(found), axis1=-2, axis2=-1))
    off = np.abs(found - (found - 1.0) / 2.0)
    assert (off <= norm.ppf(0.95) * sd).mean() > 0.85
    assert (off <= norm.ppf(0.95) * np.sqrt(np.diagonal(error.covariance(found), axis1=-2, axis2=-1))).mean() < 0.01


def test_the_average_q_is_compared_with_the_prior():
    random = np.random.default_rng(0)
    x = [random.standard_normal((length, 3)) for length in (6, 9, 7, 8, 9, 6)]
    model = made(rp.RPGPFA, 2, max_iter=3, random_state=0, finish="none", mean=ConstantMean()).fit(x)
    with torch.no_grad():
        model.model_.prior.mean_function.constant.fill_(0.4)
    excess, q = excess_of(model.model_, model.read(x)), model.posterior(x)
    mean, covariance = np.concatenate(q.mean), np.concatenate(q.covariance)
    assert excess.mean == pytest.approx(mean.mean(0) - 0.4, abs=1e-5)
    assert excess.second == pytest.approx(covariance.mean(0) + np.cov(mean.T, bias=True) - np.eye(2), abs=1e-5)


def test_bands_of_a_fit_are_wider_than_its_covariance():
    random = np.random.default_rng(0)
    z = random.standard_normal((40, 1))
    x = {"a": z + 0.1 * random.standard_normal((40, 3)), "b": -z + 0.1 * random.standard_normal((40, 3))}
    model = made(rp.RPFA, 1, max_iter=5, random_state=0, finish="none").fit(x)
    posterior = model.posterior(x)
    # Forty independent observations: 1/40 of the origin, m²/80 of the scale; and what the average q has beyond.
    mean, second = posterior.mean.mean(0), posterior.variance.mean(0) + posterior.mean.var(0) - 1.0
    expected = posterior.variance + 1 / 40 + mean**2 + np.square(posterior.mean) * (1 / 80 + second**2 / 4)
    assert np.diagonal(posterior.uncertainty, axis1=-2, axis2=-1) == pytest.approx(expected, rel=1e-4)
    low, high = posterior.bands(0.9)
    assert (high - low) == pytest.approx(2 * norm.ppf(0.95) * np.sqrt(expected), rel=1e-4)


def test_bands_of_unequal_trials_have_the_form_of_the_data(tmp_path):
    random = np.random.default_rng(0)
    x = [random.standard_normal((length, 3)) for length in (6, 9, 7, 8, 9, 6)]
    model = made(rp.RPGPFA, 1, max_iter=3, random_state=0, finish="none").fit(x)
    assert model.model_.n_sites == sum(map(len, x))
    low, high = model.posterior(x).bands()
    assert [len(each) for each in low] == [len(each) for each in high] == [len(each) for each in x]
    model.save(tmp_path / "model.rpm")
    assert np.array_equal(rp.load(tmp_path / "model.rpm").posterior(x).bands()[0][1], low[1])
