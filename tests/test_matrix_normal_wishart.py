"""Variational Bayes over linear dynamics: against the dense computation, draws by SciPy, and its limits."""

import numpy as np
import pytest
import torch
from scipy.stats import matrix_normal, wishart

import rpmodels as rp
from data import dynamics, rotation
from oracles.gaussians import as_numpy, normal, random_potentials
from registry import bound, made, sites_of
from rpmodels.carriers import Sites
from rpmodels.errors import BuildError, InputError
from rpmodels.families import FullGaussian
from rpmodels.priors import LinearDynamicsPrior
from rpmodels.priors.driving import wide
from rpmodels.priors.matrix_normal_wishart import DRAWS, STARTED

DOUBLE = torch.float64
K, U = 2, 3
FAMILY = FullGaussian(K)


def prior_of(n_inputs=0, counts=2.0, steps=9.0, memory=0.8, seed=1):
    """After some steps, whose moments are of no special form."""
    prior = LinearDynamicsPrior(FAMILY, n_inputs=n_inputs, memory=memory, rotation=0.4, counts=counts).double()
    random = torch.Generator().manual_seed(seed)
    root = torch.randn(K + n_inputs, K + n_inputs, generator=random, dtype=DOUBLE)
    with torch.no_grad():
        prior.raw.add_(0.5 * torch.randn(K, K, generator=random, dtype=DOUBLE))
        prior.inputs.B.copy_(torch.randn(K, n_inputs, generator=random, dtype=DOUBLE))
        prior.belief.steps.fill_(steps)
        prior.belief.squares.copy_(steps * (root @ root.mT + torch.eye(K + n_inputs)))
    return prior


def q_of(prior):
    """M, P, Ω, ν by the definitions."""
    step = prior.transition()
    M = np.concatenate([as_numpy(step.A), as_numpy(prior.inputs.B)], 1)
    squares = as_numpy(prior.belief.squares)
    omega = prior.counts * np.eye(len(squares)) + squares
    return M, as_numpy(step.precision), omega, K + 1 + prior.counts + float(prior.belief.steps)


def drawn(prior, count, seed=0):
    """C and Λ from q, by SciPy."""
    M, P, omega, nu = q_of(prior)
    precision = wishart(nu, P / nu).rvs(count, random_state=seed)
    noise = np.random.default_rng(seed).standard_normal((count, *M.shape))
    rows = np.linalg.cholesky(np.linalg.inv(precision))
    return M + rows @ noise @ np.linalg.cholesky(np.linalg.inv(omega)).T, precision


def expected_log_det(prior):
    """⟨log |Λ|⟩, from the entropy of a Wishart, which SciPy has."""
    _, P, _, nu = q_of(prior)
    q = wishart(nu, P / nu)
    # log density = ½ (ν − K − 1) log|Λ| − ½ tr V⁻¹Λ − log Z, whose mean is −entropy.
    log_z = -q.logpdf(np.eye(K)) - 0.5 * np.trace(np.linalg.inv(P / nu))
    return (-q.entropy() + 0.5 * nu * K + log_z) / (0.5 * (nu - K - 1))


def dense(prior, h, w, u):
    """q(Z) of one trial: mean, covariance (T, K, T, K), log ∫ exp⟨log p(Z)⟩ exp(Σ potentials)."""
    M, P, omega, _ = q_of(prior)
    squared = M.T @ P @ M + K * np.linalg.inv(omega)
    A, length = slice(0, K), len(h)
    J, shift = np.zeros((length, K, length, K)), np.array(h)
    J[0, :, 0] += np.eye(K)
    constant = -0.5 * length * K * np.log(2 * np.pi)
    for t in range(length):
        J[t, :, t] += w[t]
    for t in range(length - 1):
        J[t + 1, :, t + 1] += P
        J[t, :, t] += squared[A, A]
        J[t + 1, :, t] -= P @ M[:, A]
        J[t, :, t + 1] -= (P @ M[:, A]).T
        shift[t + 1] += P @ M[:, K:] @ u[t]
        shift[t] -= squared[A, K:] @ u[t]
        constant += 0.5 * (expected_log_det(prior) - u[t] @ squared[K:, K:] @ u[t])
    flat, pull = J.reshape(length * K, -1), shift.ravel()
    covariance = np.linalg.inv(flat)
    mean = covariance @ pull
    log_z = constant + 0.5 * (pull @ mean - np.linalg.slogdet(flat)[1] + length * K * np.log(2 * np.pi))
    return mean.reshape(length, K), covariance.reshape(length, K, length, K), log_z


