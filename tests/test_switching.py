"""Dynamics that switch, against enumeration of all sequences of states, the dense Gaussian, and each other."""

import itertools

import numpy as np
import pytest
import torch

import rpmodels as rp
from oracles import gaussians
from oracles.differences import central_difference
from oracles.gaussians import as_numpy
from registry import sites_of
from rpmodels.alignment import equal_states
from rpmodels.carriers import Sites
from rpmodels.estimators.switching_marginals import quantile
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.learning.switching_starts import regroup
from rpmodels.priors import LinearDynamicsPrior, MarkovChainPrior, SwitchingDynamicsPrior
from rpmodels.priors.regimes import Affine, Counted, of_path

DOUBLE = torch.float64
K, M = 2, 3
INITIAL = torch.tensor([0.5, 0.3, 0.2], dtype=DOUBLE)
STEPS = torch.tensor([[0.8, 0.1, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6]], dtype=DOUBLE)


def dynamics(seed=0, states=M, size=K, alike=False):
    """Of every state; pushed to somewhere, none of them symmetric."""
    random = np.random.default_rng(seed)
    A = 0.7 * np.linalg.qr(random.standard_normal((states, size, size)))[0]
    b = 0.5 * random.standard_normal((states, size))
    root = 0.3 * random.standard_normal((states, size, size))
    Q = root @ root.transpose(0, 2, 1) + 0.2 * np.eye(size)
    parts = (A, b, Q)
    if alike:
        parts = tuple(np.repeat(each[:1], states, 0) for each in parts)
    return Affine(*(torch.tensor(each) for each in parts))


class Known(SwitchingDynamicsPrior):
    """With these dynamics, whatever was counted."""

    def __init__(self, given, initial=INITIAL, steps=STEPS):
        super().__init__(FullGaussian(given.b.shape[1]), MarkovChainPrior.fixed(initial, steps))
        self.double()
        self.given = given
        self.regimes.learned = lambda: given
        one = Affine(*(each[:1] for each in given))
        self.regimes.overall = lambda: one


def random_potentials(n, length, size=K, seed=0):
    return gaussians.random_potentials(FullGaussian(size), n, length, floor=0.3, seed=seed)


def dense(given, path, h, W):
    """Mean, covariance and log ∫ of one sequence of states by one linear system."""
    A, b, Q = (as_numpy(each) for each in given)
    length, size = h.shape
    J, shift, constant = np.zeros((length * size,) * 2), np.zeros(length * size), 0.0
    J[:size, :size] += np.eye(size)
    for t in range(1, length):
        s, now, before = path[t], slice(t * size, (t + 1) * size), slice((t - 1) * size, t * size)
        L = np.linalg.inv(Q[s])
        J[now, now] += L
        J[before, before] += A[s].T @ L @ A[s]
        J[now, before] -= L @ A[s]
        J[before, now] -= A[s].T @ L
        shift[now] += L @ b[s]
        shift[before] -= A[s].T @ L @ b[s]
        constant += 0.5 * np.linalg.slogdet(L)[1] - 0.5 * b[s] @ L @ b[s]
    for t in range(length):
        J[t * size : (t + 1) * size, t * size : (t + 1) * size] += W[t]
    shift += h.ravel()
    covariance = np.linalg.inv(J)
    value = constant + 0.5 * shift @ covariance @ shift - 0.5 * np.linalg.slogdet(J)[1]
    return (covariance @ shift).reshape(length, size), covariance, value


def enumerated(given, h, W, initial=INITIAL, steps=STEPS):
    """log ∫ p(Z) exp(Σ potentials·t), p(s_t) and ⟨z_t⟩ over all sequences of states."""
    first, transition = as_numpy(initial), as_numpy(steps)
    values, states, means = [], [], []
    for path in itertools.product(range(len(first)), repeat=len(h)):
        p = first[path[0]] * np.prod([transition[i, j] for i, j in itertools.pairwise(path)])
        mean, _, value = dense(given, path, h, W)
        values.append(np.log(p) + value)
        states.append(np.eye(len(first))[list(path)])
        means.append(mean)
    values = np.array(values)
    total = np.logaddexp.reduce(values)
    share = np.exp(values - total)
    return total, np.einsum("p,ptm->tm", share, states), np.einsum("p,ptk->tk", share, means)


