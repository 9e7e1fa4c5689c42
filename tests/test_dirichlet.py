"""RP-LDA's prior: the bound against numpy, enumeration and finite differences; α; topics against scikit-learn's."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import linear_sum_assignment
from scipy.special import digamma
from sklearn.decomposition import LatentDirichletAllocation

import rpmodels as rp
from oracles.differences import central_difference
from oracles.dirichlet import elbo, softmax, swept
from oracles.enumeration import log_sum_of_words
from registry import bound as bound_at
from registry import sites_of
from rpmodels.errors import InputError
from rpmodels.learning import RPMObjective
from rpmodels.mixtures import Pooled
from rpmodels.priors import dirichlet_sweeps
from rpmodels.priors.dirichlet import DirichletPosterior, DirichletPrior
from rpmodels.priors.dirichlet_sweeps import fixed_point, most_likely_alpha
from rpmodels.seeding import seeded

CASES = [(0.1, 0.3), (0.5, 0.01), (0.5, 1.0), (1.0, 1.0), (3.0, 2.0), (0.1, 5.0)]
cases = pytest.mark.parametrize(("alpha", "sharpness"), CASES)


def some_potentials(*shape: int, sharpness: float = 1.0, seed: int = 0) -> torch.Tensor:
    return sharpness * torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def conditioned(alpha, potentials: torch.Tensor, lengths: list[int] | None = None) -> DirichletPosterior:
    prior = DirichletPrior.fixed(potentials.shape[-1], alpha).to(potentials.dtype)
    n, t = potentials.shape[:2]
    return prior.condition(potentials, sites_of(lengths or [t] * n, t))


# ---- the posterior ------------------------------------------------------------------------------


@cases
def test_the_posterior_is_the_fixed_point_and_its_kl_exact(alpha, sharpness):
    potentials = some_potentials(6, 30, 4, sharpness=sharpness)
    per_category = alpha * np.array([1.0, 0.5, 2.0, 1.5])
    q = conditioned(per_category.tolist(), potentials)
    for n in range(6):
        a, z = q.concentration[n].numpy(), q.mu[n].numpy()
        np.testing.assert_allclose(a, per_category + z.sum(0), rtol=1e-8)
        np.testing.assert_allclose(z, softmax(potentials[n].numpy() + digamma(a)), atol=1e-8)
        np.testing.assert_allclose(q.proportions[n], a / a.sum())
        expected = elbo(z, a, potentials[n].numpy(), per_category)
        assert float(bound(q, potentials)[n]) == pytest.approx(expected, abs=1e-9)


@cases
def test_every_coordinate_step_climbs_and_none_climbs_from_the_end(alpha, sharpness):
    """The plain sweeps of (A18), in numpy, from the same start: they never end above the posterior's neighbourhood."""
    potentials = some_potentials(4, 12, 3, sharpness=sharpness, seed=1)
    prior = np.full(3, alpha)
    found = conditioned(alpha, potentials)
    for n, each in enumerate(potentials.numpy()):
        a = prior + 12 / 3
        z = np.full((12, 3), 1 / 3)
        values = [elbo(z, a, each, prior)]
        for _ in range(200):
            z = softmax(each + digamma(a))
            values.append(elbo(z, a, each, prior))
            a = prior + z.sum(0)
            values.append(elbo(z, a, each, prior))
        assert np.diff(values).min() > -1e-10
        a, z = found.concentration[n].numpy(), found.mu[n].numpy()
        best = elbo(z, a, each, prior)
        random = np.random.default_rng(n)
        for _ in range(20):  # a local maximum: no small change of q(z), with the best q(ω), is better
            other = softmax(np.log(np.maximum(z, 1e-300)) + 1e-3 * random.standard_normal(z.shape))
            assert elbo(other, prior + other.sum(0), each, prior) <= best + 1e-10


@cases
def test_no_round_of_sweep_and_leap_lowers_the_bound(alpha, sharpness, monkeypatch):
    potentials = some_potentials(30, 40, 4, sharpness=sharpness, seed=9)
    values = []
    for rounds in range(25):
        monkeypatch.setattr(dirichlet_sweeps, "MAX_SWEEPS", rounds)
        values.append(bound(conditioned(alpha, potentials), potentials).numpy())
    assert np.diff(values, axis=0).min() > -1e-10
    assert (values[-1] > values[0]).all()


