"""A torch Dataset of dicts or tuples, and a DataLoader, are the arrays that they hold."""

from collections import namedtuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import rpmodels as rp
from data import clusters
from registry import made
from rpmodels.errors import InputError

X = {name: each.astype(np.float32) for name, each in clusters(40)[0].items()}
KIND = np.array(["p", "q"])[np.arange(40) % 2]
Pair = namedtuple("Pair", ["left", "right"])


class Items(Dataset):
    """Observations made on the way; how often they were."""

    def __init__(self, make):
        self.make, self.asked = make, 0

    def __len__(self):
        return 40

    def __getitem__(self, n):
        self.asked += 1
        return self.make(n)


def fitted(data):
    return made(rp.RPCategorical, 2, max_iter=4, n_init=1, random_state=0).fit(data)


def test_dicts_are_factors_by_name():
    data = Items(lambda n: {"a": torch.tensor(X["a"][n]), "b": X["b"][n], "kind": str(KIND[n])})
    plain = {"a": X["a"], "b": X["b"], "kind": KIND}
    ours, theirs = rp.read(data), rp.read(plain)
    assert ours.specs == theirs.specs
    for name in plain:
        np.testing.assert_array_equal(np.asarray(ours.values[name]), theirs.values[name])
    model, other = fitted(data), fitted(plain)
    np.testing.assert_allclose(model.predict_proba(data), other.predict_proba(plain), atol=1e-6)
    np.testing.assert_allclose(float(model.score_), float(other.score_), atol=1e-6)


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (Items(lambda n: (X["a"][n], X["b"][n])), ("x1", "x2")),
        (Items(lambda n: Pair(X["a"][n], X["b"][n])), ("left", "right")),
        (TensorDataset(torch.tensor(X["a"]), torch.tensor(X["b"])), ("x1", "x2")),
        (DataLoader(TensorDataset(torch.tensor(X["a"]), torch.tensor(X["b"])), 8, shuffle=True), ("x1", "x2")),
    ],
    ids=["tuples", "named tuples", "tensors", "loader"],
)
def test_tuples_are_factors_in_order(data, names):
    model, other = fitted(data), fitted(dict(zip(names, (X["a"], X["b"]), strict=True)))
    assert tuple(model.model_.specs) == names
    np.testing.assert_allclose(float(model.score_), float(other.score_), atol=1e-6)


def test_an_item_is_made_once_for_all_of_its_factors():
    data = Items(lambda n: {"a": X["a"][n], "b": X["b"][n]})
    read = rp.read(data)
    data.asked = 0
    index = np.arange(5, 15)
    for name in ("a", "b"):
        np.testing.assert_array_equal(read.values[name][index][:, 0], X[name][index])
    assert data.asked == len(index)


def test_trials_and_folds():
    trials = {name: np.random.default_rng(n).standard_normal((40, 6, 3)) for n, name in enumerate("ab")}
    data = Items(lambda n: {name: each[n] for name, each in trials.items()})
    model = made(rp.RPHMM, 2, max_iter=2, n_init=1, random_state=0)
    ours, theirs = (rp.evaluation.cross_validate(model, each, cv=2) for each in (data, trials))
    np.testing.assert_allclose(ours.held_out, theirs.held_out, atol=1e-6)


def test_what_is_no_data():
    class Endless(IterableDataset):
        def __iter__(self):
            yield {"a": X["a"][0]}

    with pytest.raises(InputError, match="items by number, got an IterableDataset"):
        rp.read(Endless())
    with pytest.raises(InputError, match="a collate_fn of its own"):
        rp.read(DataLoader(Items(lambda n: X["a"][n]), collate_fn=lambda batch: batch))
    uneven = Items(lambda n: {"a": X["a"][n][: 2 if n == 3 else 4], "b": X["b"][n]})
    with pytest.raises(InputError, match=r"a\[3\]"):
        rp.read(uneven)
