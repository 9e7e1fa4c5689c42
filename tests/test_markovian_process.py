"""Markovian processes against the dense joint Gaussian over all sites and latents, in NumPy and SciPy."""

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, RQKernel
from scipy.integrate import quad_vec
from scipy.linalg import expm
from scipy.stats import multivariate_normal

import rpmodels.kernels as compiled
from oracles import gaussians
from oracles.dense_gaussian import assert_drawn_from, gaussian_processes, process_posterior
from oracles.differences import central_difference
from oracles.gaussians import as_numpy, mean_parameter, normal, random_potentials
from oracles.kernels import matern12, matern32, matern52
from registry import bound, markovian_prior, sites_of
from rpmodels import memory
from rpmodels.carriers import Sites
from rpmodels.errors import BuildError
from rpmodels.families import Categorical, DiagonalGaussian, FullGaussian
from rpmodels.priors import GaussianProcessPrior, MarkovianProcessPrior, matern
from rpmodels.priors.conditioned_chain import ConditionedStretches, ConditionedWhole

DOUBLE = torch.float64
LENGTHS = (2.0, 0.7)
KERNELS = {0.5: matern12, 1.5: matern32, 2.5: matern52}
FAMILIES = {"diagonal": DiagonalGaussian(2), "full": FullGaussian(2)}
smoothness = pytest.mark.parametrize("nu", KERNELS)
families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


def clock(*trials, longest=None):
    """Sites of trials at these times, padded."""
    longest = longest or max(map(len, trials))
    times, exists = np.zeros((len(trials), longest)), np.zeros((len(trials), longest), bool)
    for n, each in enumerate(trials):
        times[n, : len(each)], exists[n, : len(each)] = each, True
    return Sites(torch.tensor(times), torch.tensor(exists))


def irregular(length, seed=0, step=1.0):
    return np.cumsum(np.random.default_rng(seed).gamma(0.5, 2 * step, length)) + 3.0


def moderate(length, seed=0):
    """Steps for which a dense covariance is no worse than the chain."""
    return np.cumsum(np.random.default_rng(seed).uniform(0.4, 1.2, length))


def kernels(nu, lengths=LENGTHS):
    return [KERNELS[nu](each) for each in lengths]


def exactly(family, nu=2.5, lengths=LENGTHS):
    """In double precision, length scales to all their digits."""
    prior = markovian_prior(family, nu, lengths).double()
    prior.set_length_scales(torch.tensor(lengths, dtype=DOUBLE))
    return prior


def near(got, expected, tolerance=1e-8):
    np.testing.assert_allclose(as_numpy(got), as_numpy(expected), rtol=tolerance, atol=tolerance)


def assert_is(posterior, family, n, expected, where=None, tolerance=1e-8):
    """The sites of trial n have the dense moments, divergence and partition function."""
    where = np.arange(len(expected.mean)) if where is None else where
    mean, covariance = normal(family, posterior.eta[n, where])
    near(mean, expected.mean, tolerance)
    near(covariance, expected.marginals(), tolerance)
    near(posterior.latent_mean[n, where], expected.mean, tolerance)
    near(posterior.mu[n, where], mean_parameter(family, expected.mean, expected.marginals()), tolerance)
    near(posterior.kl[n], expected.kl, tolerance)
    near(posterior.log_partition[n], expected.log_partition, tolerance)


# ---- kernels --------------------------------------------------------------------------------------


@smoothness
@pytest.mark.parametrize("x", [1e-3, 0.1, 1.0, 7.0])
def test_steps_are_those_of_the_differential_equation(nu, x):
    """The companion matrix of (s + 1)ᵖ driven by white noise that makes Var z = 1, integrated numerically."""
    order = int(nu + 0.5)
    drift = np.eye(order, k=1)
    drift[-1] = [-1.0] if order == 1 else [-1.0, -2.0] if order == 2 else [-1.0, -3.0, -3.0]

    def blown(s):
        column = expm(drift * s)[:, -1:]
        return column @ column.T

    strength = 1.0 / quad_vec(blown, 0, 60, epsabs=1e-13)[0][0, 0]
    steps = matern.steps(order, torch.tensor(x, dtype=DOUBLE))
    near(steps.A, expm(drift * x), 1e-12)
    noise = strength * quad_vec(blown, 0, x, epsabs=0, epsrel=1e-13)[0]
    np.testing.assert_allclose(as_numpy(steps.Q), noise, rtol=1e-8)


