"""L-BFGS by few passes over all pairs: it ends where the plain one does, wherever the part that shows the way leads."""

import copy
import math
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import scipy.optimize
import torch

import rpmodels as rp
from data import clusters
from rpmodels import errors
from rpmodels.learning import NoFinish, QuasiNewton, RPMObjective, long_climb
from rpmodels.learning import finish as finishing
from rpmodels.learning.climbing import Penalty, climb
from rpmodels.learning.long_climb import climb_long
from rpmodels.learning.objective import RPMObjective as Objective

DOUBLE = rp.Engine(dtype="float64")
PASSES = 100


def turning(n, t, seed):
    """Two latents that turn and fade, behind four channels."""
    random = np.random.default_rng(seed)
    step = 0.9 * np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    z = np.zeros((n, t, 2))
    z[:, 0] = random.standard_normal((n, 2))
    for now in range(1, t):
        z[:, now] = z[:, now - 1] @ step.T + math.sqrt(1 - 0.81) * random.standard_normal((n, 2))
    return z @ random.standard_normal((2, 4)) + 0.7 * random.standard_normal((n, t, 4))


def three_views(n):
    random = np.random.default_rng(0)
    z = random.standard_normal((n, 1))
    return {name: z @ random.standard_normal((1, 4)) + 0.5 * random.standard_normal((n, 4)) for name in "abc"}


@cache
def trained(estimator, read):
    """Some steps up the free energy."""
    observations = read()
    model, settings = estimator(network="linear", n_init=1, engine=DOUBLE, random_state=0).build(observations)
    return rp.train(model, observations, replace(settings, finish=NoFinish()), random_state=0).pattern, observations


def before_its_end(kind=None):
    model, observations = trained(*(kind or ANALYSIS))
    return RPMObjective(copy.deepcopy(model), observations).eval(), observations


def dynamics():
    """Full Gaussians, pooled atoms."""
    return before_its_end(DYNAMICS)


ANALYSIS = partial(rp.RPFA, 1, max_iter=300), partial(rp.read, three_views(200))
DYNAMICS = partial(rp.RPLDS, 2, max_iter=150), partial(rp.read, turning(45, 6, 0), series=True)


def everything(objective, observations):
    return observations.batch(np.arange(len(observations)), objective.model.dtype, objective.model.device)


def highest(objective, observations):
    """By scipy, from where the objective is."""
    batch = everything(objective, observations)
    parameters = [each for each in objective.parameters() if each.requires_grad]
    begin = torch.nn.utils.parameters_to_vector(parameters).detach().numpy()

    def loss(vector):
        torch.nn.utils.vector_to_parameters(torch.tensor(vector), parameters)
        objective.zero_grad()
        value = -objective(batch)["free_energy"]
        value.backward()
        grads = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        return float(value.detach()), torch.cat([each.flatten() for each in grads]).numpy()

    return -float(scipy.optimize.minimize(loss, begin, jac=True, method="BFGS", options={"maxiter": 60}).fun)


def free_energy(objective, observations):
    with torch.no_grad():
        return float(objective(everything(objective, observations))["free_energy"])


def test_full_gaussians_with_pooled_atoms_end_at_the_maximum():
    objective, observations = dynamics()
    before = free_energy(objective, observations)
    climbed = climb_long(objective, observations, Penalty(0.0), 25, PASSES)
    after = free_energy(objective, observations)
    assert climbed.still
    assert climbed.gained == pytest.approx(after - before, abs=1e-9)
    best = highest(objective, observations)
    assert best - before > 0.01
    assert best - after < 1e-4 * best


def test_what_the_part_has_taught_saves_passes(monkeypatch):
    """Where it is all there is, of the curvature nothing is left to learn."""
    seen = []
    see = long_climb._Watch.see
    monkeypatch.setattr(long_climb._Watch, "see", lambda self, value: (seen.append(value), see(self, value)))
    counts = []
    for teaches in (True, False):
        objective, observations = before_its_end()
        if not teaches:
            monkeypatch.setattr(long_climb, "_climb_part", lambda *_: None)
        climb_long(objective, observations, Penalty(0.0), 200, PASSES)
        counts.append(len(seen))
        seen.clear()
    assert counts[0] < 0.7 * counts[1]