@pytest.mark.parametrize("alpha", [0.1, 0.5, 1.0])
def test_leaps_end_where_sweeps_end_or_higher(alpha):
    """Sharp potentials have one maximum; with weak ones and α < ½ there are several, and it is as good a one."""
    for sharpness, n_sweeps in ((4.0, 1000), (0.3, 3000)):
        potentials = some_potentials(20, 20, 3, sharpness=sharpness, seed=2)
        prior = np.full(3, alpha)
        z, a = swept(potentials.numpy(), prior, n_sweeps)
        plain = np.array([elbo(z[n], a[n], potentials[n].numpy(), prior) for n in range(20)])
        found = bound(conditioned(alpha, potentials), potentials).numpy()
        if sharpness > 1 or alpha > 0.5:
            np.testing.assert_allclose(found, plain, atol=1e-6)
        else:
            assert (found - plain).mean() > -0.05


def test_the_bound_is_below_the_sum_over_all_states_and_close_when_potentials_are_sharp():
    gaps = {}
    for sharpness in (0.5, 3.0, 30.0):
        potentials = some_potentials(30, 3, 3, sharpness=sharpness, seed=3)
        alpha = np.array([0.7, 1.0, 2.0])
        exact = np.array([log_sum_of_words(each.numpy(), alpha) for each in potentials])
        gap = exact - bound(conditioned(alpha.tolist(), potentials), potentials).numpy()
        assert gap.min() > -1e-10
        gaps[sharpness] = np.median(gap)
    assert gaps[30.0] < 1e-3
    assert gaps[30.0] < gaps[0.5] < 0.7  # how much less than log W the independence of ω and z costs


def test_a_huge_alpha_is_the_categorical_prior():
    potentials = some_potentials(5, 4, 3)
    q = conditioned(1e7, potentials)
    expected = (torch.logsumexp(potentials, -1) - np.log(3)).sum(-1)
    torch.testing.assert_close(bound(q, potentials), expected, rtol=0, atol=1e-5)
    torch.testing.assert_close(q.proportions, torch.full((5, 3), 1 / 3, dtype=torch.float64), rtol=0, atol=1e-6)


# ---- gradients ----------------------------------------------------------------------------------


@cases
def test_the_gradient_is_that_of_the_converged_bound(alpha, sharpness):
    """Finite differences, every fixed point found anew; by the envelope theorem the gradient is q itself."""
    potentials = some_potentials(3, 7, 3, sharpness=sharpness, seed=4).requires_grad_()
    posterior = conditioned(alpha, potentials, [7, 4, 6])
    (gradient,) = torch.autograd.grad(bound(posterior, potentials).sum(), potentials)
    there = posterior.sites.exists[..., None]
    torch.testing.assert_close(gradient, torch.where(there, posterior.mu, 0.0), rtol=0, atol=1e-10)
    h = 1e-5 * min(1.0, sharpness)
    random = np.random.default_rng(0)
    moved = potentials.detach().clone()

    def anew():
        return bound(conditioned(alpha, moved, [7, 4, 6]), moved).sum()

    for n, t, k in random.integers((3, 7, 3), size=(12, 3)):
        assert central_difference(anew, moved, (n, t, k), h) == pytest.approx(float(gradient[n, t, k]), abs=1e-6)


def bound(posterior: DirichletPosterior, potentials: torch.Tensor) -> torch.Tensor:
    return bound_at(posterior, potentials, posterior.sites)


def lookup_objective(prior: DirichletPrior, words: np.ndarray, n_words: int, seed: int = 0, dtype=torch.float64):
    observations = rp.read({"word": words}, series=True)
    with seeded(seed):
        table = rp.recognition.LookupTable(n_words, prior.family.n_states)
    with torch.no_grad():
        for parameter in table.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed)))
    model = rp.RPM(prior, {"word": table}, atoms=Pooled(), dtype=dtype)
    model.prepare(observations)
    index = np.arange(len(observations))
    return RPMObjective(model, observations), observations.batch(index, dtype, torch.device("cpu"))


