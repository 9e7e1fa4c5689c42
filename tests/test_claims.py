"""Sentences of the paper that are not equations, each against an independent computation (docs/paper.md)."""

import itertools

import numpy as np
import pytest
import torch

import rpmodels as rp
from oracles import integrals
from registry import log_w
from rpmodels.families import DiagonalGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.mixtures import AtomMixture, GaussHermite, SecondOrder
from rpmodels.priors import CategoricalPrior
from rpmodels.recognition import LookupTable

DOUBLE = torch.float64
VALUES = 3
"""Of every observed variable."""


def mixture_of_products(random, n_observed):
    """p(Z) and p(x_j|Z): any latent class model."""
    return random.dirichlet(np.ones(4)), random.dirichlet(np.ones(VALUES), (n_observed, 4))


def boltzmann_machine(random, n_observed):
    """The same of a restricted one, p(x, z) ∝ exp(Σ_jl w_jl(x_j) z_l + b·z), two hidden units, by enumeration."""
    hidden = np.array(list(itertools.product([0, 1], repeat=2)))
    energies = random.normal(0, 1.5, (n_observed, VALUES, 2)) @ hidden.T  # (j, x, Z)
    log_p = (np.logaddexp.reduce(energies, 1) + hidden @ random.normal(size=2)).sum(0)
    p = np.exp(log_p - np.logaddexp.reduce(log_p))
    return p, np.exp(energies - np.logaddexp.reduce(energies, 1)[:, None]).swapaxes(1, 2)


@pytest.mark.parametrize("world", [mixture_of_products, boltzmann_machine])
def test_any_model_with_independent_observations_is_an_rpm(world):
    """With f_j = p(Z|x_j) and all the data there are: F_j = p(Z), (4) is Bayes' rule, log W its log-odds.

    So it is for a restricted Boltzmann machine; and the score, which is what InfoNCE tends to, is the information that
    the observed variables have of each other.
    """
    random = np.random.default_rng(0)
    names = ("x1", "x2", "x3")
    p, given = world(random, len(names))
    grid = np.array(list(itertools.product(range(VALUES), repeat=len(names))))
    of_latent = np.stack([given[j][:, grid[:, j]] for j in range(len(names))]).prod(0).T * p  # (x, Z)
    joint = of_latent.sum(1)
    marginals = np.einsum("k,jkx->jx", p, given)
    recognised = p * given.swapaxes(1, 2) / marginals[..., None]  # (j, x, Z)
    tables = {}
    for name, each in zip(names, recognised, strict=True):
        tables[name] = LookupTable(VALUES, len(p))
        tables[name].weight.data = torch.as_tensor(np.log(each / p))
    model = rp.RPM(CategoricalPrior.fixed(torch.as_tensor(p)), tables, scaling="none", dtype=DOUBLE)
    observations = rp.read({name: grid[:, j].astype(str) for j, name in enumerate(names)}, weights=joint * len(grid))
    model.prepare(observations)
    fitted = FittedRPM.collected(model, observations)
    for name in names:
        atoms = fitted.atoms(name)
        f = torch.softmax(atoms.g[0] + atoms.reference, -1)
        counts = torch.softmax(atoms.log_count[0], 0)
        np.testing.assert_allclose((counts[:, None] * f).sum(0).numpy(), p, atol=1e-12)
    log_ratio = np.log(joint) - sum(np.log(marginals[j, grid[:, j]]) for j in range(len(names)))
    energies = fitted.free_energies(observations, in_training=True)
    np.testing.assert_allclose(energies.total.numpy(), log_ratio, atol=1e-10)
    posterior = torch.cat([each.posterior.mu for each in fitted._inferred(observations, None, True)])[:, 0]
    np.testing.assert_allclose(posterior.numpy(), of_latent / joint[:, None], atol=1e-10)
    information = float(joint @ log_ratio)
    assert information > 0.01
    assert float(joint @ energies.total.numpy()) == pytest.approx(information, abs=1e-10)


def test_weight_on_some_observations_is_taken_from_others():
    """W averages to one over the grid of atoms, so that training raises it where data are and lowers it elsewhere."""
    random = np.random.default_rng(0)
    z = random.integers(0, 3, 40)
    data = {name: np.eye(3)[z] + 0.3 * random.standard_normal((40, 3)) for name in ("a", "b")}
    model = rp.RPCategorical(3, max_iter=60, n_init=1, random_state=0).set_params(engine__dtype="float64").fit(data)
    first, second = (index.ravel() for index in np.meshgrid(range(40), range(40), indexing="ij"))
    grid = rp.read({"a": data["a"][first], "b": data["b"][second]}, known=model.model_.specs)
    weights = log_w(model.model_, grid).exp().numpy().reshape(40, 40)
    own, shuffled = weights.diagonal(), weights[~np.eye(40, dtype=bool)]
    assert own.min() > 1.0 > shuffled.mean()
    assert weights.mean() == pytest.approx(1.0, abs=1e-6)


def test_the_second_order_is_no_bound():
    """It is above ⟨log F_j⟩ for some mixtures and below for others, by integrals."""
    family = DiagonalGaussian(1)
    signs = set()
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        reference, g, eta_q = (
            family.to_valid(torch.randn(*shape, family.raw_size, generator=generator, dtype=DOUBLE))
            for shape in ((1,), (1, 5), (2, 1))
        )
        mixture = AtomMixture(family, reference, True, g, torch.zeros(1, 5, dtype=DOUBLE))
        truth = integrals.expected_log_ratio(mixture, eta_q, 4001)
        np.testing.assert_allclose(GaussHermite(64)(eta_q, mixture, {}).numpy(), truth, atol=1e-4)
        signs |= set(np.sign(np.round(SecondOrder()(eta_q, mixture, {}).numpy() - truth, 4)).ravel())
    assert {-1.0, 1.0} <= signs
