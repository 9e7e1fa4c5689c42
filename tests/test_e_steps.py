"""E-steps for continuous latents: each a choice of potentials; refinement never lowers the free energy."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import rpmodels as rp
from oracles.differences import central_difference
from registry import APPROXIMATIONS, ATOMS, E_STEPS, process_prior
from rpmodels.errors import BuildError, NumericalError
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import free_energy
from rpmodels.inference import Amortised, ExactEStep, FreeInducing, FreePotentials, NaturalGradient, PartlyHeard
from rpmodels.learning import RPMObjective
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
    return model, observations, observations.batch(np.arange(n), DOUBLE, torch.device("cpu"))


def bound(objective, batch):
    return objective.evaluate(batch).energy.total


def climbed(objective, batch, steps):
    """The bound after a quasi-Newton search over the trials' own parameters."""
    optimiser = torch.optim.LBFGS(objective.local_parameters(), max_iter=steps, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        loss = -bound(objective, batch).sum()
        loss.backward()
        return float(loss.detach())

    optimiser.step(closure)
    return bound(objective, batch).detach()


def with_e_step(model, e_step, observations):
    model.e_step = e_step
    return RPMObjective(model, observations)


@pytest.mark.parametrize("approximation", APPROXIMATIONS.values(), ids=APPROXIMATIONS.keys())
@pytest.mark.parametrize("atoms", ATOMS.values(), ids=ATOMS.keys())
def test_refinement_never_lowers_the_free_energy(approximation, atoms):
    model, observations, batch = problem(Amortised(), approximation.for_new_data(), atoms=atoms)
    amortised = bound(RPMObjective(model, observations), batch)
    refined = bound(with_e_step(model, NaturalGradient(6), observations), batch)
    assert (refined >= amortised - 1e-9).all()
    assert refined.sum() > amortised.sum() + 1e-3


def test_networks_are_reached_through_the_amortised_part():
    """Steps that hardly move leave q, and its gradient in the networks, as one pass has them."""
    model, observations, batch = problem(Amortised())
    weights = list(model.recognition.parameters())
    found = []
    for e_step in (Amortised(), NaturalGradient(2, rho=1e-9)):
        mean = with_e_step(model, e_step, observations).evaluate(batch).posterior.mu
        found.append(torch.autograd.grad(mean.square().sum(), weights))
    assert max(float(each.abs().max()) for each in found[0]) > 1e-2
    for amortised, refined in zip(*found, strict=True):
        torch.testing.assert_close(refined, amortised, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("family", [DiagonalGaussian(1), DiagonalGaussian(2), FullGaussian(2)], ids=str)
def test_natural_gradient_fixed_point_is_the_optimum_over_free_inducing(family):
    """1e-3 nats an observation, against a quasi-Newton search over μ and Σ of q(U)."""
    approximation = GaussHermite(20 if family.latents == 1 else 8)
    model, observations, batch = problem(NaturalGradient(60, tol=1e-9), approximation, family=family, sharpness=1.0)
    fixed = bound(RPMObjective(model, observations), batch).detach()
    free = with_e_step(model, FreeInducing(), observations)
    best = climbed(free, batch, 150)
    assert (fixed > best - 1e-3).all()
    assert (best > fixed - 1e-3).all()


def test_free_potentials_start_at_the_amortised_q_and_reach_the_fixed_point():
    model, observations, batch = problem(Amortised())
    amortised = bound(RPMObjective(model, observations), batch).detach()
    refined = bound(with_e_step(model, NaturalGradient(60, tol=1e-9), observations), batch).detach()
    free = with_e_step(model, FreePotentials(), observations)
    torch.testing.assert_close(bound(free, batch).detach(), amortised, rtol=0, atol=0.05)
    reached = climbed(free, batch, 100)
    # Site precisions may be negative at the optimum, and those that are parameters may not.
    assert (reached < refined + 1e-4).all()
    assert (reached > amortised - 1e-2).all()


def test_free_inducing_starts_at_the_amortised_q():
    model, observations, batch = problem(Amortised())
    amortised = bound(RPMObjective(model, observations), batch).detach()
    free = with_e_step(model, FreeInducing(), observations)
    torch.testing.assert_close(bound(free, batch).detach(), amortised, rtol=0, atol=1e-6)


def test_new_data_of_a_free_e_step_are_inferred_at_its_optimum():
    model, observations, batch = problem(FreeInducing(), FreeInteriorBound(), n=4, t=5)
    free = FittedRPM.collected(model, observations)
    objective = RPMObjective(model, observations).eval()  # as held-out batches are scored
    for parameter in objective.local_parameters():
        parameter.data.fill_(torch.nan)  # they belong to other observations
    found, energies, held_out = next(free.posterior(observations)), free.free_energies(observations), objective(batch)
    model.e_step, model.expected_log_mixture = NaturalGradient(50, tol=1e-3), OptimalInteriorBound()
    refined = FittedRPM.collected(model, observations)
    (wanted,) = refined.posterior(observations)
    torch.testing.assert_close(energies.total, refined.free_energies(observations).total)
    torch.testing.assert_close(found.posterior.eta, wanted.posterior.eta)
    expected = RPMObjective(model, observations)(batch)
    torch.testing.assert_close(held_out["free_energy"], expected["free_energy"])


def test_gradients_of_the_refined_free_energy_are_those_at_fixed_q():
    """At the stationary point q need not be differentiated (the envelope theorem)."""
    model, observations, batch = problem(NaturalGradient(80, tol=0.0), GaussHermite(24))
    objective = RPMObjective(model, observations)
    parameter = model.recognition[0].network[1].weight
    (gradient,) = torch.autograd.grad(bound(objective, batch).sum(), parameter)
    for place in [(0, 0), (1, 2)]:
        expected = central_difference(lambda: bound(objective, batch).sum(), parameter, place, 1e-4)
        assert float(gradient[place]) == pytest.approx(expected, rel=2e-3, abs=1e-4)


@pytest.mark.parametrize("e_step", [name for name in E_STEPS if name != "amortised"])
@pytest.mark.parametrize("approximation", [InteriorBound(), FreeInteriorBound()], ids=lambda a: type(a).__name__)
def test_absolute_factors_train_with_every_e_step_but_the_amortised(e_step, approximation):
    model, observations, batch = problem(E_STEPS[e_step], approximation, head=AbsoluteHead())
    objective = RPMObjective(model, observations)
    optimiser = torch.optim.Adam(objective.parameters(), 1e-2)
    before = float(bound(objective, batch).mean().detach())
    for _ in range(8):
        optimiser.zero_grad()
        loss = -bound(objective, batch).mean()
        loss.backward()
        optimiser.step()
    assert float(bound(objective, batch).mean().detach()) > before
    energies = objective.fitted(observations).free_energies(observations, in_training=True, local=objective.local)
    assert torch.isfinite(energies.total).all()


def test_local_parameters_have_their_owners_and_are_cut_to_the_sites_of_a_batch():
    model, observations, batch = problem(FreePotentials(), FreeInteriorBound())
    local = RPMObjective(model, observations).local.take(batch.index)
    assert list(local.e_step) == ["potentials"]
    assert {name: list(local.of(name)) for name in "abc"} == {"a": ["auxiliary"], "b": ["auxiliary"], "c": []}
    random = np.random.default_rng(1)
    trials = {name: [random.standard_normal((t, 3)) for t in (8, 3, 5, 3)] for name in "ab"}
    observations = rp.read(trials, series=True)
    model.prepare(observations)
    short = observations.batch(np.array([1, 3]), DOUBLE, torch.device("cpu"))
    assert short.sites.exists.shape == (2, 3)
    assert torch.isfinite(bound(RPMObjective(model, observations), short)).all()


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
    for e_step, missing in ((NaturalGradient(), "Gaussian"), (FreePotentials(), "HasDomain")):
        with pytest.raises(BuildError, match=rf"Categorical .* \({missing}\)"):
            rp.RPM(CategoricalPrior.uniform(2), network, e_step=e_step)


def test_a_precision_that_loses_positivity_names_trial_and_factor():
    model, observations, batch = problem(Amortised(), family=FullGaussian(2))
    objective = RPMObjective(model, observations)
    with torch.no_grad():
        model.recognition[1].network[1].bias.fill_(1e200)
    with pytest.raises(NumericalError, match=r"recognition factor 'b' .* trial 0, site 0"):
        bound(objective, batch)


def test_what_is_not_heard_might_be_missing():
    """q of the sites that are heard is q of observations in which the others are absent; F counts them all."""
    model, observations, batch = problem(PartlyHeard(0.5))
    torch.manual_seed(3)
    found = RPMObjective(model, observations).evaluate(batch)
    torch.manual_seed(3)
    heard = torch.rand(batch.sites.exists.shape) < 0.5
    assert heard.any()
    assert not heard.all()
    factors = {name: replace(each, present=each.present & heard) for name, each in found.step.factors.items()}
    expected = Amortised()(replace(found.step, factors=factors), model.expected_log_mixture)
    torch.testing.assert_close(found.posterior.eta, expected.eta, rtol=1e-10, atol=1e-10)
    counted = free_energy(found.step, expected, model.expected_log_mixture, batch.weights, len(observations))
    torch.testing.assert_close(found.energy.total, counted.total, rtol=1e-10, atol=1e-10)
    assert isinstance(PartlyHeard().for_new_data(), Amortised)


def test_partly_heard_fits_are_reproducible_saved_and_heard_whole(tmp_path):
    random = np.random.default_rng(0)
    z = np.cumsum(random.standard_normal((12, 20, 1)), 1) / 4
    counts = random.poisson(np.exp(0.6 * z * random.standard_normal(9))).astype(float)
    inference = rp.Inference(e_step="partly_heard")

    def fitted(e_step):
        return rp.RPGPFA(1, inference=e_step, max_iter=20, random_state=0).fit(counts)

    one, two, whole = fitted(inference), fitted(inference), fitted(None)
    np.testing.assert_array_equal(one.transform(counts), two.transform(counts))
    assert not np.allclose(one.transform(counts), whole.transform(counts))
    np.testing.assert_array_equal(one.transform(counts), one.transform(counts))
    one.save(tmp_path / "model.rpm")
    np.testing.assert_array_equal(rp.load(tmp_path / "model.rpm").transform(counts), one.transform(counts))


def test_single_sites_cannot_be_partly_heard():
    with pytest.raises(BuildError, match="know nothing of each other"):
        rp.RPFA(1, inference=rp.Inference(e_step="partly_heard"), max_iter=2).fit(
            np.random.default_rng(0).poisson(1.0, (40, 9))
        )
    with pytest.raises(rp.errors.InputError, match="share"):
        PartlyHeard(1.5)