def test_the_gradient_of_the_assembled_free_energy_by_finite_differences():
    """Through f, F and the fixed point, in the parameters of the recognition network."""
    words = np.random.default_rng(0).integers(0, 5, (6, 8))
    objective, batch = lookup_objective(DirichletPrior.fixed(3, [0.4, 1.0, 0.8]), words, 5)
    (table,) = objective.model.recognition.parameters()
    objective.evaluate(batch).energy.total.sum().backward()

    def anew():
        return objective.evaluate(batch).energy.total.sum()

    for index in itertools.product(range(5), range(3)):
        assert central_difference(anew, table, index, 1e-5) == pytest.approx(float(table.grad[index]), abs=1e-6)


def test_the_free_energy_of_a_model_is_below_its_log_likelihood():
    words = np.random.default_rng(1).integers(0, 4, (5, 3))
    alpha = np.array([0.6, 1.5])
    objective, batch = lookup_objective(DirichletPrior.fixed(2, alpha.tolist()), words, 4)
    inferred = objective.evaluate(batch)
    f = torch.softmax(inferred.factors["word"].g, -1).detach().numpy()
    potentials = np.log(f / f.mean((0, 1)))
    exact = np.array([log_sum_of_words(each, alpha) for each in potentials])
    gap = exact - inferred.energy.total.detach().numpy()
    assert gap.min() > 0
    assert gap.max() < 0.6


# ---- what must not matter -----------------------------------------------------------------------


def test_padding_permutation_and_company_change_nothing():
    potentials = some_potentials(5, 9, 3, sharpness=0.7, seed=5)
    lengths = [9, 3, 5, 1, 0]
    base = conditioned(0.4, potentials, lengths)
    values = bound(base, potentials)
    assert float(values[4]) == pytest.approx(0, abs=1e-12)
    torch.testing.assert_close(base.proportions[4], torch.full((3,), 1 / 3, dtype=torch.float64))
    same = {"rtol": 0, "atol": 1e-12}
    longer = torch.cat([potentials, torch.full((5, 4, 3), torch.nan, dtype=torch.float64)], 1)
    longer[1, 3:] = 1e6
    padded = conditioned(0.4, longer, lengths)
    torch.testing.assert_close(padded.kl, base.kl, **same)
    torch.testing.assert_close(padded.concentration, base.concentration, **same)
    assert torch.isfinite(padded.mu).all()
    order = torch.tensor([3, 0, 4, 2, 1])
    shuffled = conditioned(0.4, potentials[order], [lengths[i] for i in order])
    torch.testing.assert_close(shuffled.concentration, base.concentration[order], **same)
    torch.testing.assert_close(shuffled.mu, base.mu[order], **same)
    sites = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    full = conditioned(0.4, potentials)
    turned = conditioned(0.4, potentials[:, sites])
    torch.testing.assert_close(turned.mu, full.mu[:, sites], **same)
    torch.testing.assert_close(bound(turned, potentials[:, sites]), bound(full, potentials), **same)
    for n in range(5):
        alone = conditioned(0.4, potentials[n : n + 1], lengths[n : n + 1])
        torch.testing.assert_close(alone.concentration[0], base.concentration[n], **same)


def test_a_site_about_which_nothing_is_known_is_integrated_out():
    potentials = some_potentials(4, 6, 3, seed=6)
    less = conditioned(0.8, potentials)
    more = conditioned(0.8, torch.cat([potentials, torch.zeros(4, 2, 3, dtype=torch.float64)], 1))
    torch.testing.assert_close(more.kl, less.kl, rtol=0, atol=1e-12)
    torch.testing.assert_close(more.mu[:, 6], less.proportions, rtol=0, atol=1e-12)


