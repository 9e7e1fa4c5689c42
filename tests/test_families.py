"""Registry × property: what every exponential family must satisfy."""

import numpy as np
import pytest
import torch

from registry import FAMILIES, random_eta
from rpmodels.families import (
    DiagonalGaussian,
    FiniteSupport,
    FullGaussian,
    HasDomain,
    HasGrid,
    HasStatisticCovariance,
    Reparametrised,
)

families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
COVARIANCES = {name: each for name, each in FAMILIES.items() if isinstance(each, HasStatisticCovariance)}
with_covariance = pytest.mark.parametrize("family", COVARIANCES.values(), ids=COVARIANCES)
DOUBLE = torch.float64


@families
def test_mean_is_the_gradient_of_the_log_normaliser(family):
    eta = random_eta(family, 5).requires_grad_()
    (gradient,) = torch.autograd.grad(family.log_normaliser(eta).sum(), eta)
    torch.testing.assert_close(family.mean(eta), gradient, rtol=1e-10, atol=1e-10)


def _samples(family, eta, n, generator):
    return family.sample(eta.expand(n, -1), generator)


@families
def test_samples_have_the_mean_parameters(family, generator):
    eta = random_eta(family, 1)[0]
    t = family.statistic(_samples(family, eta, 200_000, generator)).to(DOUBLE)
    error = (t.mean(0) - family.mean(eta)).abs()
    assert (error < 5 * t.std(0) / len(t) ** 0.5 + 1e-12).all()


@families
def test_kl_against_monte_carlo(family, generator):
    q, p = random_eta(family, 2)
    t = family.statistic(_samples(family, q, 400_000, generator)).to(DOUBLE)
    ratio = family.log_density(q.expand_as(t), t) - family.log_density(p.expand_as(t), t)
    assert abs(ratio.mean() - family.kl(q, p)) < 5 * ratio.std() / len(t) ** 0.5
    assert family.kl(q, q).abs() < 1e-10


def test_density_is_normalised_and_kl_matches_a_numerical_integral():
    family = DiagonalGaussian(1)
    q, p = random_eta(family, 2, seed=3)
    z = torch.linspace(-40, 40, 200_001, dtype=DOUBLE)[:, None]
    t = family.statistic(z)
    log_q, log_p = (family.log_density(eta.expand_as(t), t) for eta in (q, p))
    step = float(z[1, 0] - z[0, 0])
    assert float(log_q.exp().sum() * step) == pytest.approx(1, abs=1e-9)
    assert float((log_q.exp() * (log_q - log_p)).sum() * step) == pytest.approx(float(family.kl(q, p)), abs=1e-8)


@families
def test_entropy_is_a_cross_entropy_and_kl_their_difference(family):
    q, p = random_eta(family, 2)
    torch.testing.assert_close(family.cross_entropy(q, p) - family.entropy(q), family.kl(q, p))


@families
def test_potentials_keep_every_member_valid(family):
    generator = torch.Generator().manual_seed(1)
    raw = 10 * torch.randn(50, family.raw_size, generator=generator, dtype=DOUBLE)
    eta = random_eta(family, 50)
    assert torch.isfinite(family.log_normaliser(eta + family.to_potential(raw))).all()


def test_all_but_several_latents_know_the_covariance_of_their_statistic():
    assert set(FAMILIES) - set(COVARIANCES) == {"joint-states"}


@with_covariance
def test_covariance_root_against_the_covariance_of_samples(family, generator):
    eta = random_eta(family, 1, seed=2)[0]
    g = torch.randn(2, family.natural_size, generator=generator, dtype=DOUBLE)
    u, v = family.covariance_root(eta, g)
    t = family.statistic(_samples(family, eta, 1_000_000, generator)).to(DOUBLE)
    products = (t @ g[0] - (t @ g[0]).mean()) * (t @ g[1] - (t @ g[1]).mean())
    assert abs(u @ v - products.mean()) < 5 * products.std() / len(t) ** 0.5


@with_covariance
def test_statistic_covariance_is_the_hessian_of_the_log_normaliser(family):
    eta = random_eta(family, 1, seed=4)[0]
    hessian = torch.autograd.functional.hessian(family.log_normaliser, eta)
    g = torch.randn(6, family.natural_size, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    u = family.covariance_root(eta, g)
    torch.testing.assert_close(u @ u.mT, g @ hessian @ g.mT, rtol=1e-8, atol=1e-8)


def test_full_equals_diagonal_without_off_diagonals():
    full, diagonal = FullGaussian(2), DiagonalGaussian(2)
    raw = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    padded = torch.cat([raw[:, :3], torch.zeros(4, 1, dtype=DOUBLE), raw[:, 3:]], 1)
    eta_full, eta_diagonal = full.to_valid(padded), diagonal.to_valid(raw)
    torch.testing.assert_close(full.log_normaliser(eta_full), diagonal.log_normaliser(eta_diagonal))
    m, s = full.moments(eta_full)
    mean, variance = diagonal.moments(eta_diagonal)
    torch.testing.assert_close(m, mean)
    torch.testing.assert_close(s.diagonal(dim1=-2, dim2=-1), variance)
    torch.testing.assert_close(full.natural(m, s), eta_full)
    torch.testing.assert_close(diagonal.natural(mean, variance), eta_diagonal)


@families
def test_abilities(family):
    if isinstance(family, FiniteSupport):
        assert len(family.values()) == family.n_states
        values = torch.randn(family.n_states, dtype=DOUBLE)
        statistics = family.statistic(family.values()).to(DOUBLE)
        torch.testing.assert_close(statistics @ family.potential(values), values)
    if isinstance(family, HasDomain):
        eta = random_eta(family, 5)
        assert family.valid(eta).all()
        torch.testing.assert_close(family.to_valid(family.to_raw(eta)), eta)
    if isinstance(family, HasGrid):
        eta = random_eta(family, 3)[:, None]
        z, step = family.grid(64)
        masses = family.log_density(eta, family.statistic(z)).exp() * step
        torch.testing.assert_close(masses.sum(-1), torch.ones(3, dtype=DOUBLE))
        torch.testing.assert_close(masses @ family.statistic(z), family.mean(eta)[:, 0])
    if isinstance(family, Reparametrised):
        noise = torch.zeros(1, family.noise_size(), dtype=DOUBLE)
        eta = random_eta(family, 1)
        np.testing.assert_allclose(family.reparametrise(eta, noise), family.moments(eta)[0], rtol=1e-10)


@pytest.mark.parametrize("value", [-800.0, -120.0, 0.0, 120.0])
@pytest.mark.parametrize("position", range(5))
def test_gradients_of_potentials_stay_finite_in_float32(value, position):
    family = FullGaussian(2)
    raw = torch.ones(5)
    raw[position] = value
    raw.requires_grad_()
    eta = family.natural(torch.zeros(2), torch.eye(2))
    family.log_normaliser(eta + family.to_potential(raw)).backward()
    assert torch.isfinite(raw.grad).all()
