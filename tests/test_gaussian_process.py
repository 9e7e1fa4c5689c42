"""Gaussian-process priors against dense algebra in NumPy and SciPy: textbook GP regression."""

from itertools import product

import numpy as np
import pytest
import torch
from gpytorch.kernels import LinearKernel, MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from gpytorch.means import ConstantMean, LinearMean
from scipy.linalg import block_diag

from oracles import gaussians
from oracles.dense_gaussian import (
    Dense,
    assert_drawn_from,
    gaussian_processes,
    process_posterior,
    projection,
    sites_first,
    spread_out,
)
from oracles.gaussians import mean_parameter, normal, potential, random_potentials
from oracles.kernels import linear, matern12, matern32, matern52, periodic, plus, rbf, scaled, times
from registry import bound
from rpmodels import linalg
from rpmodels.carriers import Sites
from rpmodels.errors import BuildError
from rpmodels.families import Categorical, DiagonalGaussian, FullGaussian
from rpmodels.priors import GaussianProcessPrior, InducingState
from rpmodels.priors.conditioning import conditioned

DOUBLE = torch.float64
K = 2
TWO = torch.Size([K])
TIMES = np.array([0.0, 0.8, 1.3, 2.4, 3.1, 4.5, 5.0])
LENGTHS, SCALES, PERIODS = (0.7, 1.4), (0.5, 3.0), (4.3, 7.1)
FAMILIES = {"diagonal": DiagonalGaussian(K), "full": FullGaussian(K)}
families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())


# ---- kernels and means, twice ---------------------------------------------------------------------


def column(values):
    return torch.tensor(values, dtype=DOUBLE)[:, None, None]


def with_lengths(kernel, lengths=LENGTHS):
    kernel.double().lengthscale = column(lengths)
    return kernel


def with_scales(kernel, scales=SCALES):
    made = ScaleKernel(kernel, batch_shape=torch.Size([len(scales)])).double()
    made.outputscale = torch.tensor(scales, dtype=DOUBLE)
    return made


def two_rbf(lengths=LENGTHS):
    return with_lengths(RBFKernel(batch_shape=TWO), lengths)


def two_matern(nu):
    return with_lengths(MaternKernel(nu=nu, batch_shape=TWO))


def two_periodic():
    kernel = with_lengths(PeriodicKernel(batch_shape=TWO))
    kernel.period_length = column(PERIODS)
    return kernel


def two_linear():
    kernel = LinearKernel(batch_shape=TWO).double()
    kernel.variance = column(SCALES)
    return kernel


def each(make, *values):
    return [make(*one) for one in zip(*values, strict=True)]


KERNELS = {
    "rbf": (two_rbf, each(rbf, LENGTHS)),
    "one for all": (lambda: with_lengths(RBFKernel(), LENGTHS[:1]), [rbf(LENGTHS[0])] * K),
    "matern12": (lambda: two_matern(0.5), each(matern12, LENGTHS)),
    "matern32": (lambda: two_matern(1.5), each(matern32, LENGTHS)),
    "matern52": (lambda: two_matern(2.5), each(matern52, LENGTHS)),
    "periodic": (two_periodic, each(periodic, LENGTHS, PERIODS)),
    "scale": (lambda: with_scales(two_rbf()), each(scaled, SCALES, each(rbf, LENGTHS))),
    "sum": (lambda: two_rbf() + two_matern(1.5), each(plus, each(rbf, LENGTHS), each(matern32, LENGTHS))),
    "product": (
        lambda: with_scales(two_rbf() * two_periodic()),
        each(scaled, SCALES, each(times, each(rbf, LENGTHS), each(periodic, LENGTHS, PERIODS))),
    ),
    "not stationary": (lambda: two_rbf() + two_linear(), each(plus, each(rbf, LENGTHS), each(linear, SCALES))),
}


def constant_mean():
    mean = ConstantMean(batch_shape=TWO).double()
    mean.constant = torch.tensor([0.7, -1.2], dtype=DOUBLE)
    return mean


def linear_mean():
    mean = LinearMean(1, batch_shape=TWO).double()
    with torch.no_grad():
        mean.weights.copy_(column([0.4, -0.3]))
        mean.bias.copy_(column([-1.0, 0.6])[..., 0])
    return mean


def no_mean(t):
    return np.zeros((K, len(t)))


def straight(t):
    return np.stack([0.4 * t - 1.0, 0.6 - 0.3 * t])


MEANS = {
    "no mean": (lambda: None, no_mean),
    "constant": (constant_mean, lambda t: np.tile([[0.7], [-1.2]], len(t))),
    "linear": (linear_mean, straight),
}


# ---- between the two ------------------------------------------------------------------------------


def at_times(t, exists=None):
    t = torch.as_tensor(np.array(t), dtype=DOUBLE)
    return Sites(t, torch.ones_like(t, dtype=torch.bool) if exists is None else torch.as_tensor(exists))


def common(t, n):
    return at_times(np.tile(t, (n, 1)))


def prior_of(family, kernel, places, **options):
    return GaussianProcessPrior(family, kernel, torch.as_tensor(np.array(places)), **options).double()