def test_a_part_that_leads_astray_costs_time_alone(monkeypatch):
    objective, observations = before_its_end()
    other, _ = before_its_end()
    climb(other, observations, Penalty(0.0), 5)

    def astray(objective, *_):
        with torch.no_grad():
            for each in objective.parameters():
                each.add_(3.0)

    monkeypatch.setattr(long_climb, "_climb_part", astray)
    climbed = climb_long(objective, observations, Penalty(0.0), 100, PASSES)
    assert climbed.still
    assert free_energy(objective, observations) == pytest.approx(free_energy(other, observations), rel=1e-4)


def test_the_penalty_counts_everywhere():
    objective, observations = before_its_end()
    other, _ = before_its_end()
    climbed = climb_long(objective, observations, Penalty(20.0), 100, PASSES)
    plain = climb(other, observations, Penalty(20.0), 5)
    assert climbed.value == pytest.approx(plain.value, rel=1e-3)
    assert climbed.reached == pytest.approx(free_energy(objective, observations), abs=1e-9)
    assert climbed.reached > climbed.value + 0.01


@pytest.mark.parametrize("poison", ["nan", "raise"])
@pytest.mark.parametrize("first", [2, 45])
def test_passes_that_fail_are_undone(poison, first, monkeypatch):
    objective, observations = before_its_end()
    before = free_energy(objective, observations)
    calls, forward = [], Objective.forward

    def poisoned(self, batch):
        calls.append(1)
        terms = dict(forward(self, batch))
        if torch.is_grad_enabled() and len(calls) > first:
            if poison == "raise":
                raise errors.NumericalError("a number is none")
            terms["free_energy"] = terms["free_energy"] * torch.nan
        return terms

    monkeypatch.setattr(Objective, "forward", poisoned)
    climbed = climb_long(objective, observations, Penalty(0.0), 100, PASSES)
    monkeypatch.undo()
    assert not climbed.still
    assert climbed.gained >= 0
    assert free_energy(objective, observations) - before == pytest.approx(climbed.gained, abs=1e-9)


def test_too_few_passes_are_no_convergence():
    objective, observations = before_its_end()
    assert not climb_long(objective, observations, Penalty(0.0), 10, 2).still


def test_variational_bayes_follows():
    """Counts of states that are learnt with a prior: they end where plain rounds leave them, and nothing is lower."""
    x, _ = clusters(150, 3, distance=2.0)
    observations = rp.read(x)
    found = []
    for long in (True, False):
        estimator = rp.RPCategorical(3, prior="learned", network="linear", engine=DOUBLE, random_state=0)
        model, _ = estimator.build(observations)
        model.prepare(observations)
        objective = RPMObjective(model, observations).eval()
        objective(everything(objective, observations))
        objective.after_step()
        if long:
            climbed = climb_long(objective, observations, Penalty(0.0), 60, PASSES)
        else:
            climbed = climb(objective, observations, Penalty(0.0), 5)
        assert climbed.gained >= 0
        found.append(climbed.reached)
    assert found[0] == pytest.approx(found[1], abs=1e-3)


def test_a_fit_takes_it_where_passes_are_long(monkeypatch):
    x = turning(45, 6, 0)
    monkeypatch.setattr(finishing, "PAIRS", 2**14)
    monkeypatch.setattr(finishing, "PART", 2**14)
    taken = []
    monkeypatch.setattr(finishing, "climb_long", lambda *args: taken.append(args[3]) or climb_long(*args))
    model = rp.RPLDS(2, network="linear", n_init=1, max_iter=40, random_state=0).fit(x)
    assert taken == [math.ceil(45 * math.sqrt(2**14 / 270**2))]
    assert ", then L-BFGS (+" in model.stop_reason_
    observations = rp.read(x, series=True)
    assert not QuasiNewton().is_short(RPMObjective(model.model_.pattern, observations), observations)
