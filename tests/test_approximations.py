"""⟨log F_j⟩ in every way there is, against sums, integrals and minima in NumPy and SciPy."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from scipy.special import logsumexp

import registry
from missing import DOES_NOT_APPLY
from oracles import integrals
from oracles.gaussians import (
    expected_statistic,
    kronecker_covariance,
    log_normaliser,
    natural,
    normal,
    parts,
    random_covariance,
    statistic,
)
from registry import APPROXIMATIONS
from rpmodels.carriers import Factor
from rpmodels.errors import BuildError, RPModelsWarning
from rpmodels.families import Categorical, DiagonalGaussian, Family, FullGaussian, Gaussian
from rpmodels.mixtures import (
    AtomMixture,
    Exact,
    FreeInteriorBound,
    GaussHermite,
    InteriorBound,
    Kind,
    MonteCarlo,
    OptimalInteriorBound,
    PerSite,
    Pooled,
    SecondOrder,
    SharedGrid,
    quadrature,
    reduce,
)

DOUBLE = torch.float64
FAMILIES = {name: each for name, each in registry.FAMILIES.items() if isinstance(each, Gaussian) and name != "full-3"}
REGIMES = {
    # Variances of atoms and of q. A posterior knows more than any of its factors ("narrow") unless the
    # factors contradict each other, or q is not a posterior yet ("wide", "hard").
    "narrow": {"atoms": (0.1, 1.0), "q": (0.02, 0.08)},
    "wide": {"atoms": (0.05, 0.3), "q": (0.3, 1.0)},
    "hard": {"atoms": (0.002, 0.05), "q": (0.3, 2.0)},
}
STEPS = {"narrow": 20, "wide": 30}
"""Newton steps of the optimal bound where it must have arrived."""
families = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
approximations = pytest.mark.parametrize("approximation", APPROXIMATIONS.values(), ids=APPROXIMATIONS.keys())
one_latent = pytest.mark.parametrize("family", [DiagonalGaussian(1), FullGaussian(1)], ids=["diagonal", "full"])
pooling = pytest.mark.parametrize("pooled", [False, True], ids=["per site", "pooled"])
owning = pytest.mark.parametrize("own", [False, True], ids=["shared", "own"])


# ---- random problems ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Problem:
    eta_q: torch.Tensor
    mixture: AtomMixture

    @property
    def family(self) -> Family:
        return self.mixture.family

    @property
    def places(self):
        return list(np.ndindex(*self.eta_q.shape[:2]))

    def evaluate(self, approximation, local=None):
        if local is None:
            local = approximation.initial_parameters(self.family, self.eta_q.detach)
        return approximation(self.eta_q, self.mixture, local)

    def members(self, n, t):
        return integrals.members(self.mixture, n, t)

    def log_ratio(self, n, t, z):
        return integrals.log_ratio(self.mixture, n, t, z)

    def integral(self, points=4001):
        return integrals.expected_log_ratio(self.mixture, self.eta_q, points)


def problem(family, seed=0, *, pooled=False, own=False, n=3, sites=2, count=5, zeros=0.3, spread=1.0, regime="narrow"):
    random = np.random.default_rng(seed)
    size, rows = family.latents, 1 if pooled else sites
    variances = REGIMES[regime] if isinstance(regime, str) else regime

    def members(*shape, kind):
        mean = spread * random.standard_normal((*shape, size))
        return natural(family, mean, random_covariance(random, family, shape, *variances[kind]))

    mean = 0.3 * random.standard_normal((rows, size))
    reference = natural(family, mean, random_covariance(random, family, (rows,), 1.0, 2.0))
    counts = random.uniform(0.5, 2.0, (rows, count)) * (random.random((rows, count)) >= zeros)
    counts[:, -1] = 1.0
    g = members(rows, count, kind="atoms")
    g[:, ::2][torch.as_tensor(counts == 0)[:, ::2]] = 0.0  # absent; the others have no weight
    mixture = AtomMixture(family, reference, pooled, g, torch.as_tensor(counts).log())
    if own:
        present = torch.as_tensor(random.random((n, sites)) >= zeros)
        own_g = torch.where(present[..., None], members(n, sites, kind="atoms"), 0.0)
        mixture = mixture.with_own(Factor(own_g, present), reference)
    return Problem(members(n, sites, kind="q"), mixture)


def skip_unfit(approximation, family):
    try:
        approximation.check(family)
    except BuildError:
        pytest.skip(f"{DOES_NOT_APPLY}: not for this many latents")


def values_and_gradients(each, approximation, local=None, seed=0):
    """The approximation, and gradients of a random combination of it by η_q, g and (if any) the own g."""
    eta_q, g = each.eta_q.clone().requires_grad_(), each.mixture.g.clone().requires_grad_()
    leaves, mixture = [eta_q, g], replace(each.mixture, g=g)
    if mixture.own is not None:
        leaves.append(mixture.own.g.clone().requires_grad_())
        mixture = replace(mixture, own=replace(mixture.own, g=leaves[-1]))
    values = Problem(eta_q, mixture).evaluate(approximation, local)
    weights = torch.as_tensor(np.random.default_rng(seed).uniform(0.5, 1.5, tuple(values.shape))).to(values)
    return values.detach(), torch.autograd.grad((weights * values).sum(), leaves)


# ---- 1. log F/r --------------------------------------------------------------------------------


@families
@pooling
@owning
def test_log_ratio_is_a_sum_of_densities(family, pooled, own):
    each = problem(family, 1, pooled=pooled, own=own)
    z = 1.5 * np.random.default_rng(2).standard_normal((3, 2, 7, family.latents))
    found = each.mixture.log_ratio(torch.as_tensor(statistic(family, z)))
    expected = [[each.log_ratio(n, t, z[n, t]) for t in range(2)] for n in range(3)]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    same = each.mixture.log_ratio(torch.as_tensor(statistic(family, z[:1, :1]))).expand(3, 2, -1)
    expected = [[each.log_ratio(n, t, z[0, 0]) for t in range(2)] for n in range(3)]
    np.testing.assert_allclose(same, expected, rtol=1e-10, atol=1e-10)


def empty_second_site(family, own=None, dtype=DOUBLE):
    """Nothing counts at the second site; own atoms (absent, or present everywhere) if asked for."""
    each = problem(family, 3, zeros=0.0)
    log_count = each.mixture.log_count.clone()
    log_count[1] = -torch.inf
    mixture = replace(each.mixture, log_count=log_count)
    if own is not None:
        factor = Factor(problem(family, 4).eta_q, torch.full((3, 2), own))
        mixture = mixture.with_own(factor, mixture.reference)
    return in_dtype(Problem(each.eta_q, mixture), dtype)


def in_dtype(each, dtype):
    mixture = each.mixture
    own = None if mixture.own is None else replace(mixture.own, g=mixture.own.g.to(dtype))
    return Problem(
        each.eta_q.to(dtype),
        replace(
            mixture,
            reference=mixture.reference.to(dtype),
            g=mixture.g.to(dtype),
            log_count=mixture.log_count.to(dtype),
            own=own,
        ),
    )


@families
def test_log_ratio_at_sites_without_atoms(family):
    z = np.random.default_rng(0).standard_normal((3, 2, 4, family.latents))
    t = torch.as_tensor(statistic(family, z))
    for own in (None, False):
        assert (empty_second_site(family, own).mixture.log_ratio(t)[:, 1] == 0).all()
    alone = empty_second_site(family, True)
    expected = [alone.log_ratio(n, 1, z[n, 1]) for n in range(3)]
    np.testing.assert_allclose(alone.mixture.log_ratio(t)[:, 1], expected, atol=1e-10)


@approximations
@pytest.mark.parametrize("dtype", [DOUBLE, torch.float32], ids=["float64", "float32"])
@pytest.mark.parametrize(
    ("family", "own"), [(DiagonalGaussian(1), None), (FullGaussian(2), False)], ids=["diagonal-1", "full-2, own absent"]
)
def test_a_site_without_atoms_contributes_nothing_to_any_approximation(approximation, family, own, dtype):
    skip_unfit(approximation, family)
    each = empty_second_site(family, own, dtype)
    values, gradients = values_and_gradients(each, approximation)
    assert (values[:, 1] == 0).all()
    assert (values[:, 0] != 0).all()
    assert (gradients[0][:, 1] == 0).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


# ---- 2. quadrature -----------------------------------------------------------------------------


@one_latent
@pooling
@owning
def test_quadrature_of_one_latent_against_a_dense_integral(family, pooled, own):
    for seed in range(3):
        each = problem(family, seed, pooled=pooled, own=own)
        expected = each.integral()
        np.testing.assert_allclose(each.evaluate(GaussHermite(64)), expected, atol=1e-8)
        np.testing.assert_allclose(each.evaluate(SharedGrid()), expected, atol=1e-6)
    assert isinstance(quadrature(1), SharedGrid)


@one_latent
@owning
def test_the_grid_follows_atoms_that_are_sharper_than_q(family, own):
    regime = {"q": (0.05, 0.1), "atoms": (0.0005, 0.005)}
    for seed in range(3):
        each = problem(family, seed, own=own, count=20, regime=regime)
        values = each.evaluate(SharedGrid())
        np.testing.assert_allclose(values, each.integral(), atol=5e-3)
        alone = replace(each, eta_q=each.eta_q[:1], mixture=_first(each.mixture))
        np.testing.assert_allclose(alone.evaluate(SharedGrid())[0], values[0], atol=5e-3)


def _first(mixture):
    """The mixture of the first trial alone."""
    if mixture.own is None:
        return mixture
    return replace(mixture, own=replace(mixture.own, g=mixture.own.g[:1], present=mixture.own.present[:1]))


@pytest.mark.parametrize("family", [DiagonalGaussian(2), FullGaussian(2)], ids=["diagonal", "full"])
@owning
def test_quadrature_of_two_latents_against_a_dense_integral(family, own):
    each = problem(family, 1, own=own, n=2)
    expected = each.integral(201)
    np.testing.assert_allclose(each.evaluate(GaussHermite(48)), expected, atol=1e-6)
    np.testing.assert_allclose(each.evaluate(quadrature(2)), expected, atol=1e-3)


@pytest.mark.parametrize("family", [*FAMILIES.values(), FullGaussian(3)])
def test_quadrature_is_exact_for_one_atom(family):
    """log F/r is then quadratic: three nodes per latent are enough."""
    each = problem(family, 2, count=1)
    closed = integrals.expected_log_ratio_of_one
    expected = [[closed(each.mixture, each.eta_q[n, t], n, t) for t in range(2)] for n in range(3)]
    np.testing.assert_allclose(each.evaluate(GaussHermite(3)), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(each.evaluate(SecondOrder()), expected, rtol=1e-9, atol=1e-9)


def test_a_capped_grid_warns_and_stays_finite():
    family = DiagonalGaussian(1)
    each = problem(family, 0, regime={"atoms": (0.1, 1.0), "q": (0.5, 1.0)})
    eta_q = each.eta_q.clone()
    eta_q[0, 0] = natural(family, np.array([0.5]), np.array([[1e-8]]))
    sharp = Problem(eta_q, each.mixture)
    # One sharp posterior has a lattice of its own, fine enough.
    np.testing.assert_allclose(sharp.evaluate(SharedGrid()), sharp.integral(), atol=1e-6)
    g = each.mixture.g.clone()
    g[:, 0] = natural(family, np.array([0.5]), np.array([[1e-8]]))
    capped = Problem(eta_q, replace(each.mixture, g=g))
    with pytest.warns(RPModelsWarning, match=r"would need \d+ points .* 4096 are used"):
        values, gradients = values_and_gradients(capped, SharedGrid())
    assert torch.isfinite(values).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
    lost = torch.full_like(eta_q, torch.nan)
    assert torch.isnan(SharedGrid()(lost, each.mixture, {})).all()


# ---- gradients of all --------------------------------------------------------------------------


@approximations
@pytest.mark.parametrize("name", ["diagonal-1", "diagonal-2", "diagonal-3", "full-2"])
def test_gradients_are_finite_differences(approximation, name):
    """For the optimal bound this is the envelope theorem."""
    family = FAMILIES[name]
    skip_unfit(approximation, family)
    pooled = name == "diagonal-2"
    each = problem(family, 5, pooled=pooled, own=not pooled, n=2)
    local = approximation.initial_parameters(family, lambda: each.eta_q)
    values, gradients = values_and_gradients(each, approximation, local)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, tuple(values.shape))
    step = 1e-4

    def moved(which, direction, sign):
        eta_q, g, own = each.eta_q, each.mixture.g, each.mixture.own
        change = sign * step * direction
        if which == 0:
            eta_q = eta_q + change
        elif which == 1:
            g = g + change
        else:
            own = replace(own, g=own.g + change)
        value = Problem(eta_q, replace(each.mixture, g=g, own=own)).evaluate(approximation, local)
        return (weights * value.numpy()).sum()

    random = np.random.default_rng(1)
    for which, gradient in enumerate(gradients):
        direction = torch.as_tensor(random.standard_normal(tuple(gradient.shape)))
        direction = 0.5 * direction / direction.abs().max()
        slope = (moved(which, direction, 1) - moved(which, direction, -1)) / (2 * step)
        assert float((gradient * direction).sum()) == pytest.approx(slope, rel=1e-5, abs=1e-6)


# ---- 3. the interior bound ---------------------------------------------------------------------


@pytest.mark.parametrize("regime", REGIMES)
@owning
def test_closed_optimal_and_true_values_are_in_order(regime, own):
    for seed in range(2):
        each = problem(DiagonalGaussian(1), seed, own=own, regime=regime, spread=1.5, n=4)
        closed, optimal = each.evaluate(InteriorBound()), each.evaluate(OptimalInteriorBound())
        assert (closed >= optimal - 1e-9).all()
        assert (optimal.numpy() >= each.integral(20001) - (1e-3 if regime == "hard" else 1e-8)).all()
    assert InteriorBound().kind is OptimalInteriorBound().kind is FreeInteriorBound().kind is Kind.UPPER_BOUND


@pytest.mark.parametrize("regime", ["narrow", "wide"])
@pytest.mark.parametrize("name", ["diagonal-2", "full-2"])
def test_closed_optimal_and_true_values_are_in_order_for_two_latents(name, regime):
    each = problem(FAMILIES[name], 0, own=True, regime=regime, n=2)
    closed, optimal = each.evaluate(InteriorBound()), each.evaluate(OptimalInteriorBound())
    assert (closed >= optimal - 1e-9).all()
    assert (optimal.numpy() >= each.integral(201) - 1e-6).all()


@pytest.mark.parametrize("name", ["diagonal-1", "diagonal-3", "full-2"])
@pytest.mark.parametrize("regime", ["narrow", "wide"])
def test_no_free_auxiliary_is_better_than_the_optimal_one(name, regime):
    family = FAMILIES[name]
    each = problem(family, 6, own=True, regime=regime, n=2)
    free = FreeInteriorBound()
    start = free.initial_parameters(family, lambda: each.eta_q)["auxiliary"]
    torch.testing.assert_close(each.evaluate(free, {"auxiliary": start}), each.evaluate(InteriorBound()))
    optimal = each.evaluate(OptimalInteriorBound(STEPS[regime]))
    random = np.random.default_rng(0)
    for scale in (0.1, 1.0, 5.0):
        for begin in (start, torch.zeros_like(start)):
            raw = begin + torch.as_tensor(scale * random.standard_normal(tuple(start.shape)))
            assert (each.evaluate(free, {"auxiliary": raw}) >= optimal - 1e-9).all()
    longer = torch.cat([start, start], 1)
    torch.testing.assert_close(each.evaluate(free, {"auxiliary": longer}), each.evaluate(InteriorBound()))
    assert isinstance(free.for_new_data(), OptimalInteriorBound)


@pytest.mark.parametrize("regime", ["narrow", "wide"])
def test_the_optimal_bound_is_the_least_over_all_admissible_auxiliaries(regime):
    """The paper's constraint is that η_m − η̃ = a + g_m is valid for every m; a itself need not be."""
    family = DiagonalGaussian(1)
    each = problem(family, 7, own=True, regime=regime)
    optimal = each.evaluate(OptimalInteriorBound(STEPS[regime]))
    for n, t in each.places:
        least = integrals.least_interior_bound(each.mixture, each.eta_q[n, t].numpy(), n, t)
        assert float(optimal[n, t]) == pytest.approx(least, abs=1e-6)


