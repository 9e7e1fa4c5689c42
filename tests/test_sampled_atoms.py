"""Pooled mixtures that draw some atoms in every training step, and the whole of them afterwards."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from registry import made
from rpmodels.carriers import Factor
from rpmodels.families import DiagonalGaussian
from rpmodels.learning import RPMObjective
from rpmodels.mixtures import InteriorBound, Pooled

FAMILY = DiagonalGaussian(1)
DOUBLE = torch.float64


def some_factor(n=5, t=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randn(n, t, 2, dtype=DOUBLE, generator=generator)
    present = torch.ones(n, t, dtype=torch.bool)
    present[0, 1:] = False
    g = torch.where(present[..., None], FAMILY.to_potential(raw), torch.zeros(()))
    return Factor(g.requires_grad_(), present)


REFERENCE = FAMILY.natural(torch.zeros(1, 1, dtype=DOUBLE), torch.ones(1, 1, dtype=DOUBLE))
WEIGHTS = torch.ones(5, dtype=DOUBLE)


def bound(mixture, eta_q):
    return InteriorBound()(eta_q, mixture, {})


def test_a_sample_as_large_as_the_data_is_the_data():
    factor = some_factor()
    whole = Pooled().collect(FAMILY, REFERENCE, factor, WEIGHTS)
    for policy in (Pooled(), Pooled(17), Pooled(100)):
        step = policy.for_a_step(FAMILY, REFERENCE, factor, WEIGHTS, factor)
        assert step.own is None
        assert torch.equal(step.g, whole.g)


def test_atoms_are_drawn_from_those_that_are_there_and_every_site_keeps_its_own():
    factor = some_factor()
    step = Pooled(6).for_a_step(FAMILY, REFERENCE, factor, WEIGHTS, factor)
    assert step.g.shape == (1, 6, 2)
    assert torch.isfinite(step.log_count).all()
    assert step.own is factor
    there = {tuple(row) for row in factor.g[factor.present].tolist()}
    drawn = [tuple(row) for row in step.g[0].tolist()]
    assert set(drawn) <= there
    assert len(set(drawn)) == 6
    expected = torch.where(factor.present, 7.0, 6.0).log().to(DOUBLE)
    torch.testing.assert_close(step.log_total, expected)


def test_the_sampled_mixture_is_a_mixture_of_the_sample_and_the_own_atom():
    factor = some_factor()
    step = Pooled(6).for_a_step(FAMILY, REFERENCE, factor, WEIGHTS, factor)
    eta_q = (REFERENCE + factor.g).detach()
    got = bound(step, eta_q)
    for n, t in ((1, 0), (2, 3)):
        g = torch.cat([step.g[0], factor.g[n, t][None]])
        terms = FAMILY.log_normaliser(eta_q[n, t] + g) - FAMILY.log_normaliser(REFERENCE + g)
        expected = torch.logsumexp(terms, 0) - np.log(7) + FAMILY.log_normaliser(REFERENCE)[0]
        expected = expected - FAMILY.log_normaliser(eta_q[n, t])
        torch.testing.assert_close(got[n, t], expected)


def test_the_last_steps_draw_as_many_as_their_pairs_allow():
    factor = some_factor()  # of 20 sites, 17 of which are there
    for pairs, drawn in ((40, 6), (200, 10), (339, 16)):
        policy = Pooled(6, pairs)
        for each, count in ((policy, 6), (policy.for_last_steps(), drawn)):
            assert each.for_a_step(FAMILY, REFERENCE, factor, WEIGHTS, factor).g.shape == (1, count, 2)
    whole = Pooled(6, 340).for_last_steps().for_a_step(FAMILY, REFERENCE, factor, WEIGHTS, factor)
    assert whole.own is None  # all of them: every own one is there
    assert whole.g.shape == (1, 20, 2)
    for policy in (Pooled(6), Pooled()):
        step = policy.for_last_steps().for_a_step(FAMILY, REFERENCE, factor, WEIGHTS, factor)
        assert step.g.shape[1] == (policy.sample or 20)


def test_the_last_steps_are_those_whose_rate_falls(monkeypatch):
    x = rp.datasets.plain_ball(n_trials=6, n_times=10, random_state=0).x
    seen = []
    ask = Pooled.for_a_step
    monkeypatch.setattr(Pooled, "for_a_step", lambda self, *a: (seen.append(self._drawn(a[-1])), ask(self, *a))[1])
    options = {"max_iter": 20, "n_init": 1, "retries": 0, "n_inducing": 4, "random_state": 0, "finish": "none"}
    model = made(rp.RPGPFA, atoms=Pooled(8, 60 * 16), **options)
    model.fit(x)
    steps = model.n_iter_ - sum(each.lessons for each in model.restarts_)
    falling = steps - round((1.0 - model.low_rate) * steps)
    assert seen == [8] * (steps - falling) + [16] * falling


def test_gradients_reach_drawn_and_own_atoms():
    factor = some_factor()
    step = Pooled(3).for_a_step(FAMILY, REFERENCE, factor, WEIGHTS, factor)
    bound(step, (REFERENCE + factor.g).detach())[factor.present].sum().backward()
    assert (factor.g.grad[factor.present].abs().sum(-1) > 0).all()
    assert torch.isfinite(factor.g.grad).all()


def test_a_fit_scores_against_all_atoms_and_repeats_itself():
    x = rp.datasets.plain_ball(n_trials=6, n_times=10, random_state=0).x
    options = {"max_iter": 20, "n_init": 1, "retries": 0, "n_inducing": 4, "random_state": 0}
    one, two = (made(rp.RPGPFA, atoms=Pooled(8), **options).fit(x) for _ in range(2))
    np.testing.assert_array_equal(one.transform(x), two.transform(x))
    assert one.model_.atoms("x").g.shape[1] == 60
    assert float(one.score_) <= one.score_.ceiling
    whole = made(rp.RPGPFA, atoms=Pooled(), **options).fit(x)
    assert not np.array_equal(whole.transform(x), one.transform(x))


def test_continuous_marginals_are_not_sampled():
    """Their draws are nobody's own atoms."""
    x = rp.datasets.plain_ball(n_trials=6, n_times=10, random_state=0).x
    model = rp.RPGPFA(
        inference=rp.Inference(atoms=Pooled(8), marginal="kernel_density"),
        max_iter=3,
        n_init=1,
        search=rp.Search(retries=0),
        n_inducing=4,
    )
    built = model._build(model.fit(x).read(x))
    built.prepare(model.read(x))
    batch = model.read(x).batch(np.arange(6), torch.float32, torch.device("cpu"))
    mixture = RPMObjective(built, model.read(x)).evaluate(batch).mixtures["x"]
    assert mixture.g.shape[1] == 60
    assert mixture.own is None


@pytest.mark.parametrize("sample", [0, -3, 2.5, "many"])
def test_samples_that_are_none(sample):
    with pytest.raises((ValueError, TypeError), match="sample"):
        Pooled(sample)