def near(got, expected, tolerance=1e-8):
    np.testing.assert_allclose(as_numpy(got), expected, rtol=tolerance, atol=tolerance)


def data_of(lengths, n_inputs, seed=5):
    """h, W, flat potentials and sites with inputs, which are NaN where nothing exists."""
    n, longest = len(lengths), max(lengths)
    h, w, potentials = random_potentials(FAMILY, n, longest, floor=0.0)
    sites = sites_of(lengths, longest)
    if not n_inputs:
        return h, w, potentials, sites, np.zeros((n, longest, 0))
    u = np.random.default_rng(seed).standard_normal((n, longest, n_inputs))
    given = torch.where(sites.exists[..., None], torch.tensor(u), torch.nan)
    return h, w, potentials, Sites(sites.times, sites.exists, given), u


# ---- q(Z) -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_inputs", [0, U])
def test_the_smoother_is_the_dense_one_of_expected_parameters(n_inputs):
    prior, lengths = prior_of(n_inputs), (11, 5, 1)
    h, w, potentials, sites, u = data_of(lengths, n_inputs)
    posterior = prior.condition(potentials, sites)
    for n, length in enumerate(lengths):
        mean, covariance, log_z = dense(prior, h[n, :length], w[n, :length], u[n])
        marginals = np.einsum("tktl->tkl", covariance)
        near(posterior.latent_mean[n, :length], mean)
        near(posterior.covariance[n, :length], marginals)
        near(posterior.log_partition[n], log_z)
        found, spread = normal(FAMILY, posterior.eta[n, :length])
        near(torch.as_tensor(found), mean)
        near(torch.as_tensor(spread), marginals)
        second = marginals + mean[:, :, None] * mean[:, None]
        said = (h[n, :length] * mean).sum() - 0.5 * (w[n, :length] * second).sum()
        near(posterior.kl[n], said - log_z)


@pytest.mark.parametrize("n_inputs", [0, U])
def test_filter_steps_and_smoother_agree(n_inputs):
    prior, length = prior_of(n_inputs), 6
    _, _, potentials, sites, _ = data_of([length] * 3, n_inputs)
    filtered = prior.filter(potentials, sites)
    stepping = prior.filtering()
    state = stepping.begin(3)
    for t in range(length):
        u = None if sites.u is None or t == 0 else sites.u[:, t - 1]
        before = potentials.new_zeros(3, n_inputs) if u is None else u
        state = stepping.heard(stepping.moved(state, *stepping.along(None, before)), potentials[:, t])
        mean, covariance = stepping.shown(state)
        near(mean, as_numpy(filtered.mean[:, t]))
        near(covariance, as_numpy(filtered.covariance[:, t]))
        shorter = Sites(sites.times[:, : t + 1], sites.exists[:, : t + 1], None if u is None else sites.u[:, : t + 1])
        if t:
            whole = prior.condition(potentials[:, : t + 1], shorter)
            near(filtered.mean[:, t], as_numpy(whole.latent_mean[:, -1]))
            near(filtered.covariance[:, t], as_numpy(whole.covariance[:, -1]))


# ---- q(C, Λ) --------------------------------------------------------------------------------------