@pytest.mark.parametrize("name", ["diagonal-1", "diagonal-3", "full-2"])
@pytest.mark.parametrize("regime", ["narrow", "wide"])
def test_the_optimal_auxiliary_matches_the_moments_of_q(name, regime):
    """Σ_m w_m μ(a + g_m) = μ_q with w ∝ c_m exp(Φ(a+g_m) − Φ(η₀+g_m))."""
    family = FAMILIES[name]
    each = problem(family, 8, own=True, regime=regime, zeros=0.0, n=2)
    a = OptimalInteriorBound(STEPS[regime]).auxiliary(each.eta_q, each.mixture, {}).numpy()
    for n, t in each.places:
        weights, members, reference = each.members(n, t)
        tilted = a[n, t] + members - reference
        logs = np.log(weights) + log_normaliser(family, tilted) - log_normaliser(family, members)
        shares = np.exp(logs - logsumexp(logs))
        mu_q = expected_statistic(family, each.eta_q[n, t])
        np.testing.assert_allclose(shares @ expected_statistic(family, tilted), mu_q, atol=1e-6)


@pytest.mark.parametrize("name", ["diagonal-1", "diagonal-3", "full-2"])
@pytest.mark.parametrize("regime", ["narrow", "wide"])
def test_the_optimal_bound_is_exact_when_all_atoms_coincide(name, regime):
    each = problem(FAMILIES[name], 9, count=3, regime=regime, zeros=0.0, n=2)
    g = each.mixture.g[:, :1].expand(-1, 3, -1)
    same = Problem(each.eta_q, replace(each.mixture, g=g))
    exact = same.evaluate(GaussHermite(3))
    np.testing.assert_allclose(same.evaluate(OptimalInteriorBound(STEPS[regime])), exact, rtol=1e-8, atol=1e-8)
    assert (same.evaluate(InteriorBound()) > exact).all()