def assert_near(got, expected, tolerance=1e-6):
    got = got.detach().numpy() if isinstance(got, torch.Tensor) else got
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def assert_is(posterior, n, expected, tolerance=1e-6):
    """Trial n has the dense moments and divergence."""
    size = len(expected.mean)
    mean, covariance = normal(posterior.prior.family, posterior.eta[n, :size])
    assert_near(mean, expected.mean, tolerance)
    assert_near(covariance, expected.marginals(), tolerance)
    assert_near(posterior.latent_mean[n, :size], expected.mean, tolerance)
    mu = mean_parameter(posterior.prior.family, expected.mean, expected.marginals())
    assert_near(posterior.mu[n, :size], mu, tolerance)
    assert_near(posterior.kl[n], expected.kl, tolerance)


def same(first, second, tolerance=1e-9):
    for a, b in ((first.eta, second.eta), (first.mu, second.mu), (first.kl, second.kl)):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


# ---- exact: as many inducing points as times ------------------------------------------------------


def assert_exact(family, kernel, kernels, n=3, t=TIMES, mean=None, dense_mean=no_mean, places=TIMES):
    prior = prior_of(family, kernel, places, mean=mean)
    h, w, potentials = random_potentials(family, n, len(t))
    sites = common(t, n)
    posterior = prior.condition(potentials, sites)
    value = bound(posterior, potentials, sites)
    for trial in range(n):
        expected = process_posterior(kernels, t, h[trial], w[trial], dense_mean)
        assert_is(posterior, trial, expected)
        assert_near(value[trial], expected.log_partition)


@families
@pytest.mark.parametrize("n", [1, 3, 9])
def test_exact_posterior_divergence_and_partition_function(family, n):
    assert_exact(family, two_rbf(), each(rbf, LENGTHS), n)


@families
@pytest.mark.parametrize(("kernel", "kernels"), KERNELS.values(), ids=KERNELS.keys())
def test_any_kernel(family, kernel, kernels):
    assert_exact(family, kernel(), kernels)


@families
@pytest.mark.parametrize(("mean", "dense_mean"), MEANS.values(), ids=MEANS.keys())
@pytest.mark.parametrize("n", [3, 9])
def test_any_mean(family, mean, dense_mean, n):
    assert_exact(family, two_rbf(), each(rbf, LENGTHS), n, mean=mean(), dense_mean=dense_mean)


