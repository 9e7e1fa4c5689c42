"""Pieces by a budget of bytes, and what is refused before it is tried."""

import numpy as np
import pytest
from gpytorch.kernels import RQKernel

import rpmodels as rp
from registry import made
from rpmodels import memory
from rpmodels.errors import InputError

FAST = {"n_init": 1, "max_iter": 2, "random_state": 0, "retries": 0}


def test_what_a_machine_has_is_a_number_of_bytes(monkeypatch):
    assert 2**27 < memory.available() < 2**50
    monkeypatch.setattr(memory, "SHARE", 0.0)
    assert memory.available() == 0
    assert memory.in_words(16e9) == "16 GB"
    assert memory.in_words(1.52e9) == "1.5 GB"


def test_longer_observations_come_in_smaller_pieces():
    random = np.random.default_rng(0)
    model = made(rp.RPFA, 1, **FAST).fit({name: random.standard_normal((40, 6)) for name in "ab"})
    pattern = model.model_.pattern

    def at_once(n, width):
        observations = rp.read({"a": np.zeros((n, 1, width)), "b": np.zeros((n, 1, width))})
        return pattern.at_once(observations)

    assert at_once(3, 6) > 10_000
    assert at_once(3, 6) > 5 * at_once(3, 6000) > 5


def test_the_budget_changes_no_result(monkeypatch):
    x = np.random.default_rng(0).standard_normal((9, 30, 4))
    model = made(rp.RPGPFA, 1, **FAST).fit(x)
    expected = model.transform(x), model.score_samples(x)
    sizes = []
    for budget in (1, 300_000):
        monkeypatch.setattr(memory, "BUDGET", budget)
        observations = model.read(x)
        sizes.append(len(list(model.model_.pattern.batches(observations))))
        np.testing.assert_allclose(model.transform(x), expected[0], rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(model.score_samples(x), expected[1], rtol=1e-4, atol=1e-4)
    assert sizes[0] == 9 > sizes[1] >= 1


def test_inducing_points_that_no_memory_holds_are_refused_with_a_number_that_fits():
    x = np.zeros((20, 10_000, 3), np.float32)
    model = made(rp.RPGPFA, 10, n_inducing=8000, **FAST)
    observations = rp.read({"x": x}, series=True)
    with pytest.raises(InputError, match=r"n_inducing: 8000 .* 20 trials of 10000 times .*n_inducing=None") as failure:
        model.build(observations)
    fitting = int(str(failure.value).split("n_inducing=")[1].split()[0])
    assert 20 < fitting < 8000
    made(rp.RPGPFA, 10, n_inducing=fitting, **FAST).build(observations)
    with pytest.raises(InputError, match="batch_size"):
        made(rp.RPGPFA, 10, n_inducing=8000, kernel=RQKernel(), **FAST).build(observations)
    made(rp.RPGPFA, 10, **FAST).build(observations)
