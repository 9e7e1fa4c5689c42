"""Mixtures as data: blocks, own atoms, empty sites, pooled and per-site atoms."""

import numpy as np
import pytest
import torch

from registry import ATOMS, FAMILIES, random_eta
from rpmodels.carriers import Factor
from rpmodels.errors import BuildError
from rpmodels.families import Categorical, DiagonalGaussian, JointStates, VonMises
from rpmodels.inference import ExactEStep
from rpmodels.linalg import log_sum_exp
from rpmodels.mixtures import AtomMixture, Exact, Kind, PerSite, Pooled, reduce
from rpmodels.mixtures.table import tabulate
from rpmodels.priors import CategoricalPrior, CircularPrior, DiscreteGraph, GaussianPrior

DOUBLE = torch.float64


def factor(n=6, t=3, k=4, seed=0, missing=0.3):
    generator = torch.Generator().manual_seed(seed)
    present = torch.rand(n, t, generator=generator) > missing
    g = torch.randn(n, t, k, generator=generator, dtype=DOUBLE)
    return Factor(g * present[..., None], present)


def test_log_sum_exp_of_nothing_is_minus_infinity_without_nan_gradients():
    values = torch.tensor([[-torch.inf, -torch.inf], [0.0, -torch.inf], [1.0, 2.0]], dtype=DOUBLE, requires_grad=True)
    result = log_sum_exp(values)
    torch.testing.assert_close(result[1:], torch.logsumexp(values[1:], -1))
    assert result[0] == -torch.inf
    result[1:].sum().backward()
    assert torch.isfinite(values.grad).all()
    both = reduce.log_add_exp(torch.tensor([-torch.inf, 0.0]), torch.tensor([-torch.inf, 0.0]))
    assert both.tolist() == [-torch.inf, pytest.approx(np.log(2))]


@pytest.mark.parametrize("budget", [1, 7, 40, 10**6])
def test_blocks_change_neither_values_nor_gradients(budget, monkeypatch):
    monkeypatch.setattr(reduce, "PAIR_BUDGET", budget)
    each = factor(n=20)
    g = each.g.clone().requires_grad_()
    weights = torch.rand(20, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
    atoms = PerSite().collect(Categorical(4), torch.zeros(1, 4, dtype=DOUBLE), Factor(g, each.present), weights)
    table = tabulate(atoms)
    table.log_ratio().square().sum().backward()
    f = torch.softmax(g.detach(), -1).clone().requires_grad_()
    counted = weights[:, None] * each.present
    expected = (counted[..., None] * f).sum(0) / counted.sum(0)[:, None]
    torch.testing.assert_close(table.log_ratio()[0] + np.log(0.25), expected.log().detach())
    again = each.g.clone().requires_grad_()
    reference = (counted[..., None] * torch.softmax(again, -1)).sum(0) / counted.sum(0)[:, None]
    (reference.log() - np.log(0.25)).square().sum().backward()
    torch.testing.assert_close(g.grad, again.grad)


@pytest.mark.parametrize("policy", ATOMS.values(), ids=ATOMS.keys())
def test_own_atoms_are_added_once(policy):
    """F⁺ = (Σc F + f_own)/(Σc + 1) at every site, also at sites that training never saw."""
    training, new = factor(), factor(n=2, t=5, seed=3, missing=0.2)
    zero = torch.zeros(1, 4, dtype=DOUBLE)
    table = tabulate(policy.collect(Categorical(4), zero, training, torch.ones(6, dtype=DOUBLE)))
    with_own = table.with_own(new, zero)
    f_own = torch.softmax(new.g, -1)
    pooled = isinstance(policy, Pooled)
    for n in range(2):
        for t in range(5):
            if not new.present[n, t]:
                continue
            if pooled:
                members = torch.softmax(training.g, -1)[training.present]
            else:
                members = torch.softmax(training.g[:, t], -1)[training.present[:, t]] if t < 3 else f_own[:0, 0]
            expected = torch.cat([members, f_own[n, t][None]]).mean(0)
            torch.testing.assert_close(with_own.log_ratio()[n, t], (expected / 0.25).log())
            assert float(with_own.log_total[n, t]) == pytest.approx(np.log(len(members) + 1))


def test_a_site_without_atoms_contributes_nothing():
    nobody = Factor(torch.zeros(3, 2, 4, dtype=DOUBLE), torch.tensor([[True, False]] * 3))
    table = tabulate(
        PerSite().collect(Categorical(4), torch.zeros(1, 4, dtype=DOUBLE), nobody, torch.ones(3, dtype=DOUBLE))
    )
    assert (table.log_ratio()[:, 1] == 0).all()


def test_atom_mixture_keeps_its_atoms_and_adds_own():
    family = DiagonalGaussian(2)
    atoms = AtomMixture(family, random_eta(family, 1), False, random_eta(family, 3, 5), torch.zeros(3, 5, dtype=DOUBLE))
    own = Factor(random_eta(family, 2, 4), torch.ones(2, 4, dtype=torch.bool))
    extended = atoms.with_own(own, atoms.reference)
    assert extended.g.shape == (4, 5, 4)
    torch.testing.assert_close(extended.log_total[0].exp(), torch.tensor([6.0, 6.0, 6.0, 1.0], dtype=DOUBLE))
    shorter = atoms.with_own(Factor(own.g[:, :1], own.present[:, :1]), atoms.reference)
    assert shorter.g.shape == (1, 5, 4)


@pytest.mark.parametrize("name", FAMILIES)
def test_exact_parts_refuse_continuous_latents_when_built(name):
    family = FAMILIES[name]
    atoms = AtomMixture(family, random_eta(family, 1), True, random_eta(family, 1, 2), torch.zeros(1, 2, dtype=DOUBLE))
    others = {
        Categorical: lambda: CategoricalPrior.uniform(4),
        VonMises: CircularPrior,
        JointStates: lambda: DiscreteGraph.learned({"a": 2, "b": 2}),  # what factors speak of is Categorical
    }
    prior = others.get(type(family), lambda: GaussianPrior(family))()
    if isinstance(family, Categorical):
        Exact().check(family)
        with pytest.raises(BuildError, match="keeps AtomMixture"):
            ExactEStep().check(prior, atoms, True)
        ExactEStep().check(prior, tabulate(atoms), True)
        assert Exact().kind is Kind.EXACT
        return
    with pytest.raises(BuildError, match=f"{type(family).__name__} has infinitely many"):
        Exact().check(family)
    with pytest.raises(BuildError, match=f"{type(family).__name__} has infinitely many"):
        ExactEStep().check(prior, atoms, True)
