"""Split and merge where sites teach each other: the cost of a merger, the company of a site, a repaired fit."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from rpmodels.learning import AsGiven, Context, Plan, SplitMergeSites, Start, TrainingSettings, tournament
from rpmodels.learning.batches import divide
from rpmodels.learning.moves import cheapest_merger
from rpmodels.learning.site_moves import site_terms
from rpmodels.learning.teaching import teach
from rpmodels.priors import DirichletPrior, MarkovChainPrior
from rpmodels.seeding import seeded

CENTRES = np.random.default_rng(99).standard_normal((4, 5)) * 2.0


def images(n=60, parts=20, seed=0, ragged=False):
    """Parts of four kinds, two or three of them in every image."""
    random = np.random.default_rng(seed)
    z = np.stack([random.choice(4, parts, p=random.dirichlet(np.full(4, 0.3))) for _ in range(n)])
    x = CENTRES[z] + random.standard_normal((n, parts, 5))
    lengths = random.integers(parts // 2, parts + 1, n) if ragged else np.full(n, parts)
    trials = [each[:length] for each, length in zip(x, lengths, strict=True)]
    return rp.read({"x": trials}, series=True), z


def model_for(observations, prior=None):
    prior = prior or DirichletPrior.fixed(4, 0.3)
    with seeded(0):
        network = rp.recognition.MLP((5,), 4, hidden=(16,))
    model = rp.RPM(prior, {"x": network}, atoms=rp.mixtures.Pooled())
    model.prepare(observations)
    return model


class Misled(Start):
    """Kinds 0 and 1 in one state, kind 2 in two: a local optimum."""

    name = "misled"

    def __init__(self, z):
        self.z = z

    def __call__(self, model, observations, seed):
        halves = observations.values["x"][..., 0] > CENTRES[2, 0]
        states = np.where(self.z == 2, np.where(halves, 1, 2), np.where(self.z == 1, 0, self.z))
        teach(model, observations, states, seed)


def test_a_poor_partition_is_repaired(monkeypatch):
    # A slow lesson: from where a fast one leads, training finds the way by itself.
    monkeypatch.setattr("rpmodels.learning.teaching.RATE_OF_STATES", 1e-3)
    observations, z = images()
    accuracies = {}
    for move in (None, SplitMergeSites()):
        training = TrainingSettings(max_iter=240, learning_rate=1e-2)
        plan = Plan(model_for(observations), training, [Misled(z)], interval=12, move=move)
        run, _ = tournament(plan, divide(observations, 0.0, 0), Context(random_state=0))
        states = torch.cat([each.posterior.mu.argmax(-1) for each in run.fitted.posterior(observations)]).numpy()
        accuracies[move is not None] = (rp.metrics.match_states(z.ravel(), states.ravel(), 4)[states] == z).mean()
    assert accuracies[False] < 0.85
    assert accuracies[True] > 0.95
    assert not SplitMergeSites()(run.model, observations, 0)  # nothing left to repair


def test_what_a_site_is_told_by_the_others_of_a_chain():
    """Forward–backward without the site's own factor, against the chain with that factor removed."""
    observations, _ = images(3, 6, ragged=True)
    chain = MarkovChainPrior.fixed(
        torch.full((4,), 0.25), torch.tensor([[0.7, 0.1, 0.1, 0.1], [0.2, 0.5, 0.2, 0.1]] * 2)
    )
    model = model_for(observations, chain).double()
    terms = site_terms(model, observations)
    log_mixture = terms.log_mixture[0]
    start = 0
    for n, length in enumerate(observations.exists.sum(1)):
        batch = observations.batch(np.array([n]), torch.float64, torch.device("cpu"))
        own = (terms.log_f[0] - log_mixture)[start : start + length]
        for t in range(length):
            without = own.clone()
            without[t] = 0.0
            potentials = chain.family.potential(without)[None]
            expected = torch.log_softmax(chain.condition(potentials, batch.sites).eta[0, t], -1)
            torch.testing.assert_close(terms.log_prior[start + t], expected, atol=1e-10, rtol=0)
        start += length


def test_halves_of_one_kind_cost_nothing_to_merge():
    observations, z = images()
    model = model_for(observations)
    Misled(z)(model, observations, 0)
    terms = site_terms(model, observations)
    weights = torch.full((len(terms.whole),), 1.0 / len(terms.whole), dtype=torch.float64)
    cost, a, b = cheapest_merger(terms, weights)
    assert {a, b} == {1, 2}
    assert cost < 0.02


@pytest.mark.parametrize("estimator", [rp.RPLDA(3, max_iter=20, n_init=1), rp.RPHMM(3, max_iter=20, n_init=1)])
def test_estimators_propose_moves(estimator):
    assert isinstance(estimator._move(), SplitMergeSites)
    assert estimator._starts()[0].name == AsGiven.name


def test_known_transitions_are_not_permuted():
    assert rp.RPHMM(2, transitions=np.full((2, 2), 0.5))._move() is None