def test_the_log_density_of_a_step_is_what_draws_have_on_average():
    prior, count = prior_of(U), 40_000
    random = np.random.default_rng(0)
    y, after = random.standard_normal(K + U), random.standard_normal(K)
    C, precision = drawn(prior, count)
    off = after - C @ y
    each = 0.5 * (np.linalg.slogdet(precision)[1] - np.einsum("ni,nij,nj->n", off, precision, off))
    M, P, _, _ = q_of(prior)
    doubt = prior.belief.doubt(torch.tensor(y[K:]))
    z = torch.tensor(y[:K])
    beside = doubt.h @ z - 0.5 * z @ doubt.W @ z + doubt.constant
    off = after - M @ y
    got = 0.5 * (np.linalg.slogdet(P)[1] - off @ P @ off) + float(beside.detach())
    assert abs(got - each.mean()) < 4 * each.std() / count**0.5


@pytest.mark.parametrize("n_inputs", [0, U])
def test_the_divergence_is_what_draws_have_on_average(n_inputs):
    prior, count = prior_of(n_inputs), 3000
    M, P, omega, nu = q_of(prior)
    nu_0, width = K + 1 + prior.counts, K + n_inputs
    centre = np.concatenate([prior.memory * np.eye(K), np.zeros((K, n_inputs))], 1)
    before = np.eye(K) / (nu_0 * (1 - prior.memory**2))
    each = []
    for C, precision in zip(*drawn(prior, count), strict=True):
        noise = np.linalg.inv(precision)
        q = matrix_normal.logpdf(C, M, noise, np.linalg.inv(omega)) + wishart.logpdf(precision, nu, P / nu)
        p = matrix_normal.logpdf(C, centre, noise, np.eye(width) / prior.counts)
        each.append(q - p - wishart.logpdf(precision, nu_0, before))
    assert abs(float(prior.parameter_kl().detach()) - np.mean(each)) < 4 * np.std(each) / count**0.5


def test_no_divergence_where_q_is_the_prior():
    prior = LinearDynamicsPrior(FAMILY, rotation=0.0, memory=0.7, counts=3.0).double()
    prior.belief.steps.fill_(0.0)
    prior.belief.squares.fill_(0.0)
    assert float(prior.parameter_kl().detach()) == pytest.approx(0.0, abs=1e-6)


def test_draws_are_from_q_and_stable():
    prior = prior_of(steps=400.0)
    M, P, omega, nu = q_of(prior)
    found = prior.belief.drawn(prior._mean())
    assert len(found) == DRAWS
    A = np.stack([as_numpy(each.step.A) for each in found])
    assert (np.abs(np.linalg.eigvals(A)) < 1).all()
    precision = np.stack([as_numpy(each.step.precision) for each in found])
    near(torch.tensor(precision @ np.stack([as_numpy(each.step.Q) for each in found])), np.eye(K) + 0 * precision)
    for got, expected, spread in (
        (A, M, np.sqrt(np.outer(np.diag(np.linalg.inv(P)), np.diag(np.linalg.inv(omega))))),
        (precision, P, np.sqrt((P**2 + np.outer(np.diag(P), np.diag(P))) / nu)),
    ):
        assert (np.abs(got.mean(0) - expected) < 4.5 * spread / DRAWS**0.5).all()
        assert (np.abs(got.std(0) / spread - 1) < 0.25).all()


# ---- learning -------------------------------------------------------------------------------------


def evidence(prior, potentials, sites):
    return float((bound(prior.condition(potentials, sites), potentials, sites).sum() - prior.parameter_kl()).detach())


