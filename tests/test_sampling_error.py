"""What training data leave open about origin and scale: against draws of the prior, and against what it promises."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean
from scipy.linalg import sqrtm
from scipy.stats import norm

import rpmodels as rp
from registry import made
from rpmodels import priors
from rpmodels.carriers import Excess, Sites
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.sampling_error import excess_of, sampling_error
from rpmodels.temperature import found_temperature

N, T, K, DRAWS = 30, 12, 2, 400


TIMES = torch.arange(T, dtype=torch.float64)


def grid(n):
    return Sites(TIMES.expand(n, -1), torch.ones(n, T, dtype=torch.bool))


def error_of(prior, n_sites=N * T):
    return sampling_error(prior, grid(1), float(n_sites))


def gaussian_process(variance=1.0):
    kernel = ScaleKernel(RBFKernel(batch_shape=torch.Size([K])), batch_shape=torch.Size([K]))
    kernel.base_kernel.lengthscale = torch.tensor([[[2.0]], [[5.0]]])
    kernel.outputscale = torch.full((K,), variance)
    prior = priors.GaussianProcessPrior(DiagonalGaussian(K), kernel, torch.arange(T, dtype=torch.float64))
    return prior.double()


def dynamics():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return priors.LinearDynamicsPrior(FullGaussian(K), memory=0.8, rotation=0.5).double()


def static():
    """N((3, 3), ((4, 1), (1, 2))): learned."""
    family = FullGaussian(K)
    prior = priors.GaussianPrior(family, learned=True).double()
    mean, spread = (
        torch.full((K,), 3.0, dtype=torch.float64),
        torch.tensor([[4.0, 1.0], [1.0, 2.0]], dtype=torch.float64),
    )
    with torch.no_grad():
        prior.raw.copy_(family.to_raw(family.natural(mean, spread)))
    return prior


KINDS = {
    "gp": gaussian_process, "lds": dynamics, "static": lambda: priors.GaussianPrior(DiagonalGaussian(K)).double(),
    "large": lambda: gaussian_process(9.0), "small": lambda: gaussian_process(0.1), "elsewhere": static,
}  # fmt: skip


def drawn(prior, generator):
    """Latents of N observations, flat."""
    with torch.no_grad():
        return prior.sample(grid(N), generator).numpy().reshape(-1, K)


@pytest.mark.parametrize("kind", KINDS)
def test_moments_of_draws_vary_as_it_says(kind):
    prior, generator = KINDS[kind](), torch.Generator().manual_seed(1)
    error = error_of(prior)
    samples = [drawn(prior, generator) for _ in range(DRAWS)]
    means = np.stack([z.mean(0) for z in samples])
    seconds = np.stack([(z - error.centre.numpy()).T @ (z - error.centre.numpy()) / len(z) for z in samples])
    # A variance of DRAWS draws is known to √(2/DRAWS), 7 %.
    assert np.diag(error.origin.numpy()) == pytest.approx(means.var(0), rel=0.3)
    assert error.scale.numpy() == pytest.approx(seconds.var(0), rel=0.3)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "elsewhere"])
def test_bands_hold_where_factors_say_all_there_is(kind):
    """Latents seen without any noise, put to the prior's mean and covariance: then nothing else is open."""
    prior, generator = KINDS[kind](), torch.Generator().manual_seed(2)
    error = error_of(prior)
    inside, ratios = [], []
    for _ in range(60):
        z = drawn(prior, generator)
        centred = (z - z.mean(0)) / error.variances.numpy() ** 0.5
        # The symmetric root turns nothing: only origin and scale are off.
        found = centred @ np.real(np.linalg.inv(sqrtm(centred.T @ centred / len(z)))) * error.variances.numpy() ** 0.5
        variance = np.diagonal(error.covariance(found, np.zeros((*found.shape, K))), axis1=-2, axis2=-1)
        inside.append((np.abs(found - z) <= norm.ppf(0.95) * np.sqrt(variance)).mean())
        ratios.append(np.square(found - z).mean() / variance.mean())
    assert np.mean(inside) == pytest.approx(0.9, abs=0.05)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.3)


def test_an_origin_counts_by_what_factors_say():
    """Normal channels of one site each with noise R and an unknown offset: the posterior mean has 1/(1 + R) of it."""
    error = error_of(priors.GaussianPrior(DiagonalGaussian(K)).double(), 50 * T)
    noise, centre = 9.0, np.zeros((1, K))
    spread = np.eye(K) * noise / (1.0 + noise)
    added = np.diagonal(error.covariance(centre, spread[None]), axis1=-2, axis2=-1)
    assert added == pytest.approx(1.0 / (1.0 + noise) ** 2 / (50 * T))


