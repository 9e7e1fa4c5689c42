"""Several chains at once and states with an age: against the enumeration of all sequences."""

import itertools

import numpy as np
import pytest
import torch

import rpmodels as rp
from registry import sites_of
from rpmodels.priors import JointChain, MarkovChainPrior
from rpmodels.priors.simplex import FixedSimplex
from rpmodels.priors.structured import AgeSimplex
from rpmodels.seeding import seeded

DOUBLE = torch.float64
CHAINS = {"a": 2, "b": 3}


def drawn(rows, columns, seed):
    return torch.as_tensor(np.random.default_rng(seed).dirichlet(np.ones(columns), rows))


def chains():
    prior = JointChain.factorial(CHAINS).double()
    for table, seed in ((prior.chain.initial, 0), (prior.chain.transition, 10)):
        for c, each in enumerate(table.parts):
            each.restart(drawn(*each.probabilities().shape, seed + c))
    return prior


def aged(states=2, longest=3):
    prior = JointChain.durations(states, longest).double()
    steps = prior.chain.transition
    steps.hazards.restart(drawn(states * longest, 2, 0))
    steps.jumps.restart(drawn(states, states - 1, 1))
    prior.chain.initial.restart(drawn(1, states * longest, 2))
    return prior


def sequences(prior, length):
    """Every sequence of configurations, and its log p by the definition of each prior."""
    every = list(itertools.product(itertools.product(*(range(k) for k in prior.states)), repeat=length))
    return every, np.array([log_p(prior, each) for each in every])


def log_p(prior, sequence):
    if prior.names == list(CHAINS):
        total = 0.0
        for c in range(2):
            first, steps = (table.parts[c].probabilities() for table in (prior.chain.initial, prior.chain.transition))
            total += float(first[0, sequence[0][c]].log())
            total += sum(float(steps[one[c], two[c]].log()) for one, two in itertools.pairwise(sequence))
        return total
    steps, ages = prior.chain.transition, prior.states[1]
    hazards, jumps = (table.probabilities().numpy() for table in (steps.hazards, steps.jumps))
    s, d = sequence[0]
    total = float(prior.chain.initial.probabilities()[0, s * ages + d].log())
    for (s, d), (after, age) in itertools.pairwise(sequence):
        stay, leave = hazards[s * ages + d]
        if after == s and age == min(d + 1, ages - 1):
            total += np.log(stay)
        elif after != s and age == 0:
            total += np.log(leave * jumps[s, after - (after > s)])
        else:
            total = -np.inf
    return total