@smoothness
def test_short_steps_keep_all_their_digits(nu):
    """The noise of a short step is q x^(i+j+1)/((i+j+1) i! j!) with i, j how often it was integrated."""
    order, x = int(nu + 0.5), 1e-7
    noise = as_numpy(matern.steps(order, torch.tensor(x, dtype=DOUBLE)).Q)
    strength = {1: 2.0, 2: 4.0, 3: 16.0 / 3.0}[order]
    power = np.arange(order)[::-1]
    total, factorial = power[:, None] + power, np.array([1.0, 1.0, 2.0])[power]
    expected = strength * x ** (total + 1.0) / ((total + 1.0) * factorial[:, None] * factorial)
    np.testing.assert_allclose(noise, expected, rtol=1e-5)


@smoothness
def test_covariances_are_the_kernels(nu):
    prior = exactly(FullGaussian(2), nu)
    times, kept = torch.tensor(irregular(12)), torch.tensor([9, 0, 4, 5])
    near(prior.covariances(times, kept), gaussian_processes(kernels(nu), as_numpy(times)[kept]).transpose(0, 2, 1, 3))


# ---- smoothing ------------------------------------------------------------------------------------


@smoothness
@families
@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 40])
def test_posterior_is_the_dense_one_on_any_clock(nu, family, length):
    prior, t = exactly(family, nu), irregular(length)
    h, w, potentials = random_potentials(family, 2, length, floor=0.0)
    posterior = prior.condition(potentials, clock(t, t))
    for n in range(2):
        assert_is(posterior, family, n, process_posterior(kernels(nu), t, h[n], w[n]))


@smoothness
@families
def test_unequal_trials_gaps_and_padding(nu, family):
    lengths, prior = (23, 1, 9, 16), exactly(family, nu)
    trials = [irregular(length, seed=n) for n, length in enumerate(lengths)]
    h, w, potentials = random_potentials(family, 4, 23)
    h[0, 3:11], w[0, 3:11] = 0, 0
    potentials = gaussians.potential(family, h, w)
    sites = clock(*trials)
    potentials[~sites.exists] = torch.nan
    posterior = prior.condition(potentials, sites)
    for n, (t, length) in enumerate(zip(trials, lengths, strict=True)):
        assert_is(posterior, family, n, process_posterior(kernels(nu), t, h[n, :length], w[n, :length]))
    assert all(torch.isfinite(each).all() for each in (posterior.eta, posterior.mu, posterior.kl))


@families
def test_one_grid_with_missing_ends_is_as_every_trial_alone(family):
    prior, sites = exactly(family), sites_of([9, 4, 6], 11, start=2.0, step=0.3)
    h, w, potentials = random_potentials(family, 3, 11)
    posterior = prior.condition(potentials, sites)
    for n, length in enumerate((9, 4, 6)):
        t = as_numpy(sites.times[n, :length])
        assert_is(posterior, family, n, process_posterior(kernels(2.5), t, h[n, :length], w[n, :length]))


@families
def test_sites_in_any_order_with_holes_and_twice_the_same_time(family):
    prior = exactly(family, 1.5)
    times = np.array([4.0, 1.0, 9.0, 2.5, 2.5, 7.0])
    sites = Sites(torch.tensor(times)[None], torch.tensor([[True, True, False, True, True, True]]))
    h, w, potentials = random_potentials(family, 1, 6)
    here = np.array([0, 1, 3, 4, 5])
    expected = process_posterior(kernels(1.5), times[here], h[0, here], w[0, here])
    assert_is(prior.condition(potentials, sites), family, 0, expected, here)


@smoothness
@pytest.mark.parametrize("length", [30.0, 3000.0, 3e5])
def test_slow_latents_keep_their_digits(nu, length):
    """The noise of a step of 1/3000 length scales is 1e-17: as a precision it would leave nothing of the rest."""
    family = DiagonalGaussian(2)
    prior, t = exactly(family, nu, (length, 2 * length)), np.arange(150.0)
    h, w, potentials = random_potentials(family, 1, 150)
    expected = process_posterior(kernels(nu, (length, 2 * length)), t, h[0], w[0])
    assert_is(prior.condition(potentials, clock(t)), family, 0, expected)


