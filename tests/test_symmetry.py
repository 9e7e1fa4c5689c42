"""What p(Z) leaves free of the latents."""

import numpy as np
import pytest
import torch

import data
import rpmodels as rp
from registry import made, markovian_prior
from rpmodels.families import DiagonalGaussian, FullGaussian
from rpmodels.priors import CategoricalPrior, GaussianPrior, LinearDynamicsPrior, MarkovChainPrior
from rpmodels.priors.symmetry import Symmetry, of_normals, of_states

TIMES = torch.arange(20.0, dtype=torch.float64)


def lagged(A):
    """Covariances of stationary dynamics of unit variance at lags 0, 1, 2, one way and the other."""
    A = torch.as_tensor(np.asarray(A, float))
    powers = [torch.linalg.matrix_power(A, k) for k in range(3)]
    return torch.stack(
        [torch.stack([powers[s - t].mT if s > t else powers[t - s] for s in range(3)]) for t in range(3)]
    )


@pytest.mark.parametrize(
    ("A", "expected"),
    [
        ([[0.9, 0.3], [0.0, 0.7]], Symmetry(signs=1)),  # non-normal in the plane: ±I
        (np.diag([0.9, 0.6]), Symmetry(signs=2)),
        (0.9 * np.eye(2), Symmetry(rotations=1)),
        (data.rotation(0.5, 0.9), Symmetry(rotations=1)),  # turning commutes with turning
        (np.diag([0.9, 0.9, 0.5]), Symmetry(rotations=1)),
        (0.8 * np.eye(3), Symmetry(rotations=3)),
        (np.kron(np.diag([1.0, 0.0]), data.rotation(0.5, 0.9)), Symmetry(rotations=2)),
    ],
)
def test_orthogonal_maps_that_commute_with_the_dynamics(A, expected):
    assert of_normals(lagged(A)) == expected
    # In any coordinates.
    turned = np.linalg.qr(np.random.default_rng(0).normal(size=np.shape(A)))[0]
    assert of_normals(lagged(turned @ A @ turned.T)) == expected


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        ([[0.5, 0.3, 0.2]], ()),
        ([[0.4, 0.2, 0.4]], ((0, 2),)),
        ([[1 / 3] * 3, [[0.2, 0.7, 0.1], [0.1, 0.2, 0.7], [0.7, 0.1, 0.2]]], ((0, 1, 2),)),  # round in a circle
        ([[1 / 3] * 3, [[0.8, 0.1, 0.1], [0.1, 0.5, 0.4], [0.1, 0.4, 0.5]]], ((1, 2),)),
        ([[0.125] * 8], (tuple(range(8)),)),
    ],
)
def test_permutations_of_states(tables, expected):
    assert of_states([torch.tensor(each) for each in tables]).exchangeable == expected


def test_priors_say_what_they_leave_free():
    assert GaussianPrior(DiagonalGaussian(3)).symmetry(TIMES[:1]) == Symmetry(rotations=3)
    assert markovian_prior(DiagonalGaussian(2)).symmetry(TIMES) == Symmetry(signs=2)
    assert markovian_prior(DiagonalGaussian(2), lengths=(2.0, 2.0)).symmetry(TIMES) == Symmetry(rotations=1)
    assert LinearDynamicsPrior(FullGaussian(2)).symmetry(TIMES) == Symmetry(rotations=1)
    assert LinearDynamicsPrior(FullGaussian(2), n_inputs=1).symmetry(TIMES) is None
    assert CategoricalPrior.uniform(3).symmetry(TIMES).exchangeable == ((0, 1, 2),)
    probabilities, steps = torch.tensor([0.6, 0.4]), torch.tensor([[0.9, 0.1], [0.4, 0.6]])
    assert MarkovChainPrior.fixed(probabilities, steps).symmetry(TIMES) == Symmetry()


def test_a_diagnosis_says_so():
    x, _ = data.clusters(60)
    model = made(rp.RPCategorical, 3, max_iter=5, n_init=1, random_state=0).fit(x)
    assert model.symmetry_.exchangeable == ((0, 1, 2),)
    notes = {each.name: each.text for each in rp.evaluation.diagnose(model, x).notes}
    assert notes["what is free"] == "p(Z) does not tell these states apart: 0, 1, 2."
    texts = [each.text for each in (Symmetry(signs=1), Symmetry(signs=2), Symmetry(rotations=1), Symmetry())]
    assert len(set(texts)) == 4
