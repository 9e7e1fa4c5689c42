"""Kernels as chains of states against their formulas, the equation they solve, and the dense process."""

import numpy as np
import pytest
import torch
from gpytorch.kernels import LinearKernel, MaternKernel, PeriodicKernel, RBFKernel, RQKernel, ScaleKernel
from scipy.integrate import quad_vec
from scipy.linalg import expm

from oracles.dense_gaussian import gaussian_processes, process_posterior
from oracles.differences import central_difference
from oracles.gaussians import as_numpy, normal, random_potentials
from oracles.kernels import matern12, matern32, matern52, periodic, plus, rbf, scaled, times
from rpmodels.carriers import Sites
from rpmodels.errors import BuildError, InputError
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.priors import GaussianProcessPrior, MarkovianProcessPrior, all_pole

DOUBLE = torch.float64
LENGTHS = (2.0, 0.7)


def of(kind, lengths=LENGTHS, **options):
    kernel = kind(batch_shape=torch.Size([len(lengths)]), **options).double()
    kernel.lengthscale = torch.tensor(lengths, dtype=DOUBLE)[:, None, None]
    return kernel


def times_of(variance, kernel):
    made = ScaleKernel(kernel).double()
    made.outputscale = torch.tensor(variance, dtype=DOUBLE)
    return made


def turning(lengths=(1.0, 2.5), periods=(3.0, 5.0)):
    kernel = of(PeriodicKernel, lengths)
    kernel.period_length = torch.tensor(periods, dtype=DOUBLE)[:, None, None]
    return kernel


def matern(nu, lengths=LENGTHS):
    return of(MaternKernel, lengths, nu=nu)


WAVES = (periodic(1.0, 3.0), periodic(2.5, 5.0))
EXACT = {
    "sum": (
        lambda: times_of(0.3, matern(2.5)) + times_of(0.7, matern(0.5, (1.0, 3.0))),
        lambda: [
            plus(scaled(0.3, matern52(a)), scaled(0.7, matern12(b))) for a, b in zip(LENGTHS, (1.0, 3.0), strict=True)
        ],
    ),
    "product": (
        lambda: matern(1.5) * matern(2.5, (5.0, 1.0)),
        lambda: [times(matern32(a), matern52(b)) for a, b in zip(LENGTHS, (5.0, 1.0), strict=True)],
    ),
    "scaled": (lambda: times_of(2.5, matern(1.5)), lambda: [scaled(2.5, matern32(each)) for each in LENGTHS]),
}
NEARLY = {
    "rbf": (lambda: of(RBFKernel), lambda: [rbf(each) for each in LENGTHS]),
    "periodic": (turning, lambda: list(WAVES)),
    "quasi-periodic": (
        lambda: matern(1.5) * turning(),
        lambda: [times(matern32(a), wave) for a, wave in zip(LENGTHS, WAVES, strict=True)],
    ),
    "rbf and periodic": (
        lambda: times_of(0.5, of(RBFKernel)) + times_of(0.5, turning()),
        lambda: [plus(scaled(0.5, rbf(a)), scaled(0.5, wave)) for a, wave in zip(LENGTHS, WAVES, strict=True)],
    ),
}
ALL = {**EXACT, **NEARLY}
every = pytest.mark.parametrize("name", ALL)


def prior_of(name, family=None, **options):
    return MarkovianProcessPrior(family or DiagonalGaussian(2), ALL[name][0](), **options).double()


def clock(*trials):
    grid = torch.tensor(np.stack(trials))
    return Sites(grid, torch.ones_like(grid, dtype=torch.bool))


def irregular(length, seed=0):
    return np.cumsum(np.random.default_rng(seed).gamma(0.5, 2.0, length)) + 3.0


def near(got, expected, tolerance=1e-8):
    np.testing.assert_allclose(as_numpy(got), as_numpy(expected), rtol=tolerance, atol=tolerance)


# ---- kernels --------------------------------------------------------------------------------------


@every
def test_the_kernel_is_the_formula_or_as_near_as_it_says(name):
    prior, t = prior_of(name), irregular(30)
    got = as_numpy(prior.covariances(torch.tensor(t), torch.arange(30)))
    expected = gaussian_processes(ALL[name][1](), t).transpose(0, 2, 1, 3)
    off = np.abs(got - expected).max()
    said = float(prior.space.error().max())
    assert off <= said + 1e-7
    assert prior.space.approximate == (name in NEARLY)
    assert (said == 0.0) == (name in EXACT)
    assert "exact" in prior.approach if name in EXACT else f"kernel to {said:.0e}" in prior.approach


@every
@pytest.mark.parametrize("gap", [1e-3, 0.4, 7.0, 1e4])
def test_steps_leave_a_state_as_it_is(name, gap):
    """P = A P Aᵀ + Q."""
    space = prior_of(name).space
    A, Q = space.steps(torch.tensor([[gap]], dtype=DOUBLE))
    P = space.stationary()
    near(A @ P @ A.mT + Q, P.expand_as(A), 1e-9)
    assert A.shape[-1] == space.size


@pytest.mark.parametrize("poles", all_pole.POLES)
@pytest.mark.parametrize("x", [1e-6, 0.02, 0.6, 9.0])
def test_all_pole_steps_are_those_of_the_differential_equation(poles, x):
    process = all_pole.of_order(poles)
    drift = as_numpy(process.F)

    def blown(s):
        column = expm(drift * s)[:, -1:]
        return column @ column.T

    strength = 1.0 / quad_vec(blown, 0, 120, epsabs=1e-13)[0][0, 0]
    A, Q = process.steps(torch.tensor(x, dtype=DOUBLE))
    near(A, expm(drift * x), 1e-12)
    noise = strength * quad_vec(blown, 0, x, epsabs=0, epsrel=1e-12)[0]
    np.testing.assert_allclose(as_numpy(Q), noise, rtol=1e-7, atol=1e-14 if x > 1 else 1e-300)


