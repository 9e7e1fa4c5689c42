"""Linear dynamics against the dense joint Gaussian over all sites and latents, in NumPy."""

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_normal

from oracles import dense_gaussian, gaussians
from oracles.dense_gaussian import assert_drawn_from, dynamics_posterior
from oracles.gaussians import as_numpy
from registry import sites_of
from rpmodels.carriers import Sites
from rpmodels.errors import BuildError, InputError, NumericalError
from rpmodels.families import Categorical, DiagonalGaussian, FullGaussian
from rpmodels.linalg import block_tridiagonal
from rpmodels.linalg.block_tridiagonal import by_halves, in_order
from rpmodels.priors import contraction, linear_dynamics
from rpmodels.priors.kalman import chained
from rpmodels.priors.linear_dynamics import LinearDynamicsPrior

DOUBLE = torch.float64
K = 2
LENGTHS = (1, 2, 3, 4, 7, 8, 9, 21)
WAYS = {"in order": in_order, "by halves": by_halves}


@pytest.fixture(params=WAYS.values(), ids=WAYS.keys())
def way(request, monkeypatch):
    """Both ways of smoothing, whatever the number of sites."""
    monkeypatch.setattr(linear_dynamics, "smoothed", request.param)
    return request.param


# ---- between the two ------------------------------------------------------------------------------


def random_potentials(n, length, size=K, **options):
    """h, W and the library's flat form."""
    return gaussians.random_potentials(FullGaussian(size), n, length, floor=0.0, **options)


def grid(n, length, lengths=None, step=1.0):
    return sites_of(lengths or [length] * n, length, start=3.0, step=step)


def driven(sites, u):
    return Sites(sites.times, sites.exists, u)


def prior_of(size=K, n_inputs=0, seed=1):
    """With dynamics that are neither symmetric nor normal."""
    prior = LinearDynamicsPrior(FullGaussian(size), n_inputs=n_inputs, memory=0.8, rotation=0.4).double()
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in prior.parameters():
            each.add_(0.5 * torch.randn(each.shape, generator=random, dtype=DOUBLE))
    return prior


def near(got, expected, tolerance=1e-8):
    got = as_numpy(got) if isinstance(got, torch.Tensor) else got
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def assert_is(posterior, n, expected, tolerance=1e-8):
    """Trial n has the dense moments, divergence and partition function."""
    length, size = expected.mean.shape
    mean, covariance = gaussians.normal(FullGaussian(size), posterior.eta[n, :length])
    near(mean, expected.mean, tolerance)
    near(covariance, expected.marginals(), tolerance)
    near(posterior.latent_mean[n, :length], expected.mean, tolerance)
    near(posterior.covariance[n, :length], expected.marginals(), tolerance)
    if length > 1:
        near(posterior.pairwise[n, : length - 1], expected.pairwise(), tolerance)
    second = expected.marginals() + expected.mean[:, :, None] * expected.mean[:, None]
    near(posterior.mu[n, :length], np.concatenate([expected.mean, second.reshape(length, -1)], -1), tolerance)
    near(posterior.kl[n], expected.kl, tolerance)
    near(posterior.log_partition[n], expected.log_partition, tolerance)


# ---- the dynamics ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 5])
def test_initial_dynamics_are_slow_and_turn_a_little(size):
    prior = LinearDynamicsPrior(FullGaussian(size), memory=0.95).double()
    a = as_numpy(prior.dynamics())
    near(a @ a.T, 0.95**2 * np.eye(size), 1e-6)
    near(prior.eigenvalues().abs(), 0.95 * np.ones(size), 1e-6)
    assert np.abs(a - 0.95 * np.eye(size)).max() < 0.2
    if size > 1:
        assert np.abs(a - a.T).max() > 0.02
        assert prior.eigenvalues().imag.abs().max() > 0.02