@pytest.mark.parametrize("n_inputs", [0, U])
def test_the_bound_climbs_to_where_nothing_else_is_better(n_inputs):
    prior = prior_of(n_inputs)
    _, _, potentials, sites, _ = data_of((9, 6, 1, 8), n_inputs)
    reached = [evidence(prior, potentials, sites)]
    weights = torch.ones(4, dtype=DOUBLE)
    for _ in range(60):
        prior.update(prior.sums(prior.condition(potentials, sites), weights), 1.0)
        reached.append(evidence(prior, potentials, sites))
    assert (np.diff(reached) > -1e-9).all()
    assert reached[1] > reached[0] + 1e-3
    assert float(prior.belief.steps) == 8 + 5 + 0 + 7
    random = torch.Generator().manual_seed(0)
    steps, squares = prior.belief.steps.clone(), prior.belief.squares.clone()
    for scale in (0.9, 1.1):
        prior.belief.steps.copy_(scale * steps)
        assert evidence(prior, potentials, sites) < reached[-1]
    prior.belief.steps.copy_(steps)
    for _ in range(4):
        noise = 0.3 * torch.randn(squares.shape, generator=random, dtype=DOUBLE)
        prior.belief.squares.copy_(squares + noise + noise.mT)
        assert evidence(prior, potentials, sites) < reached[-1]


def test_gradients_are_those_of_the_bound():
    prior = prior_of(1)
    _, _, potentials, sites, _ = data_of((5, 3), 1)

    def value(raw, B):
        own = {"raw": raw, "inputs.B": B}
        return torch.func.functional_call(
            Evidence(prior), {f"prior.{k}": each for k, each in own.items()}, (potentials, sites)
        )

    given = [each.detach().clone().requires_grad_() for each in (prior.raw, prior.inputs.B)]
    torch.autograd.gradcheck(value, given)


class Evidence(torch.nn.Module):
    """The bound, as a function of the parameters."""

    def __init__(self, prior):
        super().__init__()
        self.prior = prior

    def forward(self, potentials, sites):
        return bound(self.prior.condition(potentials, sites), potentials, sites).sum() - self.prior.parameter_kl()


def test_known_perfectly_it_is_the_point_estimate():
    """After infinitely many steps; the mean is then that of maximum likelihood, as nothing else has a gradient."""
    prior = prior_of(U, steps=1e10)
    plain = LinearDynamicsPrior(FAMILY, n_inputs=U).double()
    plain.load_state_dict({name: each for name, each in prior.state_dict().items() if not name.startswith("belief")})
    _, _, potentials, sites, _ = data_of((7, 4), U)
    one, other = (each.condition(potentials, sites) for each in (prior, plain))
    near(one.eta, as_numpy(other.eta), 1e-6)
    near(one.log_partition, as_numpy(other.log_partition), 1e-6)
    for each in (prior, plain):
        bound(each.condition(potentials, sites), potentials, sites).sum().backward()
    near(prior.raw.grad, as_numpy(plain.raw.grad), 1e-5)
    now = one.latent_mean[:, 0].detach(), one.covariance[:, 0].detach(), 5, torch.nan_to_num(sites.u[:, :5])
    for a, b in zip(prior.predict(*now), plain.predict(*now), strict=True):
        near(a, as_numpy(b), 1e-3)


def test_a_prior_that_is_worth_very_much_leaves_nothing_to_learn():
    prior = prior_of(counts=1e9, memory=0.7)
    _, _, potentials, sites, _ = data_of((9, 9, 9), 0)
    optimiser = torch.optim.LBFGS([prior.raw], max_iter=200, line_search_fn="strong_wolfe", tolerance_change=0.0)

    def loss():
        optimiser.zero_grad()
        value = -1e-9 * Evidence(prior)(potentials, sites)
        value.backward()
        return value

    optimiser.step(loss)
    near(prior.dynamics(), 0.7 * np.eye(K), 1e-3)