@families
@pytest.mark.parametrize("name", ["rbf", "scale", "sum", "product", "not stationary", "periodic"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_as_many_times_as_latents_and_one_more_or_less(family, name, size):
    kernel, kernels = KERNELS[name]
    assert_exact(family, kernel(), kernels, t=TIMES[1 : 1 + size], places=TIMES[1 : 1 + size])


@families
@pytest.mark.parametrize("name", ["rbf", "one for all", "product", "not stationary"])
def test_places_per_latent(family, name):
    """In any order, and more of them than times."""
    kernel, kernels = KERNELS[name]
    places = np.stack([np.append(TIMES, 6.1), np.append(TIMES[::-1], -1.0)])
    assert_exact(family, kernel(), kernels, places=places)


def test_full_family_is_the_diagonal_one_without_off_diagonals():
    h, w, _ = random_potentials(FAMILIES["diagonal"], 4, len(TIMES))
    places, sites = [0.5, 2.0, 4.0], common(TIMES, 4)
    full, diagonal = (
        prior_of(family, two_rbf(), places, mean=linear_mean()).condition(potential(family, h, w), sites)
        for family in (FAMILIES["full"], FAMILIES["diagonal"])
    )
    for a, b in zip(*(normal(each.prior.family, each.eta) for each in (full, diagonal)), strict=True):
        assert_near(a, b, 1e-9)
    assert_near(full.kl, diagonal.kl.detach().numpy(), 1e-9)


# ---- sparse: fewer inducing points than times -----------------------------------------------------

PLACES = np.array([[0.3, 2.1, 4.4], [-0.2, 2.0, 4.9]])


def sparse_bound(mean, covariance, a, rest, m, h, w):
    """−KL(q(v)‖p(v)) + Σ⟨g·t⟩ as PyTorch can differentiate it."""
    kl = 0.5 * (torch.trace(covariance) + mean @ mean - len(mean) - torch.logdet(covariance))
    z = m + a.T @ mean
    return h @ z - 0.5 * (w * (a.T @ covariance @ a + rest + torch.outer(z, z))).sum() - kl


def flat_state(state, n):
    blocks = state.covariance[n].detach().numpy()
    return state.mean[n].detach().reshape(-1), torch.tensor(block_diag(*blocks))


@families
@pytest.mark.parametrize("n", [1, 5])
def test_sparse_state_is_the_maximiser(family, n):
    kernels = each(rbf, LENGTHS)
    prior = prior_of(family, two_rbf(), PLACES, mean=linear_mean())
    h, w, potentials = random_potentials(family, n, len(TIMES))
    sites = common(TIMES, n)
    posterior = prior.condition(potentials, sites)
    a, rest = projection(kernels, PLACES, TIMES)
    value = bound(posterior, potentials, sites)
    random = torch.Generator().manual_seed(0)
    for trial in range(n):
        numbers = (a, rest, straight(TIMES).ravel(), h[trial].T.ravel(), spread_out(w[trial]))
        terms = [torch.tensor(each) for each in numbers]
        mean, covariance = (part.requires_grad_() for part in flat_state(posterior.state, trial))
        best = sparse_bound(mean, covariance, *terms)
        assert_near(value[trial], best.detach().numpy())
        for gradient in torch.autograd.grad(best, (mean, covariance)):
            assert gradient.abs().max() < 1e-6
        for size in (1e-2, 0.3):
            for _ in range(20):
                step = size * torch.randn(len(mean), 1 + len(mean), generator=random, dtype=DOUBLE)
                turned = (torch.eye(len(mean), dtype=DOUBLE) + step[:, 1:]) @ covariance
                moved = turned @ (torch.eye(len(mean), dtype=DOUBLE) + step[:, 1:]).mT
                assert sparse_bound(mean + step[:, 0], covariance, *terms) < best
                assert sparse_bound(mean, moved, *terms) < best


@families
def test_the_bound_rises_to_the_log_partition_function(family):
    h, w, potentials = random_potentials(family, 1, len(TIMES))
    sites = common(TIMES, 1)
    exact = process_posterior(each(rbf, LENGTHS), TIMES, h[0], w[0]).log_partition
    chosen = [TIMES[[3]], TIMES[[1, 3]], TIMES[[1, 3, 5]], TIMES[:6], TIMES]
    posteriors = [prior_of(family, two_rbf(), tau).condition(potentials, sites) for tau in chosen]
    values = [bound(posterior, potentials, sites).detach().numpy() for posterior in posteriors]
    assert (np.diff(np.ravel(values)) > 0).all()
    assert values[-2] < exact - 1e-3
    assert_near(values[-1], exact)


@families
@pytest.mark.parametrize(("dtype", "tolerance"), [(DOUBLE, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("jitter", [None, 1e-2])
@pytest.mark.parametrize("n", [2, 15])
def test_without_potentials_the_marginals_are_the_reference(monkeypatch, family, dtype, tolerance, jitter, n):
    """Even where the kernel of the inducing points is singular."""
    if jitter is not None:
        monkeypatch.setitem(linalg.dense._KERNEL_JITTER, dtype, jitter)
    prior = prior_of(family, with_scales(two_rbf()), np.linspace(0, 1, 12), mean=linear_mean()).to(dtype)
    sites = common(TIMES, n)
    posterior = prior.condition(torch.zeros(n, len(TIMES), family.natural_size, dtype=dtype), sites)
    reference = prior.reference(sites, shared=False)
    assert reference.shape == (len(TIMES), family.natural_size)
    torch.testing.assert_close(posterior.eta, reference.expand_as(posterior.eta), rtol=tolerance, atol=tolerance)
    assert posterior.kl.abs().max() < tolerance
    mean, covariance = normal(family, reference)
    assert_near(mean, straight(TIMES).T, tolerance)
    assert_near(covariance, np.tile(np.diag(SCALES), (len(TIMES), 1, 1)), tolerance)


# ---- irregular times, padding, trials -------------------------------------------------------------

LONGEST = 5


def ragged(n, seed=0):
    """Trials of unequal lengths at times of their own, out of TIMES."""
    random = np.random.default_rng(seed)
    lengths = [LONGEST, *random.integers(1, LONGEST, n - 1)]
    return [np.sort(random.choice(TIMES, length, replace=False)) for length in lengths]


def padded(trials, junk, width=LONGEST):
    t = np.full((len(trials), width), junk)
    exists = np.zeros((len(trials), width), bool)
    for n, each_trial in enumerate(trials):
        t[n, : len(each_trial)], exists[n, : len(each_trial)] = each_trial, True
    return at_times(t, exists)


def with_junk(potentials, sites, junk):
    return torch.where(sites.exists[..., None], potentials, junk)


@families
@pytest.mark.parametrize(("mean", "dense_mean"), [MEANS["no mean"], MEANS["linear"]], ids=["zero", "linear"])
def test_irregular_and_unequal_times_against_dense(family, mean, dense_mean):
    trials = ragged(6)
    sites = padded(trials, 99.0)
    h, w, potentials = random_potentials(family, 6, LONGEST)
    posterior = prior_of(family, two_rbf(), TIMES, mean=mean()).condition(potentials, sites)
    value = bound(posterior, potentials, sites)
    for n, t in enumerate(trials):
        expected = process_posterior(each(rbf, LENGTHS), t, h[n, : len(t)], w[n, : len(t)], dense_mean)
        assert_is(posterior, n, expected)
        assert_near(value[n], expected.log_partition)


@families
@pytest.mark.parametrize("grid", ["common", "irregular"])
@pytest.mark.parametrize("n", [3, 8])
@pytest.mark.parametrize("extra", [0, 2])
def test_padding_changes_nothing(family, grid, n, extra):
    """Whatever it holds: its gradients vanish, and every trial is as it is alone."""
    trials = ragged(n) if grid == "irregular" else [TIMES[: len(t)] for t in ragged(n)]
    prior = prior_of(family, with_scales(two_rbf()), PLACES, mean=linear_mean())
    potentials = random_potentials(family, n, LONGEST + extra)[2]
    clean = padded(trials, 1.0, LONGEST + extra)
    wild = padded(trials, -4321.0, LONGEST + extra)
    first = prior.condition(with_junk(potentials, clean, 0.0), clean)
    given = with_junk(potentials, clean, 1e6).requires_grad_()
    second = prior.condition(given, wild)
    torch.testing.assert_close(second.kl, first.kl, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(second.eta[clean.exists], first.eta[clean.exists], rtol=1e-10, atol=1e-10)
    (gradient,) = torch.autograd.grad(second.kl.sum() + second.mu[clean.exists].sum(), given)
    assert (gradient[~clean.exists] == 0).all()
    assert (gradient[clean.exists] != 0).any()
    for shared in (True, False) if grid == "common" and not extra else (True,):
        torch.testing.assert_close(prior.reference(clean, shared), prior.reference(wild, shared), rtol=1e-10, atol=0.0)
    for trial, t in enumerate(trials):
        alone = prior.condition(potentials[trial : trial + 1, : len(t)], common(t, 1))
        torch.testing.assert_close(first.eta[trial, : len(t)], alone.eta[0], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(first.kl[trial], alone.kl[0], rtol=1e-9, atol=1e-9)


def test_times_of_padding_may_be_nan(generator):
    prior = prior_of(FAMILIES["diagonal"], two_rbf(), TIMES[::2], mean=linear_mean())
    for trials in (ragged(4), [TIMES[: len(t)] for t in ragged(4)]):
        sites = padded(trials, np.nan)
        potentials = random_potentials(prior.family, 4, LONGEST)[2]
        first = prior.condition(potentials, padded(trials, 0.0))
        second = prior.condition(potentials, sites)
        torch.testing.assert_close(second.eta[sites.exists], first.eta[sites.exists], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(second.kl, first.kl, rtol=1e-10, atol=1e-10)
        assert torch.isfinite(second.sample(generator)[sites.exists]).all()


@families
@pytest.mark.parametrize("grid", ["common", "irregular"])
def test_permuting_and_adding_masked_trials_changes_nothing(family, grid):
    trials = ragged(6) if grid == "irregular" else [TIMES[: len(t)] for t in ragged(6)]
    sites, potentials = padded(trials, 7.0), random_potentials(family, 6, LONGEST)[2]
    prior = prior_of(family, two_rbf(), PLACES, mean=constant_mean())
    posterior = prior.condition(potentials, sites)
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    permuted = prior.condition(potentials[order], Sites(sites.times[order], sites.exists[order]))
    masked = Sites(torch.cat([sites.times, sites.times + 0.1]), torch.cat([sites.exists, sites.exists & False]))
    more = prior.condition(torch.cat([potentials, 10.0 * potentials]), masked)
    for other, rows in ((permuted, order), (more, torch.arange(6))):
        first, second = posterior.eta[rows], other.eta[: len(rows)]
        torch.testing.assert_close(first[sites.exists[rows]], second[sites.exists[rows]], rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(posterior.kl[rows], other.kl[: len(rows)], rtol=1e-10, atol=1e-10)
    assert more.kl[6:].abs().max() < 1e-12


@families
@pytest.mark.parametrize("mean", [None, linear_mean()], ids=["zero", "linear"])
def test_all_ways_of_projecting_agree(family, mean):
    """More trials than inducing points, fewer of them, one of them, and a trial that makes times irregular."""
    n = 9
    prior = prior_of(family, two_rbf(), PLACES, mean=mean)
    potentials = random_potentials(family, n + 1, len(TIMES))[2]
    sites = common(TIMES, n)
    many = prior.condition(potentials[:n], sites)
    assert many.projection.a.shape[0] == 1
    assert many.projection.by_products(n)
    few = prior.condition(potentials[:1], common(TIMES, 1))
    assert not few.projection.by_products(1)
    odd = prior.condition(potentials, at_times(np.concatenate([sites.times, TIMES[None] + 0.05])))
    assert odd.projection.a.shape[0] == n + 1
    for name in ("eta", "mu", "kl"):
        got, expected = getattr(many, name), getattr(odd, name)[:n]
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(got[:1], getattr(few, name), rtol=1e-9, atol=1e-9)
    for part in ("mean", "covariance", "log_det"):
        got, expected = getattr(many.state, part), getattr(odd.state, part)[:n]
        torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)


def test_state_of_is_the_state_of_the_posterior():
    family = FAMILIES["full"]
    prior = prior_of(family, two_rbf(), PLACES)
    sites, potentials = padded(ragged(4), 0.0), random_potentials(family, 4, LONGEST)[2]
    posterior, state = prior.condition(potentials, sites), prior.state_of(potentials, sites)
    same(prior.from_state(state, sites), posterior, 1e-12)
    assert prior.inducing_shape() == (1, 6)
    assert state.mean.shape == (4, 1, 6)
    torch.testing.assert_close(state.log_det, torch.logdet(state.covariance))


# ---- the clock ------------------------------------------------------------------------------------


@families
@pytest.mark.parametrize("how", ["clock", "length scale"])
def test_units_of_time_do_not_matter(family, how):
    scale, origin, n = 37.5, -250.0, 4
    plain = prior_of(family, two_rbf(), PLACES)
    if how == "clock":
        options = {"time_scale": scale, "time_origin": origin}
        other = prior_of(family, two_rbf(), PLACES * scale + origin, **options)
    else:
        other = prior_of(family, two_rbf(np.array(LENGTHS) * scale), PLACES * scale + origin)
    potentials = random_potentials(family, n, len(TIMES))[2]
    first = plain.condition(potentials, common(TIMES, n))
    second = other.condition(potentials, common(TIMES * scale + origin, n))
    same(first, second)
    same(first.at(common(TIMES + 0.3, n)), second.at(common((TIMES + 0.3) * scale + origin, n)))
    assert_near(other.length_scales(), np.array(LENGTHS) * scale)
    assert_near(other.inducing, PLACES * scale + origin)
    other.stretch(2.0)
    assert_near(other.length_scales(), np.array(LENGTHS) * scale * 2)


@families
@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32", "periodic"])
@pytest.mark.parametrize("trials", ["common", "irregular"])
def test_float32_with_time_stamps(family, name, trials):
    kernel, kernels = KERNELS[name]
    origin = 1.7e9
    prior = prior_of(family, kernel(), TIMES + origin, time_origin=origin).float()
    drawn = [TIMES] * 3 if trials == "common" else ragged(3)
    width = max(map(len, drawn))
    sites = padded([t + origin for t in drawn], 0.0, width)
    h, w, potentials = random_potentials(family, 3, width)
    posterior = prior.condition(potentials.float(), sites)
    assert posterior.eta.dtype == posterior.kl.dtype == torch.float32
    for n, t in enumerate(drawn):
        expected = process_posterior(kernels, t, h[n, : len(t)], w[n, : len(t)])
        size = len(t)
        mean, covariance = normal(posterior.prior.family, posterior.eta[n, :size])
        assert_near(mean, expected.mean, 1e-3)
        assert_near(covariance, expected.marginals(), 1e-3)
        assert_near(posterior.kl[n].double(), expected.kl, 1e-3)


@pytest.mark.parametrize("name", ["rbf", "matern12", "matern32"])
def test_float32_with_many_inducing_points(name):
    """Distances in float32 lose digits far from the middle."""
    kernel, kernels = KERNELS[name]
    t = np.arange(200) * 1.0137
    new = t[:-1] + 0.31
    family = FAMILIES["diagonal"]
    h, w, potentials = random_potentials(family, 1, len(t))
    posterior = prior_of(family, kernel(), t).float().condition(potentials.float(), common(t, 1))
    expected = process_posterior(kernels, t, h[0], w[0], new=new)
    for got, which in ((posterior, slice(len(t))), (posterior.at(common(new, 1)), slice(len(t), None))):
        mean, covariance = normal(family, got.eta[0])
        assert_near(mean, expected.mean[which], 1e-3)
        assert_near(covariance, expected.marginals()[which], 1e-3)


@pytest.mark.parametrize("dtype", [DOUBLE, torch.float32])
def test_inducing_times_of_time_stamps(dtype):
    prior = prior_of(FAMILIES["diagonal"], two_rbf(), TIMES + 1.7e9, time_origin=1.7e9).to(dtype)
    assert (prior.inducing.double() - 1.7e9 - torch.tensor(TIMES)).abs().max() < 1e-3


def test_length_scales_of_composite_kernels():
    family = FAMILIES["diagonal"]
    assert_near(prior_of(family, with_scales(two_rbf()), TIMES).length_scales(), LENGTHS)
    assert_near(prior_of(family, two_linear() + two_rbf(), TIMES).length_scales(), LENGTHS)
    one = with_lengths(RBFKernel(), LENGTHS[:1])
    assert_near(prior_of(family, one, TIMES).length_scales(), [LENGTHS[0]] * K)
    assert prior_of(family, two_linear(), TIMES).length_scales().isnan().all()


# ---- predictions and draws ------------------------------------------------------------------------

NEW = np.array([-0.9, 0.4, 1.3, 2.9, 5.6])


@families
@pytest.mark.parametrize("name", ["rbf", "matern32", "product"])
@pytest.mark.parametrize(("mean", "dense_mean"), [MEANS["no mean"], MEANS["linear"]], ids=["zero", "linear"])
def test_predictions_at_new_times(family, name, mean, dense_mean):
    """At times of each trial's own, too."""
    kernel, kernels = KERNELS[name]
    n = 3
    h, w, potentials = random_potentials(family, n, len(TIMES))
    prior = prior_of(family, kernel(), TIMES, mean=mean())
    posterior = prior.condition(potentials, common(TIMES, n))
    for shift in (np.zeros(n), np.array([0.0, 0.1, 0.2])):
        predicted = posterior.at(at_times(NEW + shift[:, None]))
        assert predicted.eta.shape == (n, len(NEW), family.natural_size)
        torch.testing.assert_close(predicted.kl, posterior.kl)
        for trial in range(n):
            expected = process_posterior(kernels, TIMES, h[trial], w[trial], dense_mean, NEW + shift[trial])
            got_mean, covariance = normal(family, predicted.eta[trial])
            assert_near(got_mean, expected.mean[len(TIMES) :])
            assert_near(covariance, expected.marginals()[len(TIMES) :])


DRAWS = 8000


@families
def test_draws_have_the_dense_posterior_covariance_across_times(family, generator):
    """And log p/q is that of the path drawn: log∫p exp(Σ g·t) − Σ g·t(z)."""
    h, w, potentials = random_potentials(family, len(TIMES))
    prior = prior_of(family, two_rbf(), TIMES, mean=linear_mean())
    posterior = prior.condition(potentials.expand(DRAWS, -1, -1), common(TIMES, DRAWS))
    z, log_ratio = posterior.draw(generator)
    assert z.shape == (DRAWS, len(TIMES), K)
    expected = process_posterior(each(rbf, LENGTHS), TIMES, h, w, straight)
    assert_drawn_from(z, expected.mean, expected.covariance)
    path = z.detach().numpy()
    inner = np.einsum("tk,ntk->n", h, path) - 0.5 * np.einsum("ntk,tkl,ntl->n", path, w, path)
    assert_near(log_ratio, expected.log_partition - inner, 5e-3)
    assert_drawn_from(posterior.sample(generator), expected.mean, expected.covariance)


@families
@pytest.mark.parametrize("grid", ["common", "irregular"])
def test_draws_of_a_sparse_posterior(family, grid, generator):
    h, w, potentials = random_potentials(family, 4)
    kernels = each(rbf, LENGTHS)
    grids = [TIMES[:4]] if grid == "common" else [TIMES[:4], TIMES[2:6] - 0.2]
    prior = prior_of(family, two_rbf(), PLACES, mean=linear_mean())
    sites = at_times(np.tile(np.stack(grids), (DRAWS // len(grids), 1)))
    z = prior.condition(potentials.expand(DRAWS, -1, -1), sites).sample(generator)
    for which, t in enumerate(grids):
        a, rest = projection(kernels, PLACES, t)
        weight, m = spread_out(w), straight(t).ravel()
        inverse = np.linalg.inv(np.eye(len(a)) + a @ weight @ a.T)
        mean = m + a.T @ inverse @ a @ (h.T.ravel() - weight @ m)
        assert_drawn_from(z[which :: len(grids)], mean.reshape(K, -1).T, sites_first(a.T @ inverse @ a + rest, K))


@families
@pytest.mark.parametrize("places", [TIMES, TIMES[1::2]], ids=["exact", "sparse"])
def test_draws_weighted_by_p_over_q_are_draws_of_the_prior(family, places, generator):
    """Potentials are weak, or the weights would have no variance."""
    potentials = random_potentials(family, len(TIMES), strength=0.02)[2]
    potentials[:, :K] *= 0.3
    prior = prior_of(family, two_rbf(), places, mean=constant_mean())
    posterior = prior.condition(potentials.expand(DRAWS, -1, -1), common(TIMES, DRAWS))
    z, log_ratio = posterior.draw(generator)
    weight = log_ratio.exp().detach()
    assert log_ratio.std() > 0.1

    def near(values, expected):
        return (values.mean(0) - expected).abs() < 5 * values.std(0) / DRAWS**0.5

    assert near(weight, 1.0)
    assert near(-log_ratio.detach(), posterior.kl[0].detach())
    centred = z.detach() - torch.tensor([0.7, -1.2], dtype=DOUBLE)
    assert near(weight[:, None, None] * centred, 0.0).all()
    products = weight[:, None, None, None] * centred[:, :, None] * centred[:, None]
    kernels = np.stack([kernel(TIMES, TIMES) for kernel in each(rbf, LENGTHS)], -1)
    assert near(products, torch.tensor(kernels)).all()


@families
@pytest.mark.parametrize("grid", ["common", "irregular"])
@pytest.mark.parametrize("places", [PLACES, TIMES], ids=["few", "many"])
def test_samples_of_the_prior(family, grid, places, generator):
    prior = prior_of(family, with_scales(two_rbf()), places, mean=linear_mean())
    kernels = each(scaled, SCALES, each(rbf, LENGTHS))
    grids = [TIMES[:4]] if grid == "common" else [TIMES[:4], TIMES[2:6] - 0.2]
    z = prior.sample(at_times(np.tile(np.stack(grids), (DRAWS // len(grids), 1))), generator)
    assert z.shape == (DRAWS, 4, K)
    for which, t in enumerate(grids):
        assert_drawn_from(z[which :: len(grids)], straight(t).T, gaussian_processes(kernels, t))


# ---- references -----------------------------------------------------------------------------------


@families
@pytest.mark.parametrize("grid", ["common", "unequal", "irregular"])
def test_shared_reference_is_the_moment_matched_average(family, grid):
    kernel, kernels = KERNELS["not stationary"]
    trials = {"common": [TIMES[:LONGEST]] * 6, "unequal": [TIMES[: len(t)] for t in ragged(6)], "irregular": ragged(6)}
    sites = padded(trials[grid], 50.0)
    prior = prior_of(family, kernel(), PLACES, mean=linear_mean())
    reference = prior.reference(sites, shared=True)
    assert reference.shape == (1, family.natural_size)
    t = np.concatenate(trials[grid])
    means, variances = straight(t), np.stack([np.diag(kernel(t, t)) for kernel in kernels])
    mean, covariance = normal(family, reference[0])
    assert_near(mean, means.mean(1))
    assert_near(covariance, np.diag(variances.mean(1) + means.var(1)))


@families
def test_reference_of_every_site(family):
    kernel, kernels = KERNELS["not stationary"]
    prior = prior_of(family, kernel(), PLACES, mean=linear_mean())
    reference = prior.reference(padded([TIMES[:LONGEST], TIMES[:2]], 50.0), shared=False)
    assert reference.shape == (LONGEST, family.natural_size)
    mean, covariance = normal(family, reference)
    t = TIMES[:LONGEST]
    assert_near(mean, straight(t).T)
    assert_near(covariance, np.stack([np.diag([kernel(t, t)[i, i] for kernel in kernels]) for i in range(LONGEST)]))


# ---- gradients ------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(3,), (2, 4)])
def test_gradient_of_inverse_and_log_determinant(shape, generator):
    root = torch.randn(*shape, shape[-1], generator=generator, dtype=DOUBLE).requires_grad_()

    def function(root):
        matrix = root @ root.mT + torch.eye(shape[-1], dtype=DOUBLE)
        return linalg.inverse_and_log_det(matrix, "a test matrix")

    matrix = (root @ root.mT + torch.eye(shape[-1], dtype=DOUBLE)).detach().numpy()
    inverse, log_det = function(root)
    assert_near(inverse, np.linalg.inv(matrix), 1e-12)
    assert_near(log_det, np.linalg.slogdet(matrix)[1], 1e-12)
    assert torch.autograd.gradcheck(function, (root,))
    assert torch.autograd.gradgradcheck(function, (root,))


class Conditioned(torch.nn.Module):
    """η and KL as a function of raw potentials and of every parameter of the prior."""

    def __init__(self, prior, sites):
        super().__init__()
        self.prior, self.sites = prior, sites

    def forward(self, raw):
        posterior = self.prior.condition(self.prior.family.to_potential(raw), self.sites)
        return posterior.eta, posterior.kl


@families
@pytest.mark.parametrize(("n", "grid"), [(1, "common"), (2, "common"), (3, "irregular")])
def test_gradients_of_the_posterior(family, n, grid, generator):
    prior = prior_of(family, with_scales(two_rbf()), [0.3, 2.1], mean=linear_mean(), learn_inducing=True)
    trials = [TIMES[:3]] * n if grid == "common" else [TIMES[:3], TIMES[3:5], TIMES[4:5]]
    model = Conditioned(prior, padded(trials, 0.0, 3))
    names, values = zip(*model.named_parameters(), strict=True)
    assert any(name.endswith("tau") for name in names)
    raw = torch.randn(n, 3, family.raw_size, generator=generator, dtype=DOUBLE).requires_grad_()

    def function(raw, *parameters):
        eta, kl = torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), (raw,))
        return eta[model.sites.exists], kl

    assert torch.autograd.gradcheck(function, (raw, *values))


@pytest.mark.parametrize("places", [PLACES[0], PLACES], ids=["shared", "per latent"])
def test_learned_places_get_gradients(places):
    family = FAMILIES["diagonal"]
    prior = prior_of(family, two_rbf(), places, learn_inducing=True)
    potentials = random_potentials(family, 2, len(TIMES))[2]
    posterior = prior.condition(potentials, common(TIMES, 2))
    ((potentials * posterior.mu).sum() - posterior.kl.sum()).backward()
    assert prior.tau.shape == places.shape
    assert (prior.tau.grad.abs() > 1e-3).all()
    assert (prior.kernel.raw_lengthscale.grad.abs() > 1e-3).all()
    fixed = prior_of(family, two_rbf(), places)
    assert [name for name, _ in fixed.named_parameters()] == ["kernel.raw_lengthscale"]
    assert "tau" in fixed.state_dict()


# ---- errors ---------------------------------------------------------------------------------------

WRONG = {
    "kernel": {"kernel": RBFKernel(batch_shape=torch.Size([3]))},
    "scaled kernel": {"kernel": ScaleKernel(RBFKernel(), batch_shape=torch.Size([3]))},
    "sum of kernels": {"kernel": RBFKernel() + MaternKernel(batch_shape=torch.Size([3]))},
    "constant mean": {"mean": ConstantMean(batch_shape=torch.Size([3]))},
    "linear mean": {"mean": LinearMean(1, batch_shape=torch.Size([3]))},
}


@pytest.mark.parametrize("part", WRONG.values(), ids=WRONG.keys())
def test_a_wrong_batch_shape_is_named(part):
    with pytest.raises(BuildError, match=r"has batch shape \(3,\): expected \(\).* or \(2,\)"):
        prior_of(FAMILIES["diagonal"], **{"kernel": RBFKernel(), "places": TIMES, **part})


def test_a_discrete_family_is_refused():
    with pytest.raises(BuildError, match="Categorical"):
        prior_of(Categorical(3), RBFKernel(), TIMES)


def test_a_given_state_is_kept():
    """KL and marginals of any q(v), not only of the maximiser."""
    family, t = FAMILIES["full"], TIMES[:4]
    prior = prior_of(family, two_rbf(), PLACES)
    random = np.random.default_rng(0)
    root = random.standard_normal((6, 6))
    mean, covariance = random.standard_normal(6), root @ root.T + 0.1 * np.eye(6)
    log_det = torch.tensor(np.linalg.slogdet(covariance)[1])
    state = InducingState(torch.tensor(mean)[None, None], torch.tensor(covariance)[None, None], log_det[None, None])
    posterior = prior.from_state(state, common(t, 1))
    a, rest = projection(each(rbf, LENGTHS), PLACES, t)
    whole = sites_first(a.T @ covariance @ a + rest, K)
    divergence = gaussians.kl(mean, covariance, 0, np.eye(6))
    assert_is(posterior, 0, Dense((a.T @ mean).reshape(K, -1).T, whole, divergence, 0))


# ---- the one function for the default case ----------------------------------------------------------


def grid_data(groups, size, trials=6, inducing=4):
    torch.manual_seed(3)
    a = torch.randn(groups, size, inducing, len(TIMES), dtype=DOUBLE, requires_grad=True)
    first = torch.randn(trials, groups, size, len(TIMES), dtype=DOUBLE, requires_grad=True)
    root = torch.randn(trials, groups, size, size, len(TIMES), dtype=DOUBLE, requires_grad=True)
    return a, first, root


def from_root(a, first, root):
    """What sites say of the precision is symmetric and positive."""
    return conditioned(a, first, torch.einsum("ngbet,ngcet->ngbct", root, root))


@pytest.mark.parametrize(("groups", "size"), [(2, 1), (1, 3), (2, 2)])
def test_conditioning_in_one_piece_is_numpys(groups, size):
    data = grid_data(groups, size)
    q = from_root(*data)
    a, first, root = (each.detach().numpy() for each in data)
    kl = np.zeros(len(first))
    for n, g in product(range(len(first)), range(groups)):
        # Inducing numbers of all latents of the group beside each other, seen by every latent at every time.
        wide = np.zeros((size, a.shape[2] * size, len(TIMES)))
        for b in range(size):
            wide[b, b * a.shape[2] : (b + 1) * a.shape[2]] = a[g, b]
        weight = np.einsum("bet,cet->bct", root[n, g], root[n, g])
        sigma = np.linalg.inv(np.eye(wide.shape[1]) + np.einsum("bxt,bct,cyt->xy", wide, weight, wide))
        mu = sigma @ np.einsum("bxt,bt->x", wide, first[n, g])
        spread = np.einsum("bxt,xy,cyt->bct", wide, sigma, wide)
        expected = (mu, sigma, np.linalg.slogdet(sigma)[1], np.einsum("bxt,x->bt", wide, mu), spread)
        for got, wanted in zip(q[:5], expected, strict=True):
            np.testing.assert_allclose(got[n, g].detach().numpy(), wanted, rtol=1e-9, atol=1e-12)
        kl[n] += gaussians.kl(mu, sigma, 0, np.eye(len(mu)))
    np.testing.assert_allclose(q.kl.detach().numpy(), kl, rtol=1e-10)


@pytest.mark.parametrize(("groups", "size"), [(2, 1), (1, 3)])
def test_derivatives_of_conditioning_in_one_piece_are_finite_differences(groups, size):
    assert torch.autograd.gradcheck(lambda *each: tuple(from_root(*each)), grid_data(groups, size, 2, 3))


@pytest.mark.parametrize("output", range(6))
@pytest.mark.parametrize("size", [1, 2])
def test_derivatives_survive_outputs_that_nobody_uses(output, size):
    assert torch.autograd.gradcheck(lambda *each: from_root(*each)[output], grid_data(1, size, 2, 3))


@pytest.mark.parametrize("trials", [2, 8], ids=["in pieces", "in one piece"])
def test_both_ways_of_conditioning_have_the_same_gradients(trials):
    prior = GaussianProcessPrior(DiagonalGaussian(K), RBFKernel(batch_shape=TWO), torch.linspace(0, 5, 5)).double()
    sites = Sites(torch.tensor(TIMES).expand(trials, -1), torch.ones(trials, len(TIMES), dtype=torch.bool))
    torch.manual_seed(0)
    raw = torch.randn(trials, len(TIMES), 2 * K, dtype=DOUBLE)
    potentials = prior.family.to_potential(raw).requires_grad_()

    def gradients(posterior):
        goal = (posterior.eta.sin() + posterior.mu.cos()).sum() + posterior.kl.sum()
        return torch.autograd.grad(goal, [potentials, *prior.parameters()])

    at_once = gradients(prior.condition(potentials, sites))
    in_pieces = gradients(prior.from_state(prior.state_of(potentials, sites), sites))
    for got, wanted in zip(at_once, in_pieces, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