# ---- 4. equation (9) ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["interior", "interior_optimal", "interior_free"])
@pytest.mark.parametrize("seed", range(2))
def test_equation_9(name, seed):
    """F̃ = log p(X) − KL(q‖p(·|X)) − Σ_j KL(q‖F_j/(Γ̃_j f̃_j)), every term an integral over z."""
    family, approximation, random = DiagonalGaussian(1), APPROXIMATIONS[name], np.random.default_rng(seed)
    prior = natural(family, np.zeros(1), np.eye(1))
    first = problem(family, 10 + seed, n=1, sites=1, zeros=0.0)
    two = [replace(problem(family, s, sites=1, zeros=0.0).mixture, reference=prior[None]) for s in (seed, 50 + seed)]
    eta_q = first.eta_q
    z, step = np.linspace(-40.0, 40.0, 160001, retstep=True)

    def log_density(eta):
        return integrals.log_density(family, eta, z[:, None])

    def integral(log_values):
        return integrals.log_integral(log_values, step)

    log_q, log_p = log_density(eta_q[0, 0]), log_density(prior)
    q = np.exp(log_q) * step
    log_f = [log_density((prior + mixture.g[0, 0]).numpy()) for mixture in two]  # x is the first observation
    log_mixture, penalties, library = [], 0.0, -float(family.kl(eta_q, prior))
    for mixture in two:
        each = Problem(eta_q, mixture)
        weights, members, _ = each.members(0, 0)
        logs = np.array([log_density(member) for member in members])
        log_mixture.append(logsumexp(logs, axis=0, b=weights[:, None]))
        local = {}
        if name == "interior_free":
            noise = torch.as_tensor(0.5 * random.standard_normal((1, 1, 2)))
            local = {"auxiliary": family.to_raw(eta_q) + noise}
        a = approximation.auxiliary(eta_q, mixture, local)[0, 0].numpy()
        auxiliary = prior.numpy() - a  # η̃
        log_tilted = log_mixture[-1] - statistic(family, z[:, None]) @ auxiliary
        penalties += q @ (log_q - (log_tilted - integral(log_tilted)))
        recognition = (mixture.g[0, 0] * family.mean(eta_q[0, 0])).sum() - mixture.log_shift(mixture.g[:, :1])[0, 0]
        library += float(recognition - each.evaluate(approximation, local)[0, 0])
    joint = log_p + sum(log_f) - sum(log_mixture)
    log_likelihood = integral(joint)
    expected = log_likelihood - q @ (log_q - (joint - log_likelihood)) - penalties
    assert library == pytest.approx(expected, abs=1e-8)
    assert library <= log_likelihood