def test_more_poles_are_nearer():
    errors = [all_pole.of_order(each).error for each in all_pole.POLES]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] < 7e-3
    assert errors[1] < 2e-3
    assert errors[-1] < 2.2e-4


# ---- processes ------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("family", [DiagonalGaussian(2), FullGaussian(2)], ids=["diagonal", "full"])
def test_posterior_is_the_dense_one_of_its_kernel(name, family):
    """Exact ones to all digits, the others as the process whose kernel they say they have."""
    prior, t = prior_of(name, family), irregular(17)
    h, w, potentials = random_potentials(family, 2, 17, floor=0.0)
    posterior = prior.condition(potentials, clock(t, t))

    def own(k):
        def kernel(a, b):
            distance = torch.tensor(np.abs(a[:, None] - b))
            return as_numpy(prior.space.covariance(distance).expand(*distance.shape, 2)[..., k])

        return kernel

    kernels = ALL[name][1]() if name in EXACT else [own(0), own(1)]
    for n in range(2):
        expected = process_posterior(kernels, t, h[n], w[n])
        mean, covariance = normal(family, posterior.eta[n])
        near(mean, expected.mean)
        near(covariance, expected.marginals())
        near(posterior.kl[n], expected.kl)
        near(posterior.log_partition[n], expected.log_partition)


@pytest.mark.parametrize("name", ["sum", "product", "scaled"])
def test_the_sparse_process_with_every_time_is_the_same(name):
    prior, t = prior_of(name), irregular(11)
    sparse = GaussianProcessPrior(prior.family, prior.kernel, torch.tensor(t)).double()
    _, _, potentials = random_potentials(prior.family, 3, 11)
    ours, theirs = (each.condition(potentials, clock(t, t, t)) for each in (prior, sparse))
    for attribute in ("eta", "mu", "kl"):
        torch.testing.assert_close(getattr(ours, attribute), getattr(theirs, attribute), rtol=1e-5, atol=1e-5)
    sites = clock(t)
    torch.testing.assert_close(prior.reference(sites, shared=True), sparse.reference(sites, shared=True))


@every
def test_gradients_by_every_parameter_are_finite_differences(name, generator):
    prior, t = prior_of(name), np.cumsum(np.random.default_rng(0).uniform(0.4, 1.2, 9))
    _, _, potentials = random_potentials(prior.family, 2, 9)
    z, sites = torch.randn(2, 9, 2, generator=generator, dtype=DOUBLE), clock(t, t)

    def value():
        posterior = prior.condition(potentials, sites)
        moved = (
            posterior.mu.sum() + posterior.eta.tanh().sum() + posterior.kl.sum() + prior.reference(sites, True).sum()
        )
        return moved + (prior.log_density(z, sites).sum() if name in EXACT else 0.0)

    value().backward()
    for raw in prior.kernel.parameters():
        place = tuple(0 for _ in raw.shape)
        found = central_difference(value, raw.data, place, 1e-5)
        assert found == pytest.approx(float(raw.grad[place]), rel=1e-5, abs=1e-6)


def test_a_period_is_kept_for_thousands_of_turns():
    prior = prior_of("periodic")
    far = torch.tensor([[0.0], [3.0 * 5000.25]], dtype=DOUBLE)
    got = as_numpy(prior.space.covariance(far)[:, 0, 0])
    near(got, [1.0, np.exp(-2 * np.sin(np.pi * 0.25) ** 2)], 1e-4)


def test_smooth_latents_on_short_steps_are_those_of_the_dense_process():
    """A sum has no digits left where the smoother part is seen as what the rougher one leaves over."""
    prior = MarkovianProcessPrior(
        DiagonalGaussian(1), times_of(0.5, matern(2.5, (3000.0,))) + times_of(0.5, matern(0.5, (20.0,)))
    ).double()
    t = np.arange(200.0)
    h, w, potentials = random_potentials(prior.family, 1, 200)
    kernel = plus(scaled(0.5, matern52(3000.0)), scaled(0.5, matern12(20.0)))
    expected = process_posterior([kernel], t, h[0], w[0])
    posterior = prior.condition(potentials, clock(t))
    near(posterior.latent_mean[0], expected.mean, 1e-7)
    near(posterior.log_partition[0], expected.log_partition, 1e-7)


def test_single_precision_stays_near_double_on_a_long_chain():
    sites, family = clock(np.arange(5000.0)), DiagonalGaussian(2)
    _, _, potentials = random_potentials(family, 1, 5000, strength=0.1)
    kernel = of(RBFKernel, (900.0, 15.0))
    wide = MarkovianProcessPrior(family, kernel).double()
    exact = wide.condition(potentials, sites)
    rounded = MarkovianProcessPrior(family, of(RBFKernel, (900.0, 15.0))).float().condition(potentials.float(), sites)
    for attribute in ("eta", "mu", "kl"):
        got = getattr(rounded, attribute).double()
        torch.testing.assert_close(got, getattr(exact, attribute), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("kernel", [RQKernel(), RBFKernel() + LinearKernel(), RBFKernel(ard_num_dims=2)])
def test_what_is_no_chain_is_refused(kernel):
    with pytest.raises(BuildError, match="no chain of states"):
        MarkovianProcessPrior(DiagonalGaussian(1), kernel)


def test_poles_are_among_those_there_are():
    with pytest.raises(InputError, match="poles"):
        MarkovianProcessPrior(DiagonalGaussian(1), RBFKernel(), poles=9)