def test_forecasts_are_those_of_simulated_draws():
    prior, count = prior_of(1, steps=60.0), 60_000
    C, precision = drawn(prior, count)
    stable = (np.abs(np.linalg.eigvals(C[..., :K])) < 1).all(-1)
    C, roots = C[stable], np.linalg.cholesky(np.linalg.inv(precision[stable]))
    random = np.random.default_rng(1)
    mean, covariance, u = np.array([1.5, -0.5]), np.array([[0.3, 0.1], [0.1, 0.2]]), np.array([[1.0], [-2.0], [0.5]])
    z = random.multivariate_normal(mean, covariance, len(C))
    found = prior.predict(torch.tensor(mean)[None], torch.tensor(covariance)[None], 3, torch.tensor(u)[None])
    for t in range(3):
        y = np.concatenate([z, np.broadcast_to(u[t], (len(C), 1))], 1)
        z = np.einsum("nij,nj->ni", C, y) + np.einsum("nij,nj->ni", roots, random.standard_normal((len(C), K)))
        near(found.mean[0, t], z.mean(0), 0.06)
        near(found.covariance[0, t], np.cov(z.T), 0.12)
    known = prior.belief
    prior.belief = LinearDynamicsPrior(FAMILY).belief
    surer = prior.predict(torch.tensor(mean)[None], torch.tensor(covariance)[None], 3, torch.tensor(u)[None])
    prior.belief = known
    assert (torch.linalg.eigvalsh(found.covariance - surer.covariance) > 0).all()


# ---- the estimator --------------------------------------------------------------------------------


def turning(n, t, seed=0):
    loadings = np.random.default_rng(7).standard_normal((K, 6))
    return dynamics(rotation(0.4, 0.95), 0.95, loadings, n, t, noise=0.7, seed=seed)


def brief(dynamics=1.0):
    short = {"n_init": 1, "retries": 0, "max_iter": 60, "finish": "none", "learning_rate": 3e-2}
    return made(rp.RPLDS, K, dynamics=dynamics, network="linear", precision="constant", random_state=0, **short)


@pytest.fixture(scope="module")
def fitted():
    x, _ = turning(12, 20)
    return brief().fit(x), x


def test_it_learns_how_much_it_has_seen(fitted):
    model, x = fitted
    prior = model.model_.prior
    assert prior.belief.steps.dtype == DOUBLE
    assert float(prior.belief.steps) == pytest.approx(12 * 19, rel=0.01)
    near(wide(prior.belief.squares) / prior.belief.steps, np.eye(K), 0.5)
    assert float(prior.belief.steps) != STARTED
    parts = model.model_.free_energies(model.read(x))
    np.testing.assert_allclose(as_numpy(parts.parameters), -float(prior.parameter_kl().detach()) / 12, rtol=1e-5)
    assert float(prior.parameter_kl().detach()) > 1
    assert np.abs(np.abs(model.eigenvalues_) - 0.95).max() < 0.06


def test_its_forecasts_are_wider_and_its_stream_is_the_filter(fitted, tmp_path):
    model, x = fitted
    ahead = model.forecast(x, 8)
    prior = model.model_.prior
    filtered = model.filter(x)
    plain = LinearDynamicsPrior(FAMILY)
    plain.load_state_dict({name: each for name, each in prior.state_dict().items() if not name.startswith("belief")})
    known = plain.predict(torch.tensor(filtered.mean[:, -1]), torch.tensor(filtered.covariance[:, -1]), 8)
    wider = np.trace(ahead.covariance, axis1=-2, axis2=-1) / np.trace(as_numpy(known.covariance), axis1=-2, axis2=-1)
    assert (wider > 1).all()
    assert wider.mean() < 1.3
    stream = model.stream()
    for t in range(5):
        mean, covariance = stream.update(x[0, t])
        np.testing.assert_allclose(mean, filtered.mean[0, t], atol=1e-4)
        np.testing.assert_allclose(covariance, filtered.covariance[0, t], atol=1e-4)
    model.save(tmp_path / "model")
    loaded = rp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.forecast(x, 8).covariance, ahead.covariance)
    assert float(loaded.score(x)) == float(model.score(x))


def test_wrong_counts_are_named():
    with pytest.raises(InputError, match="dynamics"):
        brief(dynamics="bayes").fit(turning(4, 5)[0])
    with pytest.raises(InputError, match="dynamics"):
        brief(dynamics=0.0).fit(turning(4, 5)[0])
    with pytest.raises((BuildError, InputError), match="counts"):
        LinearDynamicsPrior(FAMILY, counts=-1.0)