# ---- exact cases ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 9, 40])
def test_with_one_state_it_is_the_smoother_of_linear_dynamics(length):
    plain = LinearDynamicsPrior(FullGaussian(K), memory=0.8, rotation=0.4).double()
    step = plain.transition()
    still = Affine(*(each.detach()[None].repeat(M, *[1] * each.ndim) for each in (step.A, torch.zeros(K), step.Q)))
    still = Affine(still.A, still.b.double(), still.Q)
    prior = Known(still)
    potentials = random_potentials(3, length)[2]
    sites = sites_of([length, max(1, length - 1), max(1, length // 2)], length)
    one, other = prior.condition(potentials, sites), plain.condition(potentials, sites)
    there = sites.exists
    for got, expected in ((one.mu, other.mu), (one.eta, other.eta)):
        torch.testing.assert_close(got[there], expected[there], rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(one.kl, other.kl, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(one.bound, other.log_partition, rtol=1e-8, atol=1e-8)
    expected = torch.stack([INITIAL @ torch.linalg.matrix_power(STEPS, t) for t in range(length)])
    torch.testing.assert_close(one.probabilities[0], expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("seed", range(3))
def test_states_that_are_known_leave_one_dense_gaussian(seed):
    """0 → 1 → 2 → 0 …, so that every step has dynamics of its own and nothing is approximate."""
    given, length = dynamics(seed), 7
    first, steps = torch.eye(M, dtype=DOUBLE)[0], torch.eye(M, dtype=DOUBLE).roll(1, 1)
    h, W, potentials = random_potentials(2, length, seed=seed)
    posterior = Known(given, first, steps).condition(potentials, sites_of([length] * 2))
    for n in range(2):
        mean, covariance, value = dense(given, [t % M for t in range(length)], h[n], W[n])
        np.testing.assert_allclose(as_numpy(posterior.of_latents.mean[:, n]), mean, rtol=1e-7, atol=1e-7)
        blocks = covariance.reshape(length, K, length, K)[range(length), :, range(length)]
        np.testing.assert_allclose(as_numpy(posterior.of_latents.covariance[:, n]), blocks, rtol=1e-7, atol=1e-7)
        assert float(posterior.bound[n]) == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize("length", [1, 2, 4, 6])
def test_the_bound_is_below_the_sum_over_all_sequences_and_equal_where_states_are_alike(length):
    h, W, potentials = random_potentials(2, length, seed=length)
    sites = sites_of([length] * 2)
    for given, exact in ((dynamics(1), length == 1), (dynamics(1, alike=True), True)):
        posterior = Known(given).condition(potentials, sites)
        for n in range(2):
            total, states, means = enumerated(given, h[n], W[n])
            gap = total - float(posterior.bound[n])
            assert -1e-8 < gap < (1e-8 if exact else 4.0)
            if exact:
                np.testing.assert_allclose(as_numpy(posterior.probabilities[n]), states, atol=1e-8)
                np.testing.assert_allclose(as_numpy(posterior.of_latents.mean[:, n]), means, atol=1e-8)


def test_every_round_raises_the_bound():
    """Blocks by hand from random states, each round against the one before it."""
    given = dynamics(3)
    prior = Known(given)
    _, _, potentials = random_potentials(4, 12, seed=2)
    problem = prior.condition(potentials, sites_of([12, 9, 5, 1])).problem
    said = 3.0 * torch.randn(4, 12, M, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    values = []
    for _ in range(12):
        states = problem.by(said)
        q, value = problem.latents(problem.averaged(states.mu[:, 1:]))
        values.append(value - states.kl)
        said = problem.states(q).potentials
    gained = torch.stack(values).diff(dim=0)
    assert (gained > -1e-9).all()
    assert (gained[0, :3] > 1e-3).all()


def test_settled_blocks_are_the_best_given_each_other():
    given = dynamics(4)
    _, _, potentials = random_potentials(3, 8, seed=3)
    posterior = Known(given).condition(potentials, sites_of([8, 8, 5]))
    again = posterior.problem.states(posterior.of_latents)
    torch.testing.assert_close(again.mu, posterior.states.mu, rtol=1e-4, atol=1e-4)


# ---- gradients -----------------------------------------------------------------------------------------------


def test_gradients_of_the_bound_are_those_of_finite_differences_everything_found_anew():
    given = dynamics(5)
    prior, sites = Known(given), sites_of([6, 4])
    _, _, potentials = random_potentials(2, 6, seed=4)
    potentials.requires_grad_()
    (gradient,) = torch.autograd.grad(prior.condition(potentials, sites).bound.sum(), potentials)
    free = potentials.detach().clone()

    def anew():
        return prior.condition(free, sites).bound.sum()

    for place in ((0, 0, 0), (0, 5, 1), (1, 2, 2), (1, 3, 5)):
        found = central_difference(anew, free, place, 1e-4)
        assert found == pytest.approx(float(gradient[place]), rel=1e-4, abs=1e-5)
    assert (gradient[1, 4:] == 0).all()


def test_gradients_of_the_latents_are_those_with_the_states_held():
    prior, sites = Known(dynamics(5)), sites_of([6, 4])
    _, _, potentials = random_potentials(2, 6, seed=5)
    held = prior.condition(potentials, sites).states.potentials
    theta = prior.dynamics().natural()

    def latents(given):
        problem = prior.condition(given, sites).problem
        q, _ = problem.latents(problem.averaged(problem.by(held).mu[:, 1:], theta))
        return q.mean[:, 0].square().sum()

    free = potentials.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(prior.condition(free, sites).latent_mean[0].square().sum(), free)
    fixed = potentials.clone()
    for place in ((0, 0, 0), (0, 3, 1), (0, 5, 2)):
        found = central_difference(lambda: latents(fixed), fixed, place, 1e-5)
        assert found == pytest.approx(float(gradient[place]), rel=1e-5, abs=1e-7)


# ---- density, draws ----------------------------------------------------------------------------------------


def test_the_density_is_summed_over_all_sequences():
    given, length = dynamics(6), 4
    prior = Known(given)
    z = torch.randn(2, 3, length, K, dtype=DOUBLE, generator=torch.Generator().manual_seed(0))
    sites = sites_of([4, 3, 1])
    found = prior.log_density(z, sites)
    theta, u = given.natural(), of_path(z)
    for d, (n, count) in itertools.product(range(2), enumerate([4, 3, 1])):
        paths = []
        for path in itertools.product(range(M), repeat=count):
            p = INITIAL[path[0]].log() + sum(STEPS[i, j].log() for i, j in itertools.pairwise(path))
            paths.append(p + sum(theta[path[t + 1]] @ u[d, n, t] for t in range(count - 1)))
        first = -0.5 * z[d, n, 0].square().sum() - np.log(2 * np.pi)
        assert float(found[d, n]) == pytest.approx(float(torch.stack(paths).logsumexp(0) + first), abs=1e-10)


def test_draws_weigh_the_bound_up_to_the_sum_over_all_sequences():
    """Importance sampling from q, whose draws know p/q, closes the gap."""
    given, length, n = dynamics(1), 5, 20_000
    prior = Known(given)
    h, W, potentials = random_potentials(1, length, seed=8)
    total = enumerated(given, h[0], W[0])[0]
    one = prior.condition(potentials, sites_of([length]))
    posterior = prior.condition(potentials.expand(n, -1, -1), sites_of([length] * n))
    z, log_ratio = posterior.draw(torch.Generator().manual_seed(0))
    said = (potentials * prior.family.statistic(z)).sum((1, 2)).double()
    weights = (said + log_ratio - float(one.bound[0])).exp()
    error = weights.std() / n**0.5
    assert abs(weights.mean().log() - (total - float(one.bound[0]))) < 5 * error / weights.mean() + 1e-6


def test_draws_of_the_prior_have_the_moments_of_one_step():
    given, n = dynamics(7), 40_000
    prior = Known(given)
    z, states = prior.draw(sites_of([3] * n), torch.Generator().manual_seed(1))
    for s in range(M):
        here = states[:, 2] == s
        off = z[here, 2].double() - z[here, 1].double() @ given.A[s].T - given.b[s]
        np.testing.assert_allclose(off.mean(0), 0, atol=5 * float(given.Q[s].diagonal().max() / here.sum()) ** 0.5)
        np.testing.assert_allclose(np.cov(off.T.numpy()), given.Q[s], atol=0.02)


# ---- learning ------------------------------------------------------------------------------------------------


def spread_over(prior, z, sites, states):
    weights = torch.nn.functional.one_hot(states[:, 1:], M).double() * sites.exists[:, 1:, None]
    return Counted.from_steps(weights.flatten(0, 1), of_path(z).flatten(0, 1), K)


def test_the_update_is_weighted_least_squares():
    prior, n = Known(dynamics(8)), 50
    sites = sites_of([30] * n)
    z, states = prior.draw(sites, torch.Generator().manual_seed(2))
    z = z.double()
    free = SwitchingDynamicsPrior(FullGaussian(K), MarkovChainPrior.learned(M), counts=1e-9).double()
    free.regimes.restart(spread_over(free, z, sites, states))
    found = free.dynamics()
    for s in range(M):
        here = states[:, 1:].numpy() == s
        y = np.concatenate([z[:, :-1].numpy()[here], np.ones((here.sum(), 1))], 1)
        C, *_ = np.linalg.lstsq(y, z[:, 1:].numpy()[here], rcond=None)
        off = z[:, 1:].numpy()[here] - y @ C
        np.testing.assert_allclose(np.c_[found.A[s], found.b[s]], C.T, atol=1e-7)
        np.testing.assert_allclose(found.Q[s], off.T @ off / len(off), atol=1e-7)


def test_learning_from_potentials_finds_the_dynamics_again():
    given, n, sd = dynamics(2), 40, 0.05
    sites = sites_of([60] * n)
    z, states = Known(given).draw(sites, torch.Generator().manual_seed(3))
    precise = torch.eye(K, dtype=DOUBLE).flatten().expand(n, 60, -1) / sd**2
    potentials = torch.cat([z.double() / sd**2, -0.5 * precise], -1)
    prior = SwitchingDynamicsPrior(FullGaussian(K), MarkovChainPrior.learned(M)).double()
    regroup(prior, z.numpy(), sites, seed=0)
    values = []
    for _ in range(15):
        posterior = prior.condition(potentials, sites)
        values.append(float(posterior.bound.sum()))
        prior.update(prior.sums(posterior, torch.ones(n, dtype=DOUBLE)), 1.0)
    assert equal_states(as_numpy(posterior.viterbi()), states.numpy(), M) > 0.75
    # Monotone but for the conjugate prior, which counts a tenth of a step.
    assert (np.diff(values) > -0.1).all()
    assert values[-1] > values[0] + 1.0


def test_sums_do_not_depend_on_padding_or_the_order_of_trials():
    prior = SwitchingDynamicsPrior(FullGaussian(K), MarkovChainPrior.learned(M), rotation=0.5).double()
    _, _, potentials = random_potentials(3, 7, seed=6)
    sites, weights = sites_of([7, 4, 1]), torch.tensor([1.0, 2.0, 0.5], dtype=DOUBLE)
    whole = prior.sums(prior.condition(potentials, sites), weights)
    order = torch.tensor([2, 0, 1])
    junk = torch.where(sites.exists[..., None], potentials, 99.0 * potentials)
    turned = prior.sums(prior.condition(junk[order], sites.take(order)), weights[order])
    for name, each in whole.items():
        torch.testing.assert_close(turned[name], each, rtol=1e-8, atol=1e-8)
    assert float(whole["steps"].sum()) == pytest.approx(6 + 2 * 3)


# ---- as time goes by ---------------------------------------------------------------------------------------


def test_the_filter_is_exact_for_one_step_and_where_states_are_alike():
    given = dynamics(9)
    h, W, potentials = random_potentials(2, 2, seed=9)
    found = Known(given).filter(potentials, sites_of([2, 2]))
    alike = dynamics(9, alike=True)
    h6, W6, longer = random_potentials(2, 6, seed=10)
    long = Known(alike).filter(longer, sites_of([6, 6]))
    for n in range(2):
        _, states, means = enumerated(given, h[n], W[n])
        np.testing.assert_allclose(as_numpy(found.probabilities[n, 1]), states[1], atol=1e-8)
        np.testing.assert_allclose(as_numpy(found.mean[n, 1]), means[1], atol=1e-8)
        _, _, means = enumerated(alike, h6[n], W6[n])
        np.testing.assert_allclose(as_numpy(long.mean[n, 5]), means[5], atol=1e-8)


def test_forecasts_have_the_moments_of_draws_and_bands_that_hold_them():
    """One step: a normal for every state, nothing collapsed. Several: moments of a mixture are kept exactly."""
    given, n = dynamics(4), 60_000
    prior = Known(given)
    now = prior.filter(torch.zeros(1, 1, K + K * K, dtype=DOUBLE), sites_of([1]))
    ahead = prior.predict(type(now)(*(each[:, 0] for each in now)), 3)
    z = prior.draw(sites_of([4] * n), torch.Generator().manual_seed(5))[0].double()
    for t in range(3):
        np.testing.assert_allclose(ahead.mean[0, t], z[:, t + 1].mean(0), atol=0.03)
        np.testing.assert_allclose(ahead.covariance[0, t], np.cov(z[:, t + 1].T.numpy()), atol=0.05)
    parts = [as_numpy(each[0, 0]) for each in (ahead.probabilities, ahead.means, ahead.covariances)]
    low, high = (quantile(*parts, level) for level in (0.05, 0.95))
    inside = (z[:, 1].numpy() > low) & (z[:, 1].numpy() < high)
    np.testing.assert_allclose(inside.mean(0), 0.9, atol=0.01)


# ---- what is refused ---------------------------------------------------------------------------------------


def test_families_and_times_that_it_cannot_have_are_refused():
    chain = MarkovChainPrior.learned(2)
    with pytest.raises(rp.RPModelsError, match="correlates latents"):
        SwitchingDynamicsPrior(DiagonalGaussian(2), chain)
    with pytest.raises(rp.RPModelsError, match="another family"):
        SwitchingDynamicsPrior(rp.families.Categorical(3), chain)
    prior = SwitchingDynamicsPrior(FullGaussian(2), chain).double()
    sites = sites_of([3])
    uneven = Sites(torch.tensor([[0.0, 1.0, 5.0]], dtype=DOUBLE), sites.exists)
    with pytest.raises(rp.RPModelsError, match="equal"):
        prior.condition(torch.zeros(1, 3, 6, dtype=DOUBLE), uneven)
    with pytest.raises(rp.RPModelsError, match="sticky"):
        rp.RPSLDS(2, 2, transitions=1.0, sticky=3.0).fit(np.random.default_rng(0).standard_normal((4, 6, 3)))