# ---- 5. second order ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["diagonal-1", "diagonal-2", "full-1", "full-2"])
def test_second_order_error_vanishes_faster_than_the_variance(name):
    family = FAMILIES[name]
    errors = []
    for variance in (0.004, 0.001, 0.00025):
        each = problem(family, 11, own=True, n=6, regime={"atoms": (0.1, 1.0), "q": (variance, variance * 1.5)})
        errors.append((each.evaluate(SecondOrder()) - each.evaluate(GaussHermite(32))).abs().max())
    assert errors[0] < 0.1
    assert errors[1] < errors[0] / 8
    assert errors[2] < errors[1] / 8


@pytest.mark.parametrize("family", [*FAMILIES.values(), FullGaussian(3)])
@pooling
def test_second_order_is_equation_6_with_the_printed_covariance(family, pooled):
    """In the paper's absolute parameters, with all of V_q (K + K² square) written out."""
    each = problem(family, 12, own=True, pooled=pooled, n=2)
    found = each.evaluate(SecondOrder())
    full = FullGaussian(family.latents)

    def flat(eta):
        first, precision = parts(family, eta)
        return np.concatenate([first, -0.5 * precision.reshape(*precision.shape[:-2], -1)], -1)

    for n, t in each.places:
        weights, members, reference = each.members(n, t)
        mean, covariance = normal(family, each.eta_q[n, t])
        mu_q = expected_statistic(full, flat(each.eta_q[n, t]))
        eta = flat(members)  # [m, K + K²]
        terms = np.log(weights) + eta @ mu_q - log_normaliser(family, members)
        shares = np.exp(terms - logsumexp(terms))
        inner = eta @ kronecker_covariance(mean, covariance) @ eta.T
        trace = np.trace(inner @ (np.diag(shares) - np.outer(shares, shares)))
        log_r = flat(reference) @ mu_q - log_normaliser(family, reference)
        assert float(found[n, t]) == pytest.approx(logsumexp(terms) + 0.5 * trace - log_r, abs=1e-9)


