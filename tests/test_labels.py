"""Labels as a factor of few observations: states get their names, new observations their labels."""

import numpy as np
import pytest
import torch

import rpmodels as rp
from registry import made
from rpmodels import generative
from rpmodels.errors import RPModelsError
from rpmodels.fitted import FittedRPM
from rpmodels.learning.optimisers import adamw


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    z = rng.integers(3, size=300)
    x = {name: 4.0 * np.eye(3)[z] + rng.standard_normal((300, 3)) for name in "ab"}
    names = np.array(["red", "green", "blue"])[z]
    label = [name if have else None for name, have in zip(names, rng.random(300) < 0.2, strict=True)]
    model = rp.RPCategorical(3, max_iter=150, n_init=2, learning_rate=1e-2, random_state=0)
    return model.fit({**x, "label": label}), x, names, label


def test_every_state_has_its_label(fitted):
    model, x, names, _ = fitted
    by_state = model.state_names("label")
    assert sorted(by_state) == ["blue", "green", "red"]
    assert (by_state[model.predict(x)] == names).mean() > 0.95


def test_new_observations_are_labelled_from_the_other_factors(fitted):
    model, x, names, _ = fitted
    assert (model.predict_label({"a": x["a"]}, "label") == names).mean() > 0.9
    wrong = {**x, "label": ["red"] * 300}  # what is to be predicted is not looked at
    np.testing.assert_array_equal(model.predict_label(wrong, "label"), model.predict_label(x, "label"))


def test_the_table_is_bayes_rule_over_the_labelled_observations(fitted):
    model, _, _, label = fitted
    have = [n for n, each in enumerate(label) if each is not None]
    codes = np.array(model.model_.specs["label"].vocabulary)
    f = model.recognise(np.array(label, dtype=object)[have], "label")
    expected = np.stack([f[np.array(label)[have] == code].sum(0) for code in codes], -1)
    expected /= expected.sum(-1, keepdims=True)
    table = generative.label_table(model.model_, "label").numpy()
    np.testing.assert_allclose(table, expected, atol=1e-5)


def test_labels_that_say_the_same_share_what_was_seen():
    names = np.array(["dim", "dark", "bright"])[np.arange(60) % 3]
    x = {"a": np.random.default_rng(0).normal(size=(60, 2)), "label": names}
    model = made(rp.RPCategorical, 2, n_init=1, max_iter=2, retries=0, random_state=0).fit(x)
    network = model.model_.recogniser("label").network
    with torch.no_grad():
        for each in network.parameters():
            each.zero_()
    again = FittedRPM.collected(model.model_.pattern, model.read(x))
    np.testing.assert_allclose(generative.label_table(again, "label"), 1 / 3, atol=1e-6)


def test_saved_models_keep_their_names(fitted, tmp_path):
    model, x, _, _ = fitted
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(rp.load(tmp_path / "m").predict_label(x, "label"), model.predict_label(x, "label"))


def test_a_table_with_gain_starts_and_learns_as_it_says():
    torch.manual_seed(0)
    table = rp.recognition.LookupTable(2000, 3, gain=10.0)
    out = table(torch.arange(2000))
    assert float(out.detach().std()) == pytest.approx(1.0, abs=0.05)
    torch.testing.assert_close(out, table.weight)
    before = table.weight.detach().clone()
    optimiser = adamw(table, table.parameters(), 1e-3)
    out.sum().backward()
    optimiser.step()  # the first one of Adam is the rate itself
    torch.testing.assert_close(before - table.weight.detach(), torch.full((2000, 3), 1e-2), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("factor", ["a", "nothing"])
def test_only_labels_name_states(factor, fitted):
    model, x, _, _ = fitted
    with pytest.raises((RPModelsError, KeyError), match=factor):
        model.predict_label(x, factor)
