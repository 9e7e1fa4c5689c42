"""E-steps for continuous latents: each a choice of potentials; refinement never lowers the free energy."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from oracles.differences import central_difference
from registry import APPROXIMATIONS, ATOMS, E_STEPS, process_prior
from rpmodels.carriers import OWNER
from rpmodels.errors import BuildError, NumericalError
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.inference import Amortised, ExactEStep, FreeInducing, FreePotentials, NaturalGradient
from rpmodels.mixtures import (
    FreeInteriorBound,
    GaussHermite,
    InteriorBound,
    OptimalInteriorBound,
    PerSite,
)
from rpmodels.priors import CategoricalPrior, GaussianPrior
from rpmodels.recognition import AbsoluteHead, Linear
from rpmodels.seeding import seeded

DOUBLE = torch.float64


def problem(e_step, approximation=None, *, family=None, atoms=None, head=None, n=6, t=8, sharpness=1.5, lists=False):
    family = family or DiagonalGaussian(1)
    random = np.random.default_rng(0)
    data = {name: random.standard_normal((n, t, 3)) for name in "ab"}
    data["b"][2, 3:5] = np.nan
    observations = rp.read(data, series=True)
    with seeded(1):
        networks = {name: Linear((3,), family.raw_size) for name in data}
    model = rp.RPM(
        process_prior(family, end=t - 1.0),
        networks,
        e_step=e_step,
        expected_log_mixture=approximation or InteriorBound(),
        atoms=atoms or PerSite(),
        head=head,
        scaling="none",
        dtype=DOUBLE,
    )
    with torch.no_grad():
        for parameter in model.recognition.parameters():
            parameter.mul_(sharpness)
    model.prepare(observations)
    model.collect(observations)
    return model, observations, observations.batch(np.arange(n), DOUBLE, torch.device("cpu"))


def bound(model, batch):
    return model.evaluate(batch, float(batch.size)).energy.total


def climbed(model, batch, steps):
    """The bound after a quasi-Newton search over the trials' own parameters."""
    optimiser = torch.optim.LBFGS(list(model.rows.parameters()), max_iter=steps, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        loss = -bound(model, batch).sum()
        loss.backward()
        return float(loss.detach())

    optimiser.step(closure)
    return bound(model, batch).detach()


def with_e_step(model, e_step, observations):
    model.e_step = e_step
    model.prepare(observations)
    return model


@pytest.mark.parametrize("approximation", APPROXIMATIONS.values(), ids=APPROXIMATIONS.keys())
@pytest.mark.parametrize("atoms", ATOMS.values(), ids=ATOMS.keys())
def test_refinement_never_lowers_the_free_energy(approximation, atoms):
    model, observations, batch = problem(Amortised(), approximation.settled(), atoms=atoms)
    amortised = bound(model, batch)
    refined = bound(with_e_step(model, NaturalGradient(6), observations), batch)
    assert (refined >= amortised - 1e-9).all()
    assert refined.sum() > amortised.sum() + 1e-3


@pytest.mark.parametrize("family", [DiagonalGaussian(1), DiagonalGaussian(2), FullGaussian(2)], ids=str)
def test_natural_gradient_fixed_point_is_the_optimum_over_free_inducing(family):
    """1e-3 nats an observation, against a quasi-Newton search over μ and Σ of q(U)."""
    approximation = GaussHermite(20 if family.latents == 1 else 8)
    model, observations, batch = problem(NaturalGradient(60, tol=1e-9), approximation, family=family, sharpness=1.0)
    fixed = bound(model, batch).detach()
    free = with_e_step(model, FreeInducing(), observations)
    best = climbed(free, batch, 150)
    assert (fixed > best - 1e-3).all()
    assert (best > fixed - 1e-3).all()


def test_free_potentials_start_at_the_amortised_q_and_reach_the_fixed_point():
    model, observations, batch = problem(Amortised())
    amortised = bound(model, batch).detach()
    refined = bound(with_e_step(model, NaturalGradient(60, tol=1e-9), observations), batch).detach()
    free = with_e_step(model, FreePotentials(), observations)
    torch.testing.assert_close(bound(free, batch).detach(), amortised, rtol=0, atol=0.05)
    reached = climbed(free, batch, 100)
    # Site precisions may be negative at the optimum, and those of the rows may not.
    assert (reached < refined + 1e-4).all()
    assert (reached > amortised - 1e-2).all()


def test_free_inducing_starts_at_the_amortised_q():
    model, observations, batch = problem(Amortised())
    amortised = bound(model, batch).detach()
    free = with_e_step(model, FreeInducing(), observations)
    torch.testing.assert_close(bound(free, batch).detach(), amortised, rtol=0, atol=1e-6)


def test_new_data_of_a_free_e_step_are_settled_to_its_optimum():
    model, observations, _ = problem(FreeInducing(), FreeInteriorBound())
    (settled,) = model.infer(observations)
    model.e_step, model.expected_log_mixture = NaturalGradient(50, tol=1e-3), OptimalInteriorBound()
    (wanted,) = model.infer(observations)
    torch.testing.assert_close(settled.energy.total, wanted.energy.total)
    torch.testing.assert_close(settled.posterior.eta, wanted.posterior.eta)


def test_gradients_of_the_refined_free_energy_are_those_at_fixed_q():
    """At the stationary point q need not be differentiated (the envelope theorem)."""
    model, _, batch = problem(NaturalGradient(80, tol=0.0), GaussHermite(24))
    parameter = model.recognition[0].network[1].weight
    (gradient,) = torch.autograd.grad(bound(model, batch).sum(), parameter)
    for place in [(0, 0), (1, 2)]:
        expected = central_difference(lambda: bound(model, batch).sum(), parameter, place, 1e-4)
        assert float(gradient[place]) == pytest.approx(expected, rel=2e-3, abs=1e-4)


@pytest.mark.parametrize("e_step", [name for name in E_STEPS if name != "amortised"])
@pytest.mark.parametrize("approximation", [InteriorBound(), FreeInteriorBound()], ids=lambda a: type(a).__name__)
def test_absolute_factors_train_with_every_e_step_but_the_amortised(e_step, approximation):
    model, observations, batch = problem(E_STEPS[e_step], approximation, head=AbsoluteHead())
    optimiser = torch.optim.Adam(model.parameters(), 1e-2)
    before = float(bound(model, batch).mean().detach())
    for _ in range(8):
        optimiser.zero_grad()
        loss = -bound(model, batch).mean()
        loss.backward()
        optimiser.step()
    assert float(bound(model, batch).mean().detach()) > before
    model.collect(observations)
    (inferred,) = model.infer(observations, own=False)
    assert torch.isfinite(inferred.energy.total).all()


def test_rows_are_named_by_their_owners_and_cut_to_the_sites_of_a_batch():
    model, _, _ = problem(FreePotentials(), FreeInteriorBound())
    assert sorted(model.rows) == sorted([f"a{OWNER}auxiliary", f"b{OWNER}auxiliary", f"{OWNER}potentials"])
    random = np.random.default_rng(1)
    trials = {name: [random.standard_normal((t, 3)) for t in (8, 3, 5, 3)] for name in "ab"}
    observations = rp.read(trials, series=True)
    model.prepare(observations)
    short = observations.batch(np.array([1, 3]), DOUBLE, torch.device("cpu"))
    assert short.sites.exists.shape == (2, 3)
    assert torch.isfinite(bound(model, short)).all()


def test_pairs_that_cannot_work_are_refused_with_a_sentence():
    family = DiagonalGaussian(1)
    network = {"a": Linear((3,), 2), "b": Linear((3,), 2)}
    with pytest.raises(BuildError, match="absolute factors may know less"):
        rp.RPM(
            GaussianPrior(family),
            network,
            e_step=Amortised(),
            expected_log_mixture=InteriorBound(),
            head=AbsoluteHead(),
        )
    with pytest.raises(BuildError, match="has infinitely many"):
        rp.RPM(GaussianPrior(family), network, e_step=ExactEStep(), expected_log_mixture=InteriorBound())
    with pytest.raises(BuildError, match="needs a prior with inducing points"):
        rp.RPM(GaussianPrior(family), network, e_step=FreeInducing(), expected_log_mixture=InteriorBound())
    for e_step in (NaturalGradient(), FreePotentials()):
        with pytest.raises(BuildError, match="continuous latents"):
            rp.RPM(CategoricalPrior.uniform(2), network, e_step=e_step)


def test_a_precision_that_loses_positivity_names_trial_and_factor():
    model, _, batch = problem(Amortised(), family=FullGaussian(2))
    with torch.no_grad():
        model.recognition[1].network[1].bias.fill_(1e200)
    with pytest.raises(NumericalError, match=r"recognition factor 'b' .* trial 0, site 0"):
        bound(model, batch)