@pytest.mark.parametrize("name", ["quadrature", "grid", "interior_optimal", "second_order"])
@families
def test_a_common_potential_is_a_matter_of_the_reference(name, family):
    """g + c relative to η₀ − c are the same atoms: only r changes."""
    approximation = APPROXIMATIONS[name]
    skip_unfit(approximation, family)
    each = problem(family, 13, pooled=True)
    common = 0.4 * each.mixture.reference
    mixture = replace(each.mixture, reference=each.mixture.reference - common, g=each.mixture.g + common[:, None])
    mu_q = expected_statistic(family, each.eta_q)
    reference, other = each.mixture.reference[0].numpy(), mixture.reference[0].numpy()
    log_r = mu_q @ (reference - other) - log_normaliser(family, reference) + log_normaliser(family, other)
    moved = Problem(each.eta_q, mixture).evaluate(approximation).numpy()
    np.testing.assert_allclose(moved, each.evaluate(approximation).numpy() + log_r, atol=1e-8)


# ---- 6. Monte Carlo ----------------------------------------------------------------------------


@families
@owning
def test_monte_carlo_is_unbiased(family, own):
    each = problem(family, 14, own=own)
    draws = MonteCarlo(4000, fresh=False, seed=1).draws(each.eta_q, each.mixture)
    error = (draws.mean(-1) - each.evaluate(GaussHermite(16 if family.latents == 3 else 32))).abs()
    assert (error < 4 * draws.std(-1) / 4000**0.5 + 1e-6).all()
    torch.testing.assert_close(each.evaluate(MonteCarlo(4000, fresh=False, seed=1)), draws.mean(-1))