@pytest.mark.parametrize("size", [1, 2, 4])
def test_the_stationary_covariance_is_the_identity(size):
    for seed in range(5):
        prior = prior_of(size, seed=seed)
        a, q = as_numpy(prior.dynamics()), as_numpy(prior.noise())
        near(a @ a.T + q, np.eye(size), 1e-12)
        near(q, q.T, 1e-12)
        step = prior.transition()
        near(step.forward, np.linalg.solve(q, a))
        near(step.squared, a.T @ np.linalg.solve(q, a))
        near(step.log_det, -np.linalg.slogdet(q)[1])
        assert np.allclose(sorted(np.abs(np.linalg.eigvals(a)))[::-1], prior.eigenvalues().abs())


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e3, 1e15, 1e30])
def test_dynamics_are_always_a_strict_contraction(dtype, scale, generator):
    for rank in (1, 3):
        prior = LinearDynamicsPrior(FullGaussian(3)).to(dtype)
        columns = torch.randn(2, 3, rank, generator=generator, dtype=DOUBLE)
        with torch.no_grad():
            prior.raw.copy_((scale**0.5 * columns[0]) @ (scale**0.5 * columns[1]).mT)
        a, q = as_numpy(prior.dynamics()), as_numpy(prior.noise())
        assert np.linalg.svd(a)[1].max() < 1
        assert np.linalg.eigvalsh(q).min() > 1e-5
        near(a @ a.T + q, np.eye(3), 1e-5 if dtype == torch.float32 else 1e-9)
        (gradient,) = torch.autograd.grad(prior.dynamics().sum() + prior.noise().sum(), prior.raw)
        assert torch.isfinite(gradient).all()


def test_every_strict_contraction_is_reached():
    """V = A Lᵀ with LᵀL = (I − AᵀA)⁻¹, undone by hand."""
    random = np.random.default_rng(0)
    u, _, v = np.linalg.svd(random.standard_normal((3, 3)))
    a = u @ np.diag([0.99, 0.5, 0.01]) @ v
    flip = np.eye(3)[::-1]
    lower = flip @ np.linalg.cholesky(flip @ np.linalg.inv(np.eye(3) - a.T @ a) @ flip).T @ flip
    wanted = a @ lower.T
    prior = LinearDynamicsPrior(FullGaussian(3)).double()
    with torch.no_grad():
        prior.raw.copy_(torch.tensor(wanted / (1 - (wanted**2).sum() / (3 * contraction.LARGEST**2)) ** 0.5))
    near(prior.dynamics(), a)


# ---- smoothing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_posterior_is_the_dense_one(way, length, size):
    prior = prior_of(size)
    h, w, potentials = random_potentials(3, length, size)
    posterior = prior.condition(potentials, grid(3, length))
    for n in range(3):
        assert_is(posterior, n, dynamics_posterior(as_numpy(prior.dynamics()), h[n], w[n]))


@pytest.mark.parametrize("length", [2, 7, 40])
def test_as_chosen_by_itself(length):
    prior = prior_of()
    h, w, potentials = random_potentials(2, length)
    posterior = prior.condition(potentials, grid(2, length))
    for n in range(2):
        assert_is(posterior, n, dynamics_posterior(as_numpy(prior.dynamics()), h[n], w[n]))


