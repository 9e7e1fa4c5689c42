"""Graphs and chains of discrete latents against packages that know single chains (hmmlearn) and classes (stepmix)."""

import itertools

import numpy as np
import pytest
import torch

import rpmodels as rp
from registry import made, sites_of
from rpmodels.carriers import Sites
from rpmodels.priors import DiscreteGraph, JointChain, MarkovChainPrior

DOUBLE = torch.float64
K, SYMBOLS, T, N = 3, 5, 7, 6


@pytest.fixture(scope="module")
def hmm():
    """A hidden Markov model with given numbers, and sequences of symbols."""
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    random = np.random.default_rng(0)
    model = hmmlearn.CategoricalHMM(K)
    model.startprob_ = random.dirichlet(np.ones(K))
    model.transmat_ = random.dirichlet(np.ones(K), K)
    model.emissionprob_ = random.dirichlet(np.ones(SYMBOLS), K)
    return model, random.integers(SYMBOLS, size=(N, T))


def test_a_graph_that_is_a_chain_is_hmmlearns(hmm):
    """log-likelihood, posteriors and the most probable sequence; one latent for every time."""
    model, x = hmm
    names = [f"z{t}" for t in range(T)]
    start, steps = (torch.as_tensor(each) for each in (model.startprob_, model.transmat_))
    tables = {name: steps if t else start for t, name in enumerate(names)}
    parents = {later: [before] for before, later in itertools.pairwise(names)}
    prior = DiscreteGraph.fixed(dict.fromkeys(names, K), parents, tables, [(name,) for name in names]).double()
    said = torch.as_tensor(np.log(model.emissionprob_.T[x]))  # (N, T, K)
    ways = [prior.family.targets([t])[1] for t in range(T)]
    potentials = torch.stack([way.embed(said[:, t]) for t, way in enumerate(ways)]).sum(0)
    posterior = prior.condition(potentials[:, None], Sites.single(N))
    for n in range(N):
        row = x[n, :, None]
        assert posterior.log_partition[n].item() == pytest.approx(model.score(row), rel=1e-8)
        found = torch.stack([posterior.joint([name])[n, 0] for name in names])
        np.testing.assert_allclose(found, model.predict_proba(row), atol=1e-8)
        np.testing.assert_array_equal(posterior.most_probable()[n, 0], model.predict(row))


def test_chains_side_by_side_are_hmmlearns_chain_of_their_joint_states(hmm):
    model, x = hmm
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    random = np.random.default_rng(1)
    other = random.dirichlet(np.ones(2)), random.dirichlet(np.ones(2), 2)
    joint = hmmlearn.CategoricalHMM(2 * K)
    joint.startprob_ = np.kron(model.startprob_, other[0])
    joint.transmat_ = np.kron(model.transmat_, other[1])
    joint.emissionprob_ = random.dirichlet(np.ones(SYMBOLS), 2 * K)
    parts = {"a": (model.startprob_, model.transmat_), "b": other}
    chains = {n: MarkovChainPrior.fixed(*(torch.as_tensor(each) for each in pair)) for n, pair in parts.items()}
    prior = JointChain.of(chains).double()
    said = torch.as_tensor(np.log(joint.emissionprob_.T[x]))
    posterior = prior.condition(said, sites_of([T] * N)).stationary()
    for n in range(N):
        row = x[n, :, None]
        assert posterior.log_partition[n].item() == pytest.approx(joint.score(row), rel=1e-8)
        np.testing.assert_allclose(posterior.mu[n], joint.predict_proba(row), atol=1e-8)
        path = prior.family.joint(posterior.viterbi()[n], (0, 1))
        np.testing.assert_array_equal(path, joint.predict(row))


def test_a_graph_of_one_latent_and_labels_reaches_the_maximum_of_latent_classes():
    """As `RPGraph` is fitted by default: stepmix's mean log-likelihood."""
    stepmix = pytest.importorskip("stepmix.stepmix")
    random = np.random.default_rng(1000)
    z = random.choice(2, 250, p=[0.6, 0.4])
    tables = random.dirichlet([0.6] * 4, size=(3, 2))
    x = np.stack([[random.choice(4, p=tables[j, k]) for k in z] for j in range(3)], 1)
    classes = stepmix.StepMix(
        2, measurement="categorical", n_init=3, max_iter=1000, abs_tol=1e-10, rel_tol=0, random_state=0,
        progress_bar=0, verbose=0,
    )  # fmt: skip
    expected = classes.fit(x).score(x)
    data = {f"x{j}": x[:, j] for j in range(3)}
    model = made(rp.RPGraph, 2, max_iter=40, n_init=1, random_state=1000, dtype="float64").fit(data)
    reached = model.model_.free_energies(model.read(data), in_training=True).values.mean()
    empirical = sum(np.log(np.bincount(x[:, j])[x[:, j]] / len(x)).mean() for j in range(3))
    assert reached + empirical == pytest.approx(expected, rel=1e-4)