@families
@pooling
def test_fixed_noise_does_not_depend_on_the_company(family, pooled):
    each = problem(family, 15, pooled=pooled, own=True)
    fixed = MonteCarlo(5, fresh=False, seed=3)
    together = each.evaluate(fixed)
    assert torch.equal(together, each.evaluate(fixed))
    assert not torch.equal(together, each.evaluate(MonteCarlo(5, fresh=False, seed=4)))
    own = each.mixture.own
    for n in range(3):
        mixture = replace(each.mixture, own=Factor(own.g[n : n + 1], own.present[n : n + 1]))
        alone = Problem(each.eta_q[n : n + 1], mixture).evaluate(fixed)
        torch.testing.assert_close(alone[0], together[n], rtol=0.0, atol=1e-12)
    first = each.mixture.at_sites(1, each.mixture.reference[:1])
    first = replace(first, own=Factor(own.g[:, :1], own.present[:, :1]))
    torch.testing.assert_close(Problem(each.eta_q[:, :1], first).evaluate(fixed), together[:, :1], rtol=0.0, atol=1e-12)


def test_fresh_noise_is_fresh_in_training_alone():
    each = problem(DiagonalGaussian(2), 16)
    fresh = MonteCarlo(5)
    torch.manual_seed(0)
    one, two = each.evaluate(fresh), each.evaluate(fresh)
    assert (one != two).all()
    torch.manual_seed(0)
    assert torch.equal(one, each.evaluate(fresh))
    fixed = fresh.for_new_data()
    assert isinstance(fixed, MonteCarlo)
    assert not fixed.fresh
    assert fixed.samples == 5
    assert torch.equal(each.evaluate(fixed), each.evaluate(fresh.for_new_data()))
    assert InteriorBound().for_new_data().kind is Kind.UPPER_BOUND