@cases
def test_single_precision(alpha, sharpness):
    potentials = some_potentials(8, 100, 10, sharpness=sharpness, seed=7)
    one = conditioned(alpha, potentials.float())
    assert one.kl.dtype == one.mu.dtype == torch.float32
    a = fixed_point(potentials.float(), torch.ones(8, 100, dtype=torch.bool), torch.full((10,), alpha))
    assert float(((one.concentration - a).abs() / a).max()) < 1e-4
    if alpha >= 1:  # else there are several fixed points, and rounding may decide between them
        two = conditioned(alpha, potentials)
        torch.testing.assert_close(one.proportions.double(), two.proportions, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(bound(one, potentials.float()).double(), bound(two, potentials), rtol=0, atol=2e-3)


def test_potentials_that_are_not_numbers_stay_with_their_observation():
    potentials = some_potentials(3, 5, 3)
    potentials[1, 2] = torch.nan
    posterior = conditioned(0.5, potentials)
    assert torch.isnan(posterior.kl).tolist() == [False, True, False]


# ---- draws --------------------------------------------------------------------------------------


def test_prior_draws_have_the_moments_of_the_urn(generator):
    alpha = torch.tensor([0.5, 1.0, 2.5])
    z = DirichletPrior.fixed(3, alpha.tolist()).sample(sites_of([4] * 40_000), generator)
    one_hot = torch.nn.functional.one_hot(z, 3).double()
    mean = (alpha / alpha.sum()).double()
    assert (one_hot.mean((0, 1)) - mean).abs().max() < 0.01
    # p(z_s = z_t = k) = α_k (α_k + 1) / (A (A + 1)) for any two sites.
    expected = (alpha * (alpha + 1) / 20).double()
    for s, t in itertools.combinations(range(4), 2):
        assert ((one_hot[:, s] * one_hot[:, t]).mean(0) - expected).abs().max() < 0.015


def test_weighted_draws_give_log_sum_of_words(generator):
    """⟨exp(potentials) p/q⟩ is the sum over all states, with sites missing or not there as without them."""
    potentials = some_potentials(3, 5, 3, sharpness=1.5, seed=8)
    potentials[0, 1] = 0.0
    lengths = [4, 5, 3]
    posterior = conditioned(0.6, potentials, lengths)
    weights = []
    for _ in range(1500):
        z, log_ratio = posterior.draw(generator)
        chosen = potentials.gather(-1, z[..., None])[..., 0]
        weights.append(torch.where(posterior.sites.exists, chosen, 0.0).sum(-1) + log_ratio)
    stacked = torch.stack(weights)
    estimate = torch.logsumexp(stacked, 0) - np.log(len(stacked))
    exact = [log_sum_of_words(each[:t].numpy(), np.full(3, 0.6)) for each, t in zip(potentials, lengths, strict=True)]
    np.testing.assert_allclose(estimate, exact, atol=0.05)
    np.testing.assert_array_less(bound(posterior, potentials), exact)


# ---- α ------------------------------------------------------------------------------------------


def test_alpha_of_simulated_proportions():
    alpha = np.array([0.3, 1.2, 4.0])
    omega = np.random.default_rng(0).dirichlet(alpha, 20_000)
    statistic = torch.as_tensor(np.log(np.maximum(omega, 1e-300)).mean(0))
    for start in (1e-2, 1.0, 500.0):
        found = most_likely_alpha(statistic, torch.full((3,), start, dtype=torch.float64))
        np.testing.assert_allclose(found, alpha, rtol=0.04)
        gradient = statistic - torch.digamma(found) + torch.digamma(found.sum())
        assert float(gradient.abs().max()) < 1e-9


@pytest.mark.parametrize("symmetric", [False, True])
def test_a_learned_alpha_climbs_and_finds_the_truth(symmetric):
    random = np.random.default_rng(0)
    truth = np.full(3, 0.8) if symmetric else np.array([0.4, 1.0, 2.0])
    omega = random.dirichlet(truth, 400)
    z = np.array([random.choice(3, 100, p=each) for each in omega])
    potentials = torch.as_tensor(10.0 * (z[..., None] == np.arange(3)))
    prior = DirichletPrior.learned(3, 1.5, symmetric=symmetric)
    sites, weights = sites_of([100] * 400), torch.ones(400, dtype=torch.float64)
    values = []
    for _ in range(12):
        posterior = prior.condition(potentials, sites)
        values.append(float(bound(posterior, potentials).mean()))
        prior.update(prior.sums(posterior, weights), 1.0)
    assert np.diff(values).min() > -1e-10
    np.testing.assert_allclose(prior.alpha, truth, rtol=0.12)
    if symmetric:
        assert float(prior.alpha.max() - prior.alpha.min()) == 0
    # By batches, running sums forget where they started and stay near.
    for _ in range(5):
        for part in torch.arange(400).split(100):
            posterior = prior.condition(potentials[part], sites_of([100] * 100))
            prior.update(prior.sums(posterior, weights[part]), 0.25)
    np.testing.assert_allclose(prior.alpha, truth, rtol=0.2)


def test_a_fixed_alpha_stays_and_a_learned_one_has_limits():
    potentials = some_potentials(4, 10, 2, sharpness=20.0)
    fixed = DirichletPrior.fixed(2, 0.7)
    fixed.update(fixed.sums(fixed.condition(potentials, sites_of([10] * 4)), torch.ones(4, dtype=torch.float64)), 1.0)
    assert fixed.alpha.tolist() == [0.7, 0.7]
    learned = DirichletPrior.learned(2, 0.5)
    alike = torch.zeros(4, 10, 2, dtype=torch.float64)
    alike[..., 0] = 30.0  # every observation all of the first category: there is no maximum
    for _ in range(200):
        learned.update(
            learned.sums(learned.condition(alike, sites_of([10] * 4)), torch.ones(4, dtype=torch.float64)), 1.0
        )
    assert torch.isfinite(learned.alpha).all()
    assert float(learned.alpha.min()) >= 1e-3
    nothing = DirichletPrior.learned(2)
    nothing.update(nothing.sums(nothing.condition(alike, sites_of([10] * 4)), torch.zeros(4, dtype=torch.float64)), 0.5)
    assert nothing.alpha.tolist() == [1.0, 1.0]


def test_what_is_not_an_alpha_is_refused():
    with pytest.raises(InputError, match="alpha: expected a number > 0"):
        DirichletPrior.fixed(3, 0.0)
    with pytest.raises(InputError, match="one number, or 3 of them, got 2 numbers"):
        DirichletPrior.fixed(3, [1.0, 2.0])
    with pytest.raises(InputError, match="the same number for every category"):
        DirichletPrior.learned(2, [1.0, 2.0], symmetric=True)
    with pytest.raises(InputError):
        DirichletPrior.fixed(1)


def test_the_rest_of_the_contract():
    prior = DirichletPrior.learned(3)
    assert prior.couples_sites
    assert prior.family.n_states == 3
    assert float(prior.parameter_kl()) == 0
    assert prior.reference(sites_of([4] * 2), True).tolist() == [[0.0] * 3]
    assert "concentration.alpha" in prior.state_dict()


# ---- topics -------------------------------------------------------------------------------------


def test_lookup_tables_find_the_topics_of_latent_dirichlet_allocation():
    """p(word | topic) ∝ count(word) f(k|word)/F(k) is scikit-learn's, and the truth."""
    random = np.random.default_rng(1)
    topics = random.dirichlet([0.3] * 12, 3)
    omega = random.dirichlet([0.5] * 3, 200)
    words = np.array([[random.choice(12, p=topics[k]) for k in random.choice(3, 60, p=each)] for each in omega])
    counts = np.array([np.bincount(each, minlength=12) for each in words])
    lda = LatentDirichletAllocation(
        3, doc_topic_prior=0.5, topic_word_prior=1e-3, learning_method="batch", max_iter=60, random_state=0
    ).fit(counts)
    theirs = lda.components_ / lda.components_.sum(1, keepdims=True)
    objective, batch = lookup_objective(DirichletPrior.fixed(3, 0.5), words, 12)
    optimiser = torch.optim.Adam(objective.parameters(), lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        value = objective(batch)["free_energy"]
        (-value).backward()
        optimiser.step()
        objective.after_step()
    inferred = objective.evaluate(batch)
    (table,) = objective.model.recognition.parameters()
    joint = counts.sum(0)[:, None] * torch.softmax(table, -1).detach().numpy()
    ours = (joint / joint.sum(0)).T
    for other, limit in ((theirs, 0.01), (topics, 0.03)):
        rows, columns = linear_sum_assignment(-ours @ other.T)
        assert np.abs(ours[rows] - other[columns]).mean() < limit
    rows, columns = linear_sum_assignment(-ours @ topics.T)
    found = inferred.posterior.proportions.detach().numpy()[:, rows]
    assert np.abs(found - omega[:, columns]).mean() < 0.06