def test_more_observations_leave_less_open():
    prior = gaussian_process()
    few, many = error_of(prior), error_of(prior, 4 * N * T)
    assert torch.allclose(few.origin, 4.0 * many.origin)
    assert torch.allclose(few.scale, 4.0 * many.scale)


def test_priors_without_covariances_leave_it_out():
    assert error_of(priors.CategoricalPrior.fixed(torch.ones(3) / 3)) is None


def test_latents_of_another_scale_than_the_prior_are_told_by_how_much():
    """Found twice as large and around one, or a half: off by what puts them back."""
    error, z = error_of(gaussian_process(), 1e12), np.random.default_rng(0).standard_normal((500, K))
    for times, shift in ((2.0, 1.0), (0.5, 0.3)):
        excess = Excess(np.full(K, shift), np.eye(K) * (1.0 - 1.0 / times))
        found = shift + times * z
        added = replace(error, excess=excess).covariance(found, np.zeros((*found.shape, K)))
        np.testing.assert_allclose(np.diagonal(added, axis1=-2, axis2=-1), np.square(found - z), atol=1e-9)


def test_the_average_q_is_compared_with_the_prior():
    random = np.random.default_rng(0)
    x = [random.standard_normal((length, 3)) for length in (6, 9, 7, 8, 9, 6)]
    weights = np.array([1.0, 2.0, 0.0, 1.0, 0.5, 0.0])
    model = made(rp.RPGPFA, 2, max_iter=3, random_state=0, finish="none").fit(x, sample_weight=weights)
    excess, q = model.model_.excess, model.posterior(x)
    share = np.concatenate([np.full(len(each), w) for each, w in zip(x, weights, strict=True)])
    share /= share.sum()
    mean, covariance = np.concatenate(q.mean).astype(float), np.concatenate(q.covariance).astype(float)
    assert excess.mean == pytest.approx(share @ mean, abs=1e-5)
    second = np.einsum("n,nij->ij", share, covariance) + np.cov(mean.T, aweights=share, bias=True)
    assert excess.stretch == pytest.approx(np.eye(2) - np.linalg.inv(np.real(sqrtm(second))), abs=1e-4)


def test_observations_without_weight_have_no_say():
    random = np.random.default_rng(0)
    x = random.poisson(1.0, (24, 8, 6)).astype(float)
    x[12:] *= 5.0
    options = {"max_iter": 10, "random_state": 0, "finish": "none"}
    weighted = made(rp.RPGPFA, 1, **options).fit(x, sample_weight=np.repeat([1.0, 0.0], 12)).model_
    own = weighted.excess
    alone = excess_of(weighted, read_trials(x[:12]))
    assert own.mean == pytest.approx(alone.mean, abs=1e-6)
    assert weighted.temperature == found_temperature(weighted, read_trials(x[:12]))


def read_trials(x):
    return rp.read({"x": x}, series=True)


@pytest.mark.parametrize("kind", ["inputs", "mean"])
def test_what_is_driven_has_its_covariance_alone(kind):
    random = np.random.default_rng(0)
    x = {"x": random.standard_normal((8, 9, 3)), "y": random.standard_normal((8, 9, 3))}
    if kind == "inputs":
        u = 5.0 * random.standard_normal((8, 9, 1))
        posterior = made(rp.RPLDS, 1, max_iter=2, random_state=0, finish="none").fit(x, inputs=u).posterior(x, inputs=u)
    else:
        model = made(rp.RPGPFA, 1, max_iter=2, random_state=0, finish="none", mean=ConstantMean())
        posterior = model.fit(x).posterior(x)
    assert np.array_equal(posterior.uncertainty, posterior.covariance)


def test_bands_of_a_fit_are_wider_than_its_covariance():
    random = np.random.default_rng(0)
    z = random.standard_normal((40, 1))
    x = {"a": z + 0.1 * random.standard_normal((40, 3)), "b": -z + 0.1 * random.standard_normal((40, 3))}
    model = made(rp.RPFA, 1, max_iter=5, random_state=0, finish="none").fit(x)
    posterior = model.posterior(x)
    # Forty independent observations: 1/40 of the origin, m²/80 of the scale; and what the average q has beyond.
    mean, second = posterior.mean.mean(0), posterior.variance.mean(0) + posterior.mean.var(0)
    off = mean + (1.0 - second**-0.5) * (posterior.mean - mean)
    origin = np.square(1.0 - posterior.variance) / 40
    expected = posterior.variance + origin + np.square(posterior.mean) / 80 + np.square(off)
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