# ---- 7. blocks ---------------------------------------------------------------------------------


@approximations
@pytest.mark.parametrize(
    ("family", "pooled"), [(DiagonalGaussian(1), True), (FullGaussian(2), False)], ids=["pooled", "per site, own"]
)
def test_blocks_of_atoms_change_nothing(approximation, family, pooled, monkeypatch):
    skip_unfit(approximation, family)
    each = problem(family, 17, pooled=pooled, own=not pooled, count=5, n=2)
    log_count = each.mixture.log_count.clone()
    log_count[:, :2] = -torch.inf  # whole blocks without a count
    each = Problem(each.eta_q, replace(each.mixture, log_count=log_count))
    values, gradients = values_and_gradients(each, approximation)
    for atoms in (1, 2, 3):
        monkeypatch.setattr(reduce, "PAIR_BUDGET", 1 if atoms == 1 else 2**24)
        if atoms > 1:  # so many atoms a block, whatever one atom is said to hold
            monkeypatch.setattr(reduce, "_each_block", _blocks_of(atoms, reduce._each_block))
        blocked, again = values_and_gradients(each, approximation)
        torch.testing.assert_close(blocked, values, rtol=1e-10, atol=1e-10)
        for one, other in zip(again, gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)
        monkeypatch.undo()


def _blocks_of(atoms, original):
    def each_block(reduced, n_atoms, numbers_per_atom):
        return original(reduced, n_atoms, reduce.PAIR_BUDGET // atoms)

    return each_block


# ---- 8. full and diagonal ----------------------------------------------------------------------


@approximations
@pytest.mark.parametrize("latents", [1, 2])
def test_full_is_diagonal_without_off_diagonals(approximation, latents):
    diagonal, full = DiagonalGaussian(latents), FullGaussian(latents)
    skip_unfit(approximation, diagonal)
    each = problem(diagonal, 18, own=True)

    def embedded(eta):
        return torch.cat([eta[..., :latents], torch.diag_embed(eta[..., latents:]).flatten(-2)], -1)

    own = replace(each.mixture.own, g=embedded(each.mixture.own.g))
    reference, g = embedded(each.mixture.reference), embedded(each.mixture.g)
    other = Problem(embedded(each.eta_q), replace(each.mixture, family=full, reference=reference, g=g, own=own))
    one, gradients = values_and_gradients(each, approximation)
    two, full_gradients = values_and_gradients(other, approximation)
    if isinstance(approximation, OptimalInteriorBound) and latents > 1:
        assert (two <= one + 1e-9).all()  # a has off-diagonals to choose, and diagonal atoms may be correlated
        assert (two.numpy() >= other.integral(101) - 1e-6).all()
        return
    torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)
    kept = embedded(torch.ones(2 * latents, dtype=DOUBLE)) != 0
    for narrow, whole in zip(gradients, full_gradients, strict=True):
        torch.testing.assert_close(narrow, whole[..., kept], rtol=1e-7, atol=1e-8)


# ---- 9. whose atoms ----------------------------------------------------------------------------


def test_atoms_of_policies_are_what_the_oracle_takes_them_for():
    """PerSite and Pooled with missing factors and weights, through an approximation."""
    family, random = DiagonalGaussian(1), np.random.default_rng(0)
    each = problem(family, 19, n=4, sites=3)
    g = problem(family, 20, n=4, sites=3, regime={"atoms": (0.1, 1.0), "q": (0.1, 1.0)}).eta_q
    present = torch.as_tensor(random.random((4, 3)) > 0.3)
    weights = torch.as_tensor(random.uniform(0.5, 2.0, 4))
    for policy in (PerSite(), Pooled()):
        factor = Factor(torch.where(present[..., None], g, 0.0), present)
        mixture = policy.collect(family, each.mixture.reference[:1], factor, weights)
        found = Problem(each.eta_q, mixture)
        np.testing.assert_allclose(found.evaluate(SharedGrid()), found.integral(), atol=1e-6)


# ---- 10. refusals ------------------------------------------------------------------------------


@approximations
def test_discrete_latents_are_refused(approximation):
    if isinstance(approximation, SecondOrder | InteriorBound):
        approximation.check(Categorical(3))  # it has what it takes: a covariance of its statistic, or Φ and μ alone
        return
    with pytest.raises(BuildError, match="Categorical"):
        approximation.check(Categorical(3))
    Exact().check(Categorical(3))