@pytest.mark.parametrize("length", [*LENGTHS, 64, 301])
def test_both_ways_are_the_same(length):
    prior = prior_of(3)
    h, w, _ = random_potentials(4, length, 3)
    chain = chained(prior.transition(), torch.tensor(h), torch.tensor(w))
    for a, b in zip(in_order(chain), by_halves(chain), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


def test_unequal_lengths_and_gaps(way):
    """What pads holds anything at all, and changes nothing."""
    lengths, prior = [11, 4, 1, 8], prior_of()
    h, w, _ = random_potentials(4, 11)
    h[0, 3:7], w[0, 3:7] = 0, 0
    h[3, 0], w[3, 0] = 0, 0
    w[0, 9, :, 1] = w[0, 9, 1, :] = 0  # one latent seen alone
    potentials, sites = gaussians.potential(FullGaussian(K), h, w), grid(4, 11, lengths)
    potentials[~sites.exists] = torch.nan
    posterior = prior.condition(potentials, sites)
    for n, length in enumerate(lengths):
        assert_is(posterior, n, dynamics_posterior(as_numpy(prior.dynamics()), h[n, :length], w[n, :length]))
        alone = prior.condition(potentials[n : n + 1, :length], grid(1, length))
        near(posterior.eta[n, :length], as_numpy(alone.eta[0]))
    assert torch.isfinite(posterior.eta).all()


def test_beyond_the_end_are_forecasts(way):
    prior = prior_of()
    _, _, potentials = random_potentials(1, 9)
    posterior = prior.condition(potentials, grid(1, 9, [6]))
    forecast = prior.predict(posterior.latent_mean[:, 5], posterior.covariance[:, 5], 3)
    near(posterior.latent_mean[:, 6:], as_numpy(forecast.mean))
    near(posterior.covariance[:, 6:], as_numpy(forecast.covariance))


def test_nothing_seen_leaves_the_prior(way):
    prior = prior_of()
    posterior = prior.condition(torch.zeros(2, 10, K + K * K, dtype=DOUBLE), grid(2, 10))
    near(posterior.eta, np.broadcast_to(as_numpy(prior.reference(grid(2, 10), True)), posterior.eta.shape))
    near(posterior.kl, np.zeros(2))
    near(posterior.log_partition, np.zeros(2))
    near(posterior.pairwise[0], np.tile(as_numpy(prior.dynamics()), (9, 1, 1)))


def test_potentials_that_take_information_away(way):
    """Only the whole must be a distribution: here the past alone is none, and with more taken away nothing is."""
    prior = prior_of()
    a = as_numpy(prior.dynamics())
    h, w, _ = random_potentials(1, 9)
    w[0, 0], w[0, 1] = -1.1 * np.eye(K), 9 * np.eye(K)
    posterior = prior.condition(gaussians.potential(FullGaussian(K), h, w), grid(1, 9))
    assert_is(posterior, 0, dynamics_posterior(a, h[0], w[0]))
    with pytest.raises(NumericalError, match="a filtered precision"):
        prior.filter(gaussians.potential(FullGaussian(K), h, w), grid(1, 9))
    w[0, 4] = -100 * np.eye(K)
    with pytest.raises(NumericalError, match="the posterior precision of the linear dynamics"):
        prior.condition(gaussians.potential(FullGaussian(K), h, w), grid(1, 9))


def test_only_the_symmetric_part_counts(way):
    prior = prior_of()
    _, _, potentials = random_potentials(1, 5)
    tilted = potentials.clone()
    tilted[..., K + 1] += 0.3
    tilted[..., K + 2] -= 0.3
    near(prior.condition(tilted, grid(1, 5)).eta, as_numpy(prior.condition(potentials, grid(1, 5)).eta))


def test_one_latent_may_be_diagonal():
    raw = torch.randn(2, 6, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    diagonal, full = (
        LinearDynamicsPrior(family).double().condition(family.to_potential(raw), grid(2, 6))
        for family in (DiagonalGaussian(1), FullGaussian(1))
    )
    near(diagonal.eta, as_numpy(full.eta))
    near(diagonal.kl, as_numpy(full.kl))


# ---- inputs ---------------------------------------------------------------------------------------


def test_inputs_move_the_dense_mean(way):
    lengths, prior = [9, 5, 1], prior_of(n_inputs=3)
    h, w, potentials = random_potentials(3, 9)
    inputs = torch.tensor(np.random.default_rng(5).standard_normal((3, 9, 3)))
    drive = as_numpy(inputs) @ as_numpy(prior.inputs.B).T
    sites = grid(3, 9, lengths)
    inputs[~sites.exists] = torch.nan
    posterior = prior.condition(potentials, driven(sites, inputs))
    for n, length in enumerate(lengths):
        expected = dynamics_posterior(as_numpy(prior.dynamics()), h[n, :length], w[n, :length], drive[n, :length])
        assert_is(posterior, n, expected)
    assert torch.isfinite(posterior.eta).all()


def test_inputs_of_zero_are_none(way):
    prior = prior_of(n_inputs=2)
    _, _, potentials = random_potentials(2, 6)
    sites = grid(2, 6)
    with_zero = prior.condition(potentials, driven(sites, torch.zeros(2, 6, 2, dtype=DOUBLE)))
    alone = prior_of()
    alone.raw = prior.raw
    without = alone.condition(potentials, sites)
    near(without.eta, as_numpy(with_zero.eta))
    near(without.kl, as_numpy(with_zero.kl))


def test_inputs_start_without_effect_and_get_gradients():
    prior = LinearDynamicsPrior(FullGaussian(K), n_inputs=2).double()
    _, _, potentials = random_potentials(2, 6)
    inputs = torch.randn(2, 6, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    prior.condition(potentials, driven(grid(2, 6), inputs)).log_partition.sum().backward()
    assert (prior.inputs.B == 0).all()
    assert (prior.inputs.B.grad.abs() > 1e-3).all()


def test_other_inputs_are_refused():
    potentials, prior = random_potentials(2, 6)[2], prior_of(n_inputs=3)
    for sites, got in ((grid(2, 6), 0), (driven(grid(2, 6), torch.zeros(2, 6, 2)), 2)):
        with pytest.raises(InputError, match=f"inputs: expected 3 numbers at every time, as in training, got {got}"):
            prior.condition(potentials, sites)
        with pytest.raises(InputError, match="inputs: expected 3"):
            prior.filter(potentials, sites)


def test_inputs_step_by_step():
    """filter = step after step; the last site is the smoother's; predict goes on as more sites would."""
    prior, length = prior_of(n_inputs=2), 7
    potentials = random_potentials(3, length)[2]
    u = torch.tensor(np.random.default_rng(5).standard_normal((3, length, 2)))
    sites = driven(grid(3, length), u)
    filtered = prior.filter(potentials, sites)
    stepping = prior.filtering()
    state = stepping.begin(3)
    for t in range(length):
        along = stepping.along(None, u[:, t - 1] if t else 0.0 * u[:, 0])
        state = stepping.heard(stepping.moved(state, *along), potentials[:, t])
        mean, covariance = stepping.shown(state)
        near(mean, as_numpy(filtered.mean[:, t]))
        near(covariance, as_numpy(filtered.covariance[:, t]))
    mean, _ = prior.family.moments(prior.condition(potentials, sites).eta)
    near(filtered.mean[:, -1], as_numpy(mean[:, -1]))
    seen = torch.cat([potentials[:, :4], torch.zeros_like(potentials[:, 4:])], 1)
    ahead, _ = prior.family.moments(prior.condition(seen, sites).eta)
    forecast = prior.predict(filtered.mean[:, 3], filtered.covariance[:, 3], 3, u[:, 3:6])
    near(forecast.mean, as_numpy(ahead[:, 4:]))


def test_inputs_move_draws_of_the_prior(generator):
    prior = prior_of(n_inputs=1)
    u = torch.tensor([[3.0], [-2.0], [1.0]], dtype=DOUBLE)
    z = prior.sample(driven(grid(DRAWS, 3), u.expand(DRAWS, -1, -1)), generator)
    A, B = as_numpy(prior.dynamics()), as_numpy(prior.inputs.B)[:, 0]
    mean, covariance = dense_gaussian.linear_dynamics(A, 3)
    assert_drawn_from(z, np.stack([0 * B, 3 * B, A @ (3 * B) - 2 * B]) + mean, covariance)


# ---- gradients ------------------------------------------------------------------------------------


class Conditioned(torch.nn.Module):
    """What a posterior gives, as a function of potentials, inputs and every parameter of the prior."""

    def __init__(self, prior, sites):
        super().__init__()
        self.prior, self.sites = prior, sites

    def forward(self, potentials, inputs):
        posterior = self.prior.condition(potentials, driven(self.sites, inputs))
        return posterior.eta, posterior.mu, posterior.pairwise, posterior.kl, posterior.log_partition


@pytest.mark.parametrize("length", [1, 2, 3, 6])
def test_gradients_are_finite_differences(way, length):
    model = Conditioned(prior_of(n_inputs=1), grid(2, length, [length, 1]))
    names, values = zip(*model.named_parameters(), strict=True)
    potentials = random_potentials(2, length)[2].requires_grad_()
    inputs = torch.randn(2, length, 1, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))

    def function(potentials, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(model, given, (potentials, inputs))

    assert torch.autograd.gradcheck(function, (potentials, *values))


def test_gradients_are_those_of_the_dense_computation(way):
    """Through A alone: the derivative by the parameters is that by A, carried on."""
    prior, length = prior_of(), 13
    potentials = random_potentials(1, length)[2].requires_grad_()
    posterior = prior.condition(potentials, grid(1, length))
    value = posterior.kl.sum() + posterior.latent_mean.sin().sum() + posterior.covariance.cos().sum()
    got = torch.autograd.grad(value, [potentials, prior.raw])

    powers = [torch.eye(K, dtype=DOUBLE)]
    for _ in range(length - 1):
        powers.append(prior.dynamics() @ powers[-1])
    rows = [[powers[s - t] if s >= t else powers[t - s].mT for t in range(length)] for s in range(length)]
    whole = torch.cat([torch.cat(row, 1) for row in rows])
    h, w = potentials[0, :, :K], -2 * potentials[0, :, K:].reshape(length, K, K)
    precision = torch.linalg.inv(whole) + torch.block_diag(*(0.5 * (w + w.mT)))
    covariance = torch.linalg.inv(precision)
    mean = covariance @ h.reshape(-1)
    kl = 0.5 * torch.trace(torch.linalg.solve(whole, covariance + torch.outer(mean, mean)))
    kl = kl + 0.5 * (torch.logdet(whole) + torch.logdet(precision) - length * K)
    blocks = torch.stack([covariance[t * K : (t + 1) * K, t * K : (t + 1) * K] for t in range(length)])
    wanted = torch.autograd.grad(kl + mean.sin().sum() + blocks.cos().sum(), [potentials, prior.raw])
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-8)


def test_the_slope_of_the_partition_function_is_the_mean_parameter(way):
    potentials = random_potentials(3, 10)[2].requires_grad_()
    posterior = prior_of().condition(potentials, grid(3, 10))
    (slope,) = torch.autograd.grad(posterior.log_partition.sum(), potentials)
    near(slope, as_numpy(posterior.mu))


# ---- single precision -----------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0.9, 0.9995])
def test_float32_keeps_its_digits(way, memory):
    """Even for slow latents and weak, rare evidence, where precisions almost cancel."""
    _, _, potentials = random_potentials(2, 300, strength=0.01)
    potentials[:, torch.arange(300) % 10 > 0] = 0.0
    narrow = LinearDynamicsPrior(FullGaussian(K), memory=memory)
    wide = LinearDynamicsPrior(FullGaussian(K)).double()
    wide.load_state_dict(narrow.state_dict())
    rounded = potentials.float().requires_grad_()
    got = narrow.condition(rounded, grid(2, 300))
    wanted = wide.condition(rounded.detach().double(), grid(2, 300))
    for a, b in ((got.eta, wanted.eta), (got.mu, wanted.mu), (got.kl, wanted.kl)):
        assert a.dtype == torch.float32
        near(a, as_numpy(b), 1e-6)
    (got.eta.sum() + got.kl.sum()).backward()
    assert torch.isfinite(rounded.grad).all()
    assert torch.isfinite(narrow.raw.grad).all()
    seen = narrow.filter(rounded.detach(), grid(2, 300))
    z, log_ratio = got.draw(torch.Generator().manual_seed(0))
    for each in (*seen, z, log_ratio, narrow.sample(grid(2, 5), torch.Generator().manual_seed(0))):
        assert each.dtype == torch.float32
        assert torch.isfinite(each).all()


# ---- forwards in time -----------------------------------------------------------------------------


def test_filter_is_the_dense_posterior_of_what_was_seen():
    prior = prior_of()
    h, w, potentials = random_potentials(2, 8)
    mean, covariance = prior.filter(potentials, grid(2, 8, [8, 6]))
    assert mean.shape == (2, 8, K)
    assert covariance.shape == (2, 8, K, K)
    for n, length in enumerate([8, 6]):
        for t in range(length):
            expected = dynamics_posterior(as_numpy(prior.dynamics()), h[n, : t + 1], w[n, : t + 1])
            near(mean[n, t], expected.mean[-1])
            near(covariance[n, t], expected.marginals()[-1])


def test_the_future_does_not_change_the_filter():
    prior = prior_of()
    _, _, potentials = random_potentials(2, 8)
    other = potentials.clone()
    other[:, 5:] = random_potentials(2, 3, seed=9)[2]
    before, after = prior.filter(potentials, grid(2, 8)), prior.filter(other, grid(2, 8))
    for a, b in zip(before, after, strict=True):
        assert torch.equal(a[:, :5], b[:, :5])
        assert not torch.isclose(a[:, 5:], b[:, 5:]).any(-1).all()


def test_the_last_filtered_is_the_last_smoothed(way):
    prior = prior_of()
    _, _, potentials = random_potentials(2, 12)
    filtered, posterior = prior.filter(potentials, grid(2, 12)), prior.condition(potentials, grid(2, 12))
    near(filtered.mean[:, -1], as_numpy(posterior.latent_mean[:, -1]))
    near(filtered.covariance[:, -1], as_numpy(posterior.covariance[:, -1]))


def test_stepping_is_filtering():
    prior = prior_of()
    _, _, potentials = random_potentials(3, 10)
    potentials[:, 4:6] = 0.0
    filtered = prior.filter(potentials, grid(3, 10))
    stepping = prior.filtering()
    state = stepping.begin(3)
    for t in range(10):
        state = stepping.heard(stepping.moved(state, *stepping.along(None, None)), potentials[:, t])
        mean, covariance = stepping.shown(state)
        near(mean, as_numpy(filtered.mean[:, t]), 1e-12)
        near(covariance, as_numpy(filtered.covariance[:, t]), 1e-12)


def test_forecasts_are_the_dense_ones():
    prior = prior_of()
    h, w, potentials = random_potentials(2, 6)
    mean, covariance = prior.filter(potentials, grid(2, 6))
    forecast = prior.predict(mean[:, -1], covariance[:, -1], 4)
    assert forecast.mean.shape == (2, 4, K)
    for n in range(2):
        nothing = np.zeros((4, K)), np.zeros((4, K, K))
        both = (np.concatenate([seen[n], none]) for seen, none in zip((h, w), nothing, strict=True))
        expected = dynamics_posterior(as_numpy(prior.dynamics()), *both)
        near(forecast.mean[n], expected.mean[6:])
        near(forecast.covariance[n], expected.marginals()[6:])
    far = prior.predict(mean[:, -1], covariance[:, -1], 2000)
    near(far.mean[:, -1], np.zeros((2, K)), 1e-6)
    near(far.covariance[:, -1], np.tile(np.eye(K), (2, 1, 1)), 1e-6)


# ---- draws ----------------------------------------------------------------------------------------

DRAWS = 20000


def log_p_over_q(z, a, posterior, drive=None):
    points = as_numpy(z).reshape(len(z), -1)
    mean, covariance = dense_gaussian.linear_dynamics(a, z.shape[1], drive)
    log_p = multivariate_normal.logpdf(points, mean.ravel(), covariance.reshape(mean.size, -1))
    return log_p - multivariate_normal.logpdf(points, *posterior.flat())


@pytest.mark.parametrize("length", [1, 5])
def test_samples_of_the_prior(length, generator):
    prior = prior_of()
    z = prior.sample(grid(DRAWS, length), generator)
    assert z.shape == (DRAWS, length, K)
    assert_drawn_from(z, *dense_gaussian.linear_dynamics(as_numpy(prior.dynamics()), length))


@pytest.mark.parametrize("length", [1, 2, 5])
def test_draws_of_the_posterior_and_their_ratio(way, length, generator):
    prior = prior_of(n_inputs=1)
    h, w, potentials = random_potentials(1, length)
    inputs = torch.randn(1, length, 1, dtype=DOUBLE, generator=generator)
    drive = as_numpy(inputs)[0] @ as_numpy(prior.inputs.B).T
    sites = grid(DRAWS, length)
    posterior = prior.condition(
        potentials.expand(DRAWS, -1, -1).clone(), driven(sites, inputs.expand(DRAWS, -1, -1).clone())
    )
    z, log_ratio = posterior.draw(generator)
    expected = dynamics_posterior(as_numpy(prior.dynamics()), h[0], w[0], drive)
    assert_drawn_from(z, expected.mean, expected.covariance)
    near(log_ratio[:50], log_p_over_q(z[:50], as_numpy(prior.dynamics()), expected, drive))


def test_draws_ignore_what_pads(generator):
    prior = prior_of()
    h, w, potentials = random_potentials(1, 6)
    potentials[:, 4:] = torch.nan
    z, log_ratio = prior.condition(potentials, grid(1, 6, [4])).draw(generator)
    expected = dynamics_posterior(as_numpy(prior.dynamics()), h[0, :4], w[0, :4])
    near(log_ratio[0], log_p_over_q(z[:, :4], as_numpy(prior.dynamics()), expected))


# ---- the contract ---------------------------------------------------------------------------------


def test_the_rest_of_the_contract():
    prior = LinearDynamicsPrior(FullGaussian(3), n_inputs=2)
    assert prior.couples_sites
    assert prior.family == FullGaussian(3)
    assert (prior.latents, prior.n_inputs) == (3, 2)
    assert (prior.memory, prior.rotation) == (0.9, 0.05)
    assert prior.parameter_kl() == 0
    reference = prior.reference(grid(2, 4), shared=False)
    near(reference, np.concatenate([np.zeros(3), -0.5 * np.eye(3).ravel()])[None], 1e-7)
    raw = prior.raw.detach().clone()
    sites = driven(grid(2, 4), torch.zeros(2, 4, 2))
    prior.update(prior.sums(prior.condition(torch.zeros(2, 4, 12), sites), torch.ones(2)), 1.0)
    assert torch.equal(prior.raw, raw)


@pytest.mark.parametrize("step", [1e-9, 0.02, 1e6])
def test_any_unit_of_time(step):
    _, _, potentials = random_potentials(3, 9)
    prior, lengths = prior_of(), [9, 2, 1]
    near(
        prior.condition(potentials, grid(3, 9, lengths, step)).kl,
        as_numpy(prior.condition(potentials, grid(3, 9, lengths)).kl),
    )


def test_time_stamps_of_today():
    times = 1.7e9 + 0.02 * torch.arange(50, dtype=DOUBLE).expand(2, -1)
    prior_of().check_sites(Sites(times, torch.ones(2, 50, dtype=torch.bool)))


@pytest.mark.parametrize(
    "times", [[0.0, 1.0, 2.5, 3.5], [0.0, 1.0, 1.0, 2.0], [3.0, 2.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]]
)
def test_irregular_times_are_refused(times):
    sites = Sites(torch.tensor([[0.0, 1.0, 2.0, 3.0], times], dtype=DOUBLE), torch.ones(2, 4, dtype=torch.bool))
    _, _, potentials = random_potentials(2, 4)
    for function in (prior_of().condition, prior_of().filter):
        with pytest.raises(InputError, match=r"expected equally spaced, increasing times .*, got steps .* in trial 1"):
            function(potentials, sites)


def test_wrong_arguments_are_named():
    with pytest.raises(BuildError, match="Categorical"):
        LinearDynamicsPrior(Categorical(3))
    with pytest.raises(InputError, match=r"family: expected FullGaussian\(2\).*, got DiagonalGaussian"):
        LinearDynamicsPrior(DiagonalGaussian(2))
    with pytest.raises(InputError, match="memory"):
        LinearDynamicsPrior(FullGaussian(2), memory=1.0)
    with pytest.raises(InputError, match="n_inputs"):
        LinearDynamicsPrior(FullGaussian(2), n_inputs=-1)
    with pytest.raises(InputError, match="steps"):
        prior_of().predict(torch.zeros(1, K), torch.eye(K)[None], 0)


def test_short_trials_go_in_order(monkeypatch):
    used = []
    for name, function in (("in_order", in_order), ("by_halves", by_halves)):
        monkeypatch.setattr(
            block_tridiagonal, name, lambda chain, name=name, function=function: used.append(name) or function(chain)
        )
    prior = prior_of()
    for length in (block_tridiagonal.SHORT, block_tridiagonal.SHORT + 1):
        prior.condition(random_potentials(1, length)[2], grid(1, length))
    assert used[0] == "in_order"
    assert set(used[1:]) == {"by_halves"}