@pytest.mark.parametrize("make", [chains, aged])
def test_the_posterior_is_that_of_all_sequences(make):
    prior, length = make(), 4
    says = torch.randn(2, length, prior.family.natural_size, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    posterior = prior.condition(says, sites_of([length] * 2))
    every, before = sequences(prior, length)
    assert np.logaddexp.reduce(before) == pytest.approx(0.0, abs=1e-10)
    z = torch.tensor(every)
    joint = prior.family.joint(z, (0, 1))
    for n in range(2):
        after = before + says[n][torch.arange(length), joint].sum(1).numpy()
        assert float(posterior.log_partition[n]) == pytest.approx(np.logaddexp.reduce(after), abs=1e-10)
        q = np.exp(after - np.logaddexp.reduce(after))
        for latent, size in enumerate(prior.states):
            target, way = prior.family.targets([latent])
            found = target.mean(way.natural(posterior.eta))[n]
            expected = [[q[(z[:, t, latent] == k).numpy()].sum() for k in range(size)] for t in range(length)]
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
        np.testing.assert_array_equal(posterior.viterbi()[n], every[int(after.argmax())])
    density = prior.log_density(z[:50], sites_of([length] * 50))
    possible = np.isfinite(before[:50])
    np.testing.assert_allclose(density[torch.as_tensor(possible)], before[:50][possible], rtol=1e-9)
    assert (density[torch.as_tensor(~possible)] < -100).all()


@pytest.mark.parametrize("make", [chains, aged])
def test_em_of_the_structured_tables_never_lowers_the_likelihood(make):
    prior = make()
    says = 2.0 * torch.randn(20, 6, prior.family.natural_size, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
    sites, weights, last = sites_of([6] * 20), torch.ones(20, dtype=DOUBLE), -np.inf
    for _ in range(15):
        posterior = prior.condition(says, sites)
        assert float(posterior.log_partition.sum()) > last - 1e-9
        last = float(posterior.log_partition.sum())
        prior.update(prior.sums(posterior, weights), 1.0)
    torch.testing.assert_close(prior.chain.transitions.sum(-1), torch.ones(6, dtype=DOUBLE))


def test_durations_are_those_of_draws(generator):
    prior = aged(3, 4)
    z = prior.sample(sites_of([20_000]), generator)[0, :, 0].numpy()
    ends = np.flatnonzero(np.diff(z)) + 1
    runs, of = np.diff(ends), z[ends[:-1]]
    expected = prior.chain.transition.durations().numpy()
    np.testing.assert_allclose(expected.sum(1), 1.0)
    for state in range(3):
        lengths = np.minimum(runs[of == state], 4)
        found = np.bincount(lengths, minlength=5)[1:] / len(lengths)
        assert 0.5 * np.abs(found - expected[state]).sum() < 0.05


def test_one_chain_is_a_markov_chain():
    steps = drawn(3, 3, 0)
    prior = JointChain.factorial({"only": 3}).double()
    prior.chain.transition.restart(steps)
    says = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    expected = MarkovChainPrior.fixed(torch.full((3,), 1 / 3), steps).double().condition(says, sites_of([5, 5]))
    torch.testing.assert_close(prior.condition(says, sites_of([5, 5])).kl, expected.kl, rtol=1e-7, atol=1e-7)


def test_what_is_too_large_or_does_not_fit_is_refused():
    with pytest.raises(rp.RPModelsError, match=r"chains of \[30, 30\] make 900 joint states.*at most 512"):
        JointChain.factorial({"a": 30, "b": 30})
    with pytest.raises(rp.RPModelsError, match=r"states and ages of \[10, 60\]"):
        JointChain.durations(10, 60)
    with pytest.raises(rp.RPModelsError, match="hazards"):
        AgeSimplex(FixedSimplex(drawn(5, 2, 0)), FixedSimplex(drawn(2, 1, 0)))


def test_two_chains_behind_one_vector_are_found():
    """A factor speaks of both chains; its means add up."""
    random = np.random.default_rng(1000)
    z = np.zeros((40, 50, 2), int)
    for t in range(50):
        move = random.random((40, 2)) < 0.1
        fresh = np.stack([random.integers(2, size=40), random.integers(2, size=40)], -1)
        z[:, t] = np.where(move | (t == 0), fresh, z[:, t - 1])
    means = [3.0 * random.standard_normal((2, 6)) for _ in range(2)]
    x = rp.read(
        {"x": sum(m[z[..., c]] for c, m in enumerate(means)) + random.standard_normal((40, 50, 6))}, series=True
    )
    settings = rp.learning.TrainingSettings(max_iter=100, learning_rate=2e-2, batch_size=None)
    fits = []
    for seed in (1000, 1001):  # starts differ in what they find; the score tells
        with seeded(seed):
            network = rp.recognition.Linear((6,), 4)
        prior = JointChain.factorial({"a": 2, "b": 2})
        fits.append(rp.train(rp.RPM(prior, {"x": network}, atoms=rp.mixtures.Pooled()), x, settings))
    best = max(fits, key=lambda each: float(each.score(x)))
    found = np.concatenate([each.posterior.joint.viterbi().numpy() for each in best.posterior(x)])
    truth = 2 * z[..., 0] + z[..., 1]
    order = rp.metrics.match_states(truth.ravel(), found.ravel(), 4)
    assert (order[found] == truth).mean() > 0.99