def test_too_many_latents_are_refused():
    for family in (DiagonalGaussian, FullGaussian):
        GaussHermite().check(family(3))
        SharedGrid().check(family(1))
        with pytest.raises(BuildError, match="4"):
            GaussHermite().check(family(4))
        with pytest.raises(BuildError, match="2"):
            SharedGrid().check(family(2))
        for approximation in (
            InteriorBound(),
            OptimalInteriorBound(),
            FreeInteriorBound(),
            SecondOrder(),
            MonteCarlo(),
        ):
            approximation.check(family(7))
            with pytest.raises(BuildError):
                Exact().check(family(7))


# ---- 11. float32, and extremes -----------------------------------------------------------------


def sharp_problem(family, seed, own):
    """Factors of precision 1 to 500 and means within ±3, q the posterior of two of them."""
    random = np.random.default_rng(seed)

    def potentials(*shape):
        mean = random.uniform(-3, 3, (*shape, family.latents))
        return natural(family, mean, random_covariance(random, family, shape, 1 / 500, 1.0))

    reference = natural(family, np.zeros((2, family.latents)), np.eye(family.latents)[None].repeat(2, 0))
    g = potentials(2, 12)
    mixture = AtomMixture(family, reference, False, g, torch.zeros(2, 12, dtype=DOUBLE))
    if own:
        mixture = mixture.with_own(Factor(potentials(12, 2), torch.ones(12, 2, dtype=torch.bool)), reference)
    return Problem(reference + 2.0 * g.transpose(0, 1), mixture)


@pytest.mark.parametrize("name", ["diagonal-1", "diagonal-2", "full-2"])
@pytest.mark.parametrize("what", ["quadrature", "interior", "interior_optimal", "second_order"])
def test_float32_is_good_enough_for_sharp_factors(name, what):
    family = FAMILIES[name]
    approximation = quadrature(family.latents) if what == "quadrature" else APPROXIMATIONS[what]
    each = sharp_problem(family, 1, own=True)
    single = in_dtype(each, torch.float32).evaluate(approximation)
    assert single.dtype == torch.float32
    np.testing.assert_allclose(single, each.evaluate(approximation), atol=1e-3)


@approximations
@pytest.mark.parametrize("name", ["diagonal-1", "full-2"])
@pytest.mark.parametrize("dtype", [DOUBLE, torch.float32], ids=["float64", "float32"])
@pytest.mark.filterwarnings("ignore:The shared grid")
def test_extreme_precisions_keep_values_and_gradients_finite(approximation, name, dtype):
    """Precisions from 1e-3 to 1e4, single atoms, zero counts, means far apart."""
    skip_unfit(approximation, FAMILIES[name])
    sharp, mixed, broad = (1e-4, 1e-3), (1e-4, 1e3), (1e2, 1e3)
    for count, atoms, q in [(1, sharp, broad), (5, mixed, mixed)]:
        variances = {"atoms": atoms, "q": q}
        each = problem(FAMILIES[name], 21, own=count > 1, count=count, spread=3.0, regime=variances, n=2)
        values, gradients = values_and_gradients(in_dtype(each, dtype), approximation)
        assert torch.isfinite(values).all()
        assert all(torch.isfinite(gradient).all() for gradient in gradients)


@pytest.mark.parametrize("dtype", [DOUBLE, torch.float32], ids=["float64", "float32"])
def test_a_free_auxiliary_may_lose_all_precision(dtype):
    """Raw numbers so low that softplus underflows: a has precision zero, every atom with a count makes a + g valid."""
    each = problem(DiagonalGaussian(1), 22, zeros=0.0)
    log_count, g = each.mixture.log_count.clone(), each.mixture.g.clone()
    log_count[:, 0], g[:, 0] = -torch.inf, 0.0  # an absent factor, as the recognition networks leave it
    each = in_dtype(Problem(each.eta_q, replace(each.mixture, log_count=log_count, g=g)), dtype)
    raw = torch.zeros(3, 2, 2, dtype=dtype)
    raw[..., 1] = -1000.0
    values, gradients = values_and_gradients(each, FreeInteriorBound(), {"auxiliary": raw})
    assert (values.numpy() >= each.integral() - 1e-3).all()
    assert all(torch.isfinite(gradient).all() for gradient in gradients)
