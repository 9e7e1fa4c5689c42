"""What quadrature is off by is told beside the number."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from oracles import integrals
from registry import made
from rpmodels import evaluation, integration
from rpmodels.errors import InputError
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import Score
from rpmodels.learning.closing import closing_of
from rpmodels.mixtures import AtomMixture, FixedGrid, GaussHermite, InteriorBound, Kind, SharedGrid

DOUBLE = torch.float64
RULES = (GaussHermite(8), SharedGrid(1.4), FixedGrid(16))


def views(n=80, seed=0):
    """Three tables that two latents make."""
    random = np.random.default_rng(seed)
    z = random.standard_normal((n, 2))
    return {name: z @ random.standard_normal((2, 4)) + 0.3 * random.standard_normal((n, 4)) for name in "abc"}


@pytest.fixture(scope="module")
def model():
    """Its factors know their latents so well that eight nodes are not enough."""
    settings = {"max_iter": 2, "n_init": 1, "random_state": 0, "retries": 0, "network": "linear", "finish": "none"}
    estimator = made(rp.RPFA, 2, expected_log_mixture=GaussHermite(8), dtype="float64", **settings).fit(views())
    pattern = estimator.model_.pattern
    with torch.no_grad():
        for each in pattern.recognition.parameters():
            each.mul_(5.0)
    observations = estimator.read(views())
    estimator.model_ = FittedRPM.collected(pattern, observations)
    estimator.score_ = closing_of(estimator.model_, observations).score
    return estimator


@pytest.mark.parametrize("rule", RULES, ids=lambda r: type(r).__name__)
def test_no_rule_calls_itself_exact_and_each_has_a_finer_one(rule):
    assert rule.kind is Kind.QUADRATURE
    assert type(rule.finer()) is type(rule)
    assert InteriorBound().finer() is None


@pytest.mark.parametrize("family", [DiagonalGaussian(2), FullGaussian(2)], ids=lambda f: type(f).__name__)
def test_the_difference_from_twice_the_nodes_is_the_error(family):
    """Of eight nodes, against a dense integral."""
    generator = torch.Generator().manual_seed(0)

    def members(*shape, shift):
        raw = torch.randn(*shape, family.raw_size, generator=generator, dtype=DOUBLE)
        raw[..., family.latents :] += shift
        return family.to_valid(raw)

    g = members(1, 12, shift=3.0)
    mixture = AtomMixture(family, members(1, shift=0.0), True, g, torch.zeros(1, 12, dtype=DOUBLE))
    eta_q = members(6, 1, shift=1.0)
    rule = GaussHermite(8)
    found, finer = (each(eta_q, mixture, {}).numpy() for each in (rule, rule.finer()))
    error = np.abs(found - integrals.expected_log_ratio(mixture, eta_q, 301))
    assert error.mean() > 1e-4
    assert np.abs(found - finer).mean() == pytest.approx(error.mean(), rel=0.5)


def test_scores_come_with_it(model):
    new = views(64, 1)
    score = model.score(new)
    finest = model.model_.free_energies(model.read(new), GaussHermite(32)).values
    error = np.abs(model.score_samples(new) - finest).mean()
    assert score.quadrature_error == pytest.approx(error, rel=0.7)
    assert f"by quadrature to about {score.quadrature_error:.0e}" in repr(score)
    assert "a lower bound of the score" in repr(score)
    assert model.score_.quadrature_error > 0
    finer = model.model_.score(model.read(new), GaussHermite(16))
    assert finer.quadrature_error < 0.3 * score.quadrature_error
    bound = model.model_.score(model.read(new), InteriorBound())
    assert bound.quadrature_error == 0
    assert "quadrature" not in repr(bound)


def test_nodes_are_doubled_to_a_tolerance(model):
    """The error that is left, against eight times the nodes of the coarsest."""
    new = model.read(views(64, 1))
    finest = model.model_.free_energies(new, GaussHermite(64)).values
    error = {n: np.abs(model.model_.free_energies(new, GaussHermite(n)).values - finest).mean() for n in (8, 16, 32)}
    found = [
        integration.to_tolerance(model.model_, new, GaussHermite(8), tolerance).nodes
        for tolerance in (2 * error[8], np.sqrt(error[8] * error[16]), 0.01 * error[32])
    ]
    assert found == [8, 16, 32], "the last is as far as it goes"
    assert isinstance(integration.to_tolerance(model.model_, new, InteriorBound(), 1e-12), InteriorBound)


def test_exact_scores_have_as_many_nodes_as_they_need(model):
    new = views(64, 1)
    rough, fine = (model.score(new, exact=True, tolerance=tolerance) for tolerance in (1.0, 1e-6))
    assert fine.quadrature_error < rough.quadrature_error
    samples = model.score_samples(new, exact=True, tolerance=1e-6)
    assert samples.mean() == pytest.approx(float(fine), rel=1e-12)
    with pytest.raises(InputError, match="tolerance"):
        model.score(new, exact=True, tolerance=0.0)


def test_a_coarse_one_is_a_finding(model):
    diagnosis = evaluation.diagnose(model, views())
    assert ("coarse quadrature" in diagnosis) == (model.score_.quadrature_error > 1e-3)
    model_score, model.score_ = model.score_, Score(1.0, 9.0, 1.0, "", 0.0, 5e-3)
    try:
        assert "off by about 0.005 nats a site" in repr(evaluation.diagnose(model, views()))
    finally:
        model.score_ = model_score


def test_files_keep_it(model, tmp_path):
    model.save(tmp_path / "model")
    assert rp.load(tmp_path / "model").score_.plain == model.score_.plain


def test_log_weight_has_an_error_by_quadrature_too(model):
    few = {name: x[:20] for name, x in views(40, 2).items()}
    coarse, fine = (model.log_weight(few, method="quadrature", nodes=nodes) for nodes in (6, 24))
    error = np.abs(coarse.values - fine.values)
    assert coarse.standard_error.mean() == pytest.approx(error.mean(), rel=0.5)
    assert fine.standard_error.mean() < 0.1 * coarse.standard_error.mean()


def test_of_populations_as_well():
    random = np.random.default_rng(0)
    counts = random.poisson(np.exp(0.8 * random.standard_normal((60, 1)) * np.linspace(-1, 1, 6)))
    model = made(
        rp.RPFA,
        1,
        factors={"x": rp.Population()},
        max_iter=10,
        n_init=1,
        random_state=0,
        finish="none",
        retries=0,
        dtype="float64",
    )
    score = model.fit({"x": counts}).score_
    assert 0 < score.quadrature_error < 1e-2
    assert "by quadrature" in repr(score)
