"""Soft-thresholded eigenvalues of η̃: always a bound, because one threshold serves all atoms."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from oracles import integrals
from rpmodels import linalg
from rpmodels.carriers import Factor
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.mixtures import AtomMixture, FreeInteriorBound, Kind, OptimalInteriorBound, ThresholdedInteriorBound

DOUBLE = torch.float64
FAMILIES = {"diagonal-1": DiagonalGaussian(1), "diagonal-2": DiagonalGaussian(2), "full-2": FullGaussian(2)}
BOUND = ThresholdedInteriorBound()


def random_members(family, *shape, seed, scale=1.0):
    generator = torch.Generator().manual_seed(seed)
    return family.to_valid(scale * torch.randn(*shape, family.raw_size, generator=generator, dtype=DOUBLE))


def problem(family, seed):
    """η_q of three trials at two sites, and a mixture with own atoms."""
    reference = random_members(family, 2, seed=seed)
    g = random_members(family, 2, 5, seed=seed + 1, scale=2.0)
    g[:, 0] = 0.0  # who knows nothing
    mixture = AtomMixture(family, reference, False, g, torch.zeros(2, 5, dtype=DOUBLE))
    own = Factor(random_members(family, 3, 2, seed=seed + 2), torch.ones(3, 2, dtype=torch.bool))
    return random_members(family, 3, 2, seed=seed + 3), mixture.with_own(own, reference)


@pytest.mark.parametrize("name", FAMILIES)
def test_any_parameters_give_a_bound(name):
    """Also far outside of what is valid: against the integral itself."""
    family = FAMILIES[name]
    for seed in range(4):
        eta_q, mixture = problem(family, 10 * seed)
        truth = integrals.expected_log_ratio(mixture, eta_q, 4001 if family.latents == 1 else 201)
        random = np.random.default_rng(seed)
        for scale in (0.1, 1.0, 10.0):
            raw = torch.as_tensor(scale * random.standard_normal((3, 2, family.natural_size)))
            a = BOUND.auxiliary(eta_q, mixture, {"auxiliary": raw})
            assert bool(family.valid(a[:, :, None] + mixture.g).all())
            assert (BOUND(eta_q, mixture, {"auxiliary": raw}).numpy() >= truth - 1e-8).all()
    assert BOUND.kind is Kind.UPPER_BOUND


@pytest.mark.parametrize("name", FAMILIES)
def test_it_starts_where_the_closed_bound_is_and_descends_to_the_optimal_one(name):
    family = FAMILIES[name]
    eta_q, mixture = problem(family, 3)
    start = BOUND.initial_parameters(family, lambda: eta_q)
    free = FreeInteriorBound()
    closed = free(eta_q, mixture, free.initial_parameters(family, lambda: eta_q))
    torch.testing.assert_close(BOUND(eta_q, mixture, start), closed, rtol=1e-9, atol=1e-9)
    raw = start["auxiliary"].clone().requires_grad_()
    optimiser = torch.optim.LBFGS([raw], max_iter=300, line_search_fn="strong_wolfe")

    def closure():
        optimiser.zero_grad()
        total = BOUND(eta_q, mixture, {"auxiliary": raw}).sum()
        total.backward()
        return total

    optimiser.step(closure)
    reached = BOUND(eta_q, mixture, {"auxiliary": raw}).detach()
    optimal = OptimalInteriorBound()(eta_q, mixture, {})
    assert (reached >= optimal - 1e-7).all()
    assert float((reached - optimal).max()) < 0.05  # a + g_m may be valid for all m where a alone is not
    assert float((closed - reached).sum()) > 0.1


def test_a_threshold_for_every_pair_is_no_bound():
    """With η̃ changed for each atom alone the number falls below the integral: method of the trap, not of the house."""
    family = DiagonalGaussian(1)
    eta_q, mixture = problem(family, 7)
    truth = integrals.expected_log_ratio(mixture, eta_q, 4001)
    raw = torch.tensor([0.0, 40.0], dtype=DOUBLE).expand(3, 2, 2)  # a precision of −80: invalid with every atom

    def of_pairs(each):
        pairs = raw[:, :, None] + each
        changed = family.thresholded(pairs, 1.0)
        shift = (
            family.log_normaliser(mixture.reference[:, None] + each) - family.log_normaliser(mixture.reference)[:, None]
        )
        return family.log_normaliser(changed) - shift

    own = of_pairs(mixture.own.g[:, :, None])
    terms = torch.cat([of_pairs(mixture.g[None]), own], -1)
    log_mean = torch.logsumexp(terms, -1) - np.log(6)
    value = log_mean - family.log_normaliser(eta_q) + ((eta_q - raw) * family.mean(eta_q)).sum(-1)
    assert (value.numpy() < truth - 1.0).any()
    assert (BOUND(eta_q, mixture, {"auxiliary": raw}).numpy() >= truth).all()


def test_gradients_are_right_where_eigenvalues_coincide():
    random = np.random.default_rng(0)
    rotation = np.linalg.qr(random.standard_normal((3, 3)))[0]
    spectra = np.array([[1.0, 1.0, 1.0], [-2.0, -2.0, 3.0], [-40.0, 0.0, 40.0], [0.3, 0.3 + 1e-9, 0.5]])
    matrices = torch.as_tensor(np.einsum("ij,bj,kj->bik", rotation, spectra, rotation)).requires_grad_()
    assert torch.autograd.gradcheck(lambda m: linalg.eigenvalues_above(0.5 * (m + m.mT), 1e-6), matrices, atol=1e-5)
    found = np.linalg.eigvalsh(linalg.eigenvalues_above(matrices, 0.1).detach().numpy())
    np.testing.assert_allclose(found, 0.1 + np.logaddexp(0.0, spectra - 0.1), atol=1e-9)


@pytest.mark.parametrize("covariance", ["diagonal", "full"])
def test_under_the_papers_preset(covariance):
    x = rp.datasets.plain_ball(n_trials=5, n_times=8, random_state=0).x
    fits = []
    for bound in ("interior_thresholded", "interior_free"):
        settings = rp.presets.paper(bound) | {"max_iter": 4, "n_init": 1, "n_inducing": 4, "random_state": 0}
        fits.append(rp.RPGPFA(2, **settings).set_params(recognition__covariance=covariance).fit(x))
    one, two = (fit.history_["free_energy"] for fit in fits)
    assert one[0] == pytest.approx(two[0], rel=1e-3)
    assert np.isfinite(one).all()
    assert one[-1] != two[-1]
    assert np.isfinite(float(fits[0].score(x[:2])))
    assert "a lower bound" in repr(fits[0].score_)