@smoothness
@families
def test_predictions_at_other_times_are_the_dense_ones(nu, family):
    prior, t, new = exactly(family, nu), irregular(9), np.array([30.0, 4.0, 5.5, 0.0])
    new[1] = t[3]
    h, w, potentials = random_potentials(family, 1, 9)
    there = prior.condition(potentials, clock(t)).at(clock(new))
    expected = process_posterior(kernels(nu), t, h[0], w[0], new=new)
    mean, covariance = normal(family, there.eta[0])
    near(mean, expected.mean[9:])
    near(covariance, expected.marginals()[9:])
    near(there.latent_mean[0], expected.mean[9:])
    near(there.mu[0], mean_parameter(family, expected.mean[9:], expected.marginals()[9:]))
    near(there.kl[0], expected.kl)


@smoothness
@families
@pytest.mark.parametrize("length", [1, 2, 5, 12])
def test_the_filter_knows_the_past_and_the_present(nu, family, length):
    prior, trials = exactly(family, nu), [irregular(length), irregular(length, seed=1)[: length // 2 + 1]]
    h, w, potentials = random_potentials(family, 2, length, floor=0.0)
    got = prior.filter(potentials, clock(*trials))
    for n, t in enumerate(trials):
        for last in range(len(t)):
            past = slice(last + 1)
            expected = process_posterior(kernels(nu), t[past], h[n, past], w[n, past])
            near(got.mean[n, last], expected.mean[last])
            near(got.covariance[n, last], expected.marginals()[last])


@smoothness
@families
def test_stepping_is_filtering_whatever_the_steps(nu, family):
    prior, times = exactly(family, nu), [irregular(9), irregular(9, seed=1)]
    times[0][4] = times[0][3]  # two at one time
    h, w, potentials = random_potentials(family, 2, 9, floor=0.0)
    potentials[:, 2] = 0.0
    stepping = prior.filtering()
    state = stepping.begin(2)
    for t in range(9):
        elapsed = np.array([each[t] - each[t - 1] if t else 1.0 for each in times])
        state = stepping.heard(stepping.moved(state, *stepping.along(elapsed, None)), potentials[:, t])
    mean, covariance = stepping.shown(state)
    for n, (each, said) in enumerate(zip(times, w, strict=True)):
        each[4] += 1e-9 * (n == 0)  # for the dense matrix
        h[n, 2], said[2] = 0.0, 0.0
        expected = process_posterior(kernels(nu), each, h[n], said)
        near(mean[n], expected.mean[-1], 1e-6)
        near(covariance[n], expected.marginals()[-1], 1e-6)


@smoothness
def test_the_sparse_process_with_every_time_is_the_same(nu):
    family, t = FullGaussian(2), irregular(11)
    prior = exactly(family, nu)
    sparse = GaussianProcessPrior(family, prior.kernel, torch.tensor(t)).double()
    _, _, potentials = random_potentials(family, 3, 11)
    ours, theirs = (each.condition(potentials, clock(t, t, t)) for each in (prior, sparse))
    for name in ("eta", "mu", "kl"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-5, atol=1e-5)


# ---- draws and densities --------------------------------------------------------------------------


@families
def test_joint_draws_have_the_dense_moments(family, generator):
    prior, t, n = exactly(family), irregular(6), 4000
    h, w, potentials = random_potentials(family, 1, 6)
    posterior = prior.condition(potentials.expand(n, -1, -1), clock(*[t] * n))
    expected = process_posterior(kernels(2.5), t, h[0], w[0])
    z, log_ratio = posterior.draw(generator)
    assert_drawn_from(z, expected.mean, expected.covariance)
    flat = as_numpy(z[:5]).reshape(5, -1)
    before = gaussian_processes(kernels(2.5), t).reshape(12, 12)
    q = multivariate_normal(*expected.flat()).logpdf(flat)
    near(log_ratio[:5], multivariate_normal(np.zeros(12), before).logpdf(flat) - q, 1e-6)
    assert_drawn_from(prior.sample(clock(*[t] * n), generator), np.zeros(12), before)


@smoothness
def test_log_density_is_the_dense_one(nu, generator):
    prior, trials = exactly(FullGaussian(2), nu), [moderate(9), moderate(1), moderate(5, 3)]
    z = torch.randn(4, 3, 9, 2, generator=generator, dtype=DOUBLE)
    got = prior.log_density(z, clock(*trials))
    for n, t in enumerate(trials):
        covariance = gaussian_processes(kernels(nu), t).reshape(2 * len(t), -1)
        flat = as_numpy(z[:, n, : len(t)]).reshape(4, -1)
        near(got[:, n], multivariate_normal(np.zeros(2 * len(t)), covariance).logpdf(flat), 1e-8)
    shuffled = torch.tensor([4, 0, 2, 1, 3])
    again = clock(trials[2])
    again = Sites(again.times[:, shuffled], again.exists)
    near(prior.log_density(z[:, 2:, :5][:, :, shuffled], again)[:, 0], got[:, 2])


# ---- gradients ------------------------------------------------------------------------------------


@smoothness
@families
def test_gradients_are_finite_differences(nu, family, generator):
    prior, t = exactly(family, nu), moderate(13)
    sites = clock(t, t[:6] ** 1.1)
    _, _, potentials = random_potentials(family, 2, 13)
    z = torch.randn(2, 13, 2, generator=generator, dtype=DOUBLE)
    weights = torch.randn(2, 13, family.natural_size, generator=generator, dtype=DOUBLE)

    def value():
        posterior = prior.condition(potentials, sites)
        seen = torch.where(sites.exists[..., None], weights * (posterior.mu + posterior.eta.tanh()), 0.0)
        return seen.sum() + posterior.kl.sum() + prior.log_density(z, sites).sum()

    potentials.requires_grad_()
    raw = prior.kernel.raw_lengthscale
    value().backward()
    for values, places in ((raw, [(0, 0, 0), (1, 0, 0)]), (potentials, [(0, 4, 0), (1, 5, -1), (0, 12, 2)])):
        for place in places:
            found = central_difference(value, values.data, place, 1e-5)
            assert found == pytest.approx(float(values.grad[place]), rel=1e-6, abs=1e-7)


def test_gradients_of_slow_latents_are_finite_differences():
    family = DiagonalGaussian(2)
    prior, t = exactly(family, 2.5, (500.0, 4000.0)), np.arange(400.0)
    _, _, potentials = random_potentials(family, 1, 400)
    raw, sites = prior.kernel.raw_lengthscale, clock(t)

    def value():
        return prior.condition(potentials, sites).log_partition.sum()

    value().backward()
    for place in ((0, 0, 0), (1, 0, 0)):
        found = central_difference(value, raw.data, place, 1e-3 * float(raw.data[place]))
        assert found == pytest.approx(float(raw.grad[place]), rel=1e-5)


@families
def test_what_conditioning_gives_is_the_best(family):
    """Σ⟨g·t⟩ − KL is log ∫ p(Z) exp(Σ g·t)."""
    prior, t = exactly(family), irregular(9)
    _, _, potentials = random_potentials(family, 2, 9)
    posterior = prior.condition(potentials, clock(t, t))
    near(bound(posterior, potentials, clock(t, t)), posterior.log_partition)


# ---- long chains, single precision ----------------------------------------------------------------


@smoothness
def test_a_long_chain_in_single_precision_stays_near_double(nu):
    length, family = 20_000, DiagonalGaussian(2)
    wide = exactly(family, nu, (2000.0, 15.0))
    narrow = markovian_prior(family, nu, (2000.0, 15.0))
    sites = clock(np.arange(float(length)))
    _, _, potentials = random_potentials(family, 1, length, strength=0.1)
    exact, rounded = (
        each.condition(potentials.to(kind), sites) for each, kind in ((wide, DOUBLE), (narrow, torch.float32))
    )
    assert rounded.mu.dtype == torch.float32
    for name in ("eta", "mu", "kl", "log_partition"):
        got, expected = getattr(rounded, name).double(), getattr(exact, name)
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)
    (rounded.kl.sum() + rounded.mu.sum()).backward()
    (exact.kl.sum() + exact.mu.sum()).backward()
    torch.testing.assert_close(
        narrow.kernel.raw_lengthscale.grad.double(), wide.kernel.raw_lengthscale.grad, rtol=1e-3, atol=1e-3
    )


# ---- stretch by stretch ---------------------------------------------------------------------------


@pytest.fixture
def in_torch():
    with compiled.switched(on=False):
        yield


def asked(prior, potentials, sites):
    """All that a posterior is asked for, and gradients by potentials and length scales."""
    given = potentials.clone().requires_grad_()
    posterior = prior.condition(given, sites)
    found = {"eta": posterior.eta, "mu": posterior.mu, "kl": posterior.kl}
    found |= {"filtered mean": posterior.filtered.mean, "filtered covariance": posterior.filtered.covariance.flatten(2)}
    weight = torch.linspace(-1.0, 1.0, posterior.mu.numel(), dtype=DOUBLE).reshape(posterior.mu.shape)
    there = sites.exists[..., None]
    value = posterior.kl.sum() + torch.where(there, weight * posterior.mu, 0.0).sum()
    value = value + torch.where(there, found["filtered mean"].tanh(), 0.0).sum()
    found["by potentials"], found["by scales"] = torch.autograd.grad(value, [given, prior.kernel.raw_lengthscale])
    seen = {name: torch.where(there, each, 0.0) for name, each in found.items() if each.shape[:2] == sites.exists.shape}
    return {**found, **seen}


@smoothness
@families
@pytest.mark.parametrize("lengths", [(32,), (33, 32, 5), (100, 47), (129, 129)])
@pytest.mark.usefixtures("in_torch")
def test_stretch_by_stretch_is_the_same(nu, family, lengths, monkeypatch):
    trials = [irregular(length, seed=n) for n, length in enumerate(lengths)]
    sites, prior = clock(*trials), exactly(family, nu)
    _, _, potentials = random_potentials(family, len(trials), max(lengths))
    expected = asked(prior, potentials, sites)
    assert isinstance(prior.condition(potentials, sites).chain, ConditionedWhole)
    for budget in (1, 200_000):
        monkeypatch.setattr(memory, "BUDGET", budget)
        for name, got in asked(prior, potentials, sites).items():
            near(got.detach(), expected[name].detach(), 1e-7)
    monkeypatch.setattr(memory, "BUDGET", 1)
    assert isinstance(prior.condition(potentials, sites).chain, ConditionedStretches)


@pytest.mark.usefixtures("in_torch")
def test_draws_stretch_by_stretch_have_the_dense_moments(monkeypatch, generator):
    monkeypatch.setattr(memory, "BUDGET", 1)
    prior, t, n = exactly(DiagonalGaussian(2), 1.5), moderate(40), 2000
    h, w, potentials = random_potentials(prior.family, 1, 40)
    z, log_ratio = prior.condition(potentials.expand(n, -1, -1), clock(*[t] * n)).draw(generator)
    expected = process_posterior(kernels(1.5), t, h[0], w[0])
    assert_drawn_from(z, expected.mean, expected.covariance)
    before = gaussian_processes(kernels(1.5), t).reshape(80, 80)
    flat = as_numpy(z[:5]).reshape(5, -1)
    q = multivariate_normal(*expected.flat()).logpdf(flat)
    near(log_ratio[:5], multivariate_normal(np.zeros(80), before, allow_singular=True).logpdf(flat) - q, 1e-5)


# ---- what it is -----------------------------------------------------------------------------------


def test_length_scales_are_in_the_users_time():
    kernel = MaternKernel(nu=1.5, batch_shape=torch.Size([2]))
    prior = MarkovianProcessPrior(DiagonalGaussian(2), kernel, time_scale=0.25, time_origin=7.0).double()
    prior.set_length_scales(torch.tensor([3.0, 5.0]))
    near(prior.length_scales(), [3.0, 5.0], 1e-6)
    prior.stretch(2.0)
    near(prior.length_scales(), [6.0, 10.0], 1e-6)
    t = irregular(6)
    h, w, potentials = random_potentials(DiagonalGaussian(2), 1, 6)
    lengths = as_numpy(prior.length_scales())
    assert_is(
        prior.condition(potentials, clock(t)), prior.family, 0, process_posterior(kernels(1.5, lengths), t, h[0], w[0])
    )


@families
def test_the_reference_is_standard_normal(family):
    prior, sites = markovian_prior(family), sites_of([3, 2])
    expected = gaussians.natural(family, np.zeros((3, 2)), np.broadcast_to(np.eye(2), (3, 2, 2)))
    near(prior.reference(sites, shared=False), expected, 1e-6)
    near(prior.reference(sites, shared=True), expected[:1], 1e-6)


def test_what_is_no_markovian_process_is_refused():
    with pytest.raises(BuildError, match="Gaussian latents"):
        MarkovianProcessPrior(Categorical(3), MaternKernel(nu=0.5))
    with pytest.raises(BuildError, match="no chain"):
        MarkovianProcessPrior(DiagonalGaussian(2), RQKernel())
    with pytest.raises(BuildError, match="batch"):
        MarkovianProcessPrior(DiagonalGaussian(2), MaternKernel(nu=0.5, batch_shape=torch.Size([3])))
