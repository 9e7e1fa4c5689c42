"""The Markov chain against enumeration of all its sequences, Baum–Welch of hmmlearn, and its own two algorithms."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from oracles.differences import central_difference
from oracles.enumeration import Enumerated
from registry import ATOMS, log_w, sites_of, tiny_data, tiny_model
from rpmodels.errors import InputError
from rpmodels.learning import RPMObjective
from rpmodels.mixtures import Pooled
from rpmodels.priors import MarkovChainPrior, chain
from rpmodels.seeding import seeded

DOUBLE = torch.float64
K, T = 3, 5
CASES = {
    "fixed": lambda: MarkovChainPrior.fixed(torch.tensor([0.5, 0.3, 0.2]), random_rows(K, 1)),
    "with zeros": lambda: MarkovChainPrior.fixed(
        torch.tensor([0.5, 0.5, 0.0]), torch.eye(K)[[1, 2, 0]] * 0.9 + 0.1 / 3
    ),
    "learned": lambda: MarkovChainPrior.learned(K),
    "dirichlet": lambda: MarkovChainPrior.dirichlet(K, 0.7),
}
every_prior = pytest.mark.parametrize("kind", CASES)


def random_rows(rows, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.softmax(torch.randn(rows, K, generator=generator, dtype=DOUBLE), -1)


def some(lengths=(5, 3, 1), seed=0):
    generator = torch.Generator().manual_seed(seed)
    potentials = 2.0 * torch.randn(len(lengths), T, K, generator=generator, dtype=DOUBLE)
    return potentials, sites_of(lengths, T)


@every_prior
def test_everything_is_the_sum_over_all_sequences(kind):
    prior = CASES[kind]().double()
    lengths = (5, 3, 1)
    potentials, sites = some(lengths)
    posterior = prior.condition(potentials, sites)
    best = posterior.viterbi()
    for n, length in enumerate(lengths):
        truth = Enumerated(prior, potentials[n, :length])
        assert float(posterior.log_partition[n]) == pytest.approx(truth.log_partition, abs=1e-10)
        assert float(posterior.kl[n]) == pytest.approx(truth.kl, abs=1e-10)
        np.testing.assert_array_equal(best[n, :length].numpy(), truth.paths[truth.log_joint.argmax()])
        for t in range(length):
            np.testing.assert_allclose(posterior.mu[n, t].numpy(), truth.marginal(t), atol=1e-10)
            np.testing.assert_allclose(posterior.eta[n, t].exp().numpy(), truth.marginal(t), atol=1e-10)
            past = Enumerated(prior, potentials[n, : t + 1])
            np.testing.assert_allclose(prior.filter(potentials, sites)[n, t].numpy(), past.marginal(t), atol=1e-10)
        for t in range(length - 1):
            np.testing.assert_allclose(posterior.pairwise[n, t].numpy(), truth.pair(t), atol=1e-10)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 7, 8, 33])
def test_the_scan_is_the_loop(length):
    torch.manual_seed(length)
    start = torch.randn(2, K, dtype=DOUBLE, requires_grad=True)
    steps = torch.randn(2, length, K, K, dtype=DOUBLE, requires_grad=True)
    weights = torch.randn(2, length, K, dtype=DOUBLE)
    both = [each(start, steps) for each in (chain._scanned, chain._in_turn)]
    torch.testing.assert_close(*both, rtol=1e-12, atol=1e-12)
    gradients = [torch.autograd.grad((each * weights).sum(), (start, steps)) for each in both]
    for scanned, in_turn in zip(*gradients, strict=True):
        torch.testing.assert_close(scanned, in_turn, rtol=1e-10, atol=1e-12)


def test_the_gradient_of_the_log_partition_are_the_marginals():
    prior = CASES["fixed"]().double()
    potentials, sites = some()
    potentials.requires_grad_()
    posterior = prior.condition(potentials, sites)
    (gradient,) = torch.autograd.grad(posterior.log_partition.sum(), potentials, retain_graph=True)
    expected = torch.where(sites.exists[..., None], posterior.mu, 0.0)
    torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-12)


@every_prior
def test_the_filter_does_not_see_the_future_and_steps_are_the_filter(kind):
    prior = CASES[kind]().double()
    potentials, sites = some((T, T, T))
    filtered = prior.filter(potentials, sites)
    changed = potentials.clone()
    changed[:, 3:] = 7.0 * torch.randn_like(changed[:, 3:])
    torch.testing.assert_close(prior.filter(changed, sites)[:, :3], filtered[:, :3], rtol=0, atol=1e-14)
    stepping = prior.filtering()
    state = stepping.begin(3)
    for t in range(T):
        state = stepping.heard(stepping.moved(state), potentials[:, t])
        torch.testing.assert_close(stepping.shown(state)[0], filtered[:, t], rtol=1e-10, atol=1e-12)


def test_predictions_are_marginals_of_what_was_not_seen():
    prior = CASES["fixed"]().double()
    potentials, sites = some((T, T, T))
    potentials[:, 2:] = 0.0
    ahead = prior.predict(prior.filter(potentials, sites)[:, 1], T - 2)
    torch.testing.assert_close(ahead, prior.condition(potentials, sites).mu[:, 2:], rtol=1e-10, atol=1e-12)


def test_draws_have_the_posteriors_pairs_and_their_log_ratio():
    prior = CASES["fixed"]().double()
    potentials, sites = some((4,), seed=3)
    potentials, sites = potentials.expand(40_000, -1, -1), sites_of((4,) * 40_000, T)
    posterior = prior.condition(potentials, sites)
    z, log_ratio = posterior.draw(torch.Generator().manual_seed(0))
    seen = torch.nn.functional.one_hot(z, K).double()
    for t in range(3):
        counts = torch.einsum("ni,nj->ij", seen[:, t], seen[:, t + 1]) / len(z)
        torch.testing.assert_close(counts, posterior.pairwise[0, t], rtol=0, atol=0.01)
    # E_q[p/q] = 1: an importance sampler of the prior.
    assert float(log_ratio.exp().mean()) == pytest.approx(1.0, abs=0.05)
    assert float(log_ratio.mean()) == pytest.approx(-float(posterior.kl[0]), abs=0.02)


def test_samples_of_the_prior_have_its_transitions():
    prior = CASES["fixed"]().double()
    z = prior.sample(sites_of((T,) * 20_000), torch.Generator().manual_seed(1))
    seen = torch.nn.functional.one_hot(z, K).double()
    torch.testing.assert_close(seen[:, 0].mean(0), prior.probabilities, rtol=0, atol=0.02)
    counts = torch.einsum("nti,ntj->ij", seen[:, :-1], seen[:, 1:])
    torch.testing.assert_close(counts / counts.sum(1, keepdim=True), prior.transitions, rtol=0, atol=0.02)


@every_prior
@pytest.mark.parametrize("atoms", ATOMS)
def test_the_free_energy_is_the_log_partition(kind, atoms):
    """With exact potentials −KL + ⟨log f/F⟩ is log W, whatever terms it is put together from."""
    model, observations = tiny_model(CASES[kind](), tiny_data(n=4, sites=T), atoms=atoms)
    batch = observations.batch(np.arange(4), DOUBLE, torch.device("cpu"))
    inferred = RPMObjective(model.pattern, observations).evaluate(batch)
    expected = inferred.posterior.log_partition - model.prior.parameter_kl() / 4
    torch.testing.assert_close(inferred.energy.total, expected, rtol=1e-10, atol=1e-10)


@every_prior
def test_training_has_the_gradient_of_the_free_energy(kind):
    model, observations = tiny_model(CASES[kind](), tiny_data(n=4, sites=T), atoms="pooled")
    batch = observations.batch(np.arange(4), DOUBLE, torch.device("cpu"))
    weight = next(model.pattern.recognition.parameters())
    goal = lambda: RPMObjective(model.pattern, observations)(batch)["free_energy"]  # noqa: E731
    (gradient,) = torch.autograd.grad(goal(), weight)
    expected = central_difference(goal, weight, (0, 1), 1e-6)
    assert float(gradient[0, 1]) == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_unequal_lengths_and_order_change_nothing():
    data = tiny_data(n=5, sites=T)
    lists = {name: [v[:t] for v, t in zip(values, (5, 4, 2, 3, 5), strict=True)] for name, values in data.items()}
    model, observations = tiny_model(CASES["fixed"](), lists, atoms="pooled")
    whole = log_w(model, observations, in_training=False)
    for n in range(5):
        alone = rp.read({name: [v[n]] for name, v in lists.items()}, series=True, known=model.specs)
        torch.testing.assert_close(log_w(model, alone, in_training=False)[0], whole[n], rtol=0, atol=1e-10)


def test_lookup_tables_reach_the_maximum_of_baum_welch():
    """Labels as observations: the RPM's maximum is that of hmmlearn's CategoricalHMM."""
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    random = np.random.default_rng(0)
    emission = np.array([[0.7, 0.2, 0.05, 0.05], [0.05, 0.1, 0.35, 0.5]])
    step = np.array([[0.9, 0.1], [0.2, 0.8]])
    z, x = np.zeros((12, 30), int), np.zeros((12, 30), int)
    for n in range(12):
        for t in range(30):
            z[n, t] = random.choice(2, p=step[z[n, t - 1]] if t else [0.5, 0.5])
            x[n, t] = random.choice(4, p=emission[z[n, t]])
    best = max(
        (
            hmmlearn.CategoricalHMM(2, n_iter=500, tol=1e-9, random_state=seed).fit(x.reshape(-1, 1), [30] * 12)
            for seed in range(3)
        ),
        key=lambda each: each.score(x.reshape(-1, 1), [30] * 12),
    )
    expected = best.score(x.reshape(-1, 1), [30] * 12)
    observations = rp.read({"x": list(x)}, series=True)
    with seeded(0):
        networks = {"x": rp.recognition.LookupTable(4, 2)}
    model = rp.RPM(MarkovChainPrior.learned(2), networks, atoms=Pooled(), dtype=DOUBLE)
    model.prepare(observations)
    batch = observations.batch(np.arange(12), DOUBLE, torch.device("cpu"))
    objective = RPMObjective(model, observations)
    optimiser = torch.optim.LBFGS(model.recognition.parameters(), max_iter=5, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        loss = -objective(batch)["free_energy"]
        loss.backward()
        return loss

    curve = []
    for _ in range(40):
        optimiser.step(closure)
        curve.append(float(objective(batch)["free_energy"].detach()))
        objective.after_step()
    assert (np.diff(curve) > -1e-9).all()
    empirical = np.log(np.bincount(x.ravel())[x] / x.size).sum()
    assert 12 * curve[-1] + empirical == pytest.approx(expected, rel=1e-4)
    order = np.argsort(model.prior.transitions.diagonal().numpy())
    found = model.prior.transitions.numpy()[order][:, order]
    wanted = np.sort(best.transmat_.diagonal())
    np.testing.assert_allclose(found.diagonal(), wanted, atol=5e-3)


def test_bad_probabilities_are_refused():
    with pytest.raises(InputError, match="transition probabilities"):
        MarkovChainPrior.fixed(torch.tensor([0.5, 0.5]), torch.tensor([[0.5, 0.6], [0.5, 0.5]]))
    with pytest.raises(InputError, match="transition matrix"):
        MarkovChainPrior.fixed(torch.tensor([0.5, 0.5]), torch.full((3, 2), 0.5))
    with pytest.raises(InputError, match="concentration"):
        MarkovChainPrior.dirichlet(3, 0.0)
    with pytest.raises(rp.RPModelsError, match="2"):
        MarkovChainPrior.learned(1)


@every_prior
def test_at_the_maximum_of_f_the_log_partition_alone_has_gradients(kind):
    """By messages of probabilities: the same numbers, and those gradients of log-space sums that are wanted."""
    prior = CASES[kind]().double()
    potentials, sites = some()
    potentials.requires_grad_()
    weights = torch.tensor([1.0, 0.5, 2.0], dtype=DOUBLE)
    with prior.by_gradient():
        given = [potentials, *prior.parameters()]
        expected = prior.condition(potentials, sites)
        found = prior.condition(potentials, sites).stationary()
        for name in ("log_partition", "mu", "kl"):
            torch.testing.assert_close(getattr(found, name), getattr(expected, name), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.eta.exp(), expected.mu, rtol=1e-12, atol=1e-12)
        assert not found.mu.requires_grad
        gradients = [torch.autograd.grad(each.log_partition @ weights, given) for each in (found, expected)]
        for one, other in zip(*gradients, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)
    pairs = torch.einsum("n,nt,ntij->ij", weights, sites.exists[:, 1:].double(), expected.pairwise)
    torch.testing.assert_close(found.messages.pairs(weights), pairs, rtol=1e-10, atol=1e-12)
