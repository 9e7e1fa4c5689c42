"""What the user hands in: every form that is welcome, every complaint."""

import warnings

import numpy as np
import pytest
import torch

import rpmodels as rp
from rpmodels.errors import InputError, RPModelsWarning
from rpmodels.observations import fit_scaling
from rpmodels.observations.scaling import suggested_scaling

N = 6


def two(n=N):
    random = np.random.default_rng(0)
    return {"a": random.standard_normal((n, 3)), "b": random.standard_normal((n, 2, 4))}


def test_dict_of_arrays():
    observations = rp.read(two())
    assert len(observations) == N
    assert observations.n_sites == 1
    assert observations.specs["b"].event_shape == (2, 4)
    assert observations.values["a"].shape == (N, 1, 3)


def test_one_table_with_columns():
    table = np.arange(5.0 * N).reshape(N, 5)
    observations = rp.read(table, factors={"a": [0, 2], "b": slice(3, None)})
    np.testing.assert_array_equal(observations.values["a"][:, 0], table[:, [0, 2]])
    np.testing.assert_array_equal(observations.values["b"][:, 0], table[:, 3:])


def test_torch_and_numpy_agree():
    data = two()
    tensors = {name: torch.as_tensor(values) for name, values in data.items()}
    for name in data:
        np.testing.assert_array_equal(rp.read(data).values[name], rp.read(tensors).values[name])


def test_unequal_trials_are_padded_and_cut_again():
    random = np.random.default_rng(0)
    lengths = [5, 2, 3]
    trials = [random.standard_normal((t, 2)) for t in lengths]
    observations = rp.read({"a": trials}, series=True, times=[np.arange(t) * 0.5 for t in lengths])
    assert observations.exists.sum(1).tolist() == lengths
    batch = observations.batch(np.array([1, 2]), torch.float32, torch.device("cpu"))
    assert batch.sites.exists.shape == (2, 3)
    assert float(batch.sites.times[1, 2]) == 1.0
    np.testing.assert_allclose(batch.inputs["a"][0, :2], trials[1])
    assert (batch.inputs["a"][0, 2:] == 0).all()
    assert not batch.present["a"][0, 2]


def test_nan_rows_and_presence_mark_what_is_missing_and_zeros_replace_it():
    data = two()
    data["a"][2] = np.nan
    observations = rp.read(data, presence={"b": np.arange(N) != 4})
    assert observations.present["a"][:, 0].tolist() == [True, True, False, True, True, True]
    assert not observations.present["b"][4, 0]
    assert (observations.values["a"][2] == 0).all()
    assert (observations.values["b"][4] == 0).all()


def test_a_row_marked_absent_may_hold_anything():
    data = two()
    data["a"][1, 0] = np.nan
    data["a"][3, 1] = np.inf
    present = np.ones(N, bool)
    present[[1, 3]] = False
    assert np.isfinite(rp.read(data, presence={"a": present}).values["a"]).all()


def test_labels_are_coded_and_gaps_are_missing():
    labels = np.array(["cat", None, "dog", "cat", "ant", "dog"], object)
    observations = rp.read({"label": labels, "a": two()["a"]})
    assert observations.specs["label"].vocabulary == ("ant", "cat", "dog")
    assert observations.values["label"][:, 0].tolist() == [1, 0, 2, 1, 0, 2]
    assert observations.present["label"][:, 0].tolist() == [True, False, True, True, True, True]
    integers = rp.read({"label": np.array([7, 3, 7])})
    assert integers.specs["label"].vocabulary == (3, 7)
    again = rp.read({"label": np.array(["dog", "ant"])}, known=observations.specs)
    assert again.values["label"][:, 0].tolist() == [2, 0]
    assert not again.present["a"].any()


def test_scalar_numbers_are_vectors_of_one():
    assert rp.read({"a": np.zeros(4)}).specs["a"].event_shape == (1,)


def message(call, *args, **kwargs):
    with pytest.raises(InputError) as caught:
        call(*args, **kwargs)
    return str(caught.value)


def test_complaints_about_form():
    data = two()
    assert "'a' has 6, 'b' has 5" in message(rp.read, {"a": data["a"], "b": data["b"][:5]})
    assert "no factor" in message(rp.read, {})
    assert "no observations" in message(rp.read, {"a": np.zeros((0, 3))})
    assert "Drop factors=" in message(rp.read, data, factors={"a": [0]})
    assert "from 0 to 4" in message(rp.read, np.zeros((3, 5)), factors={"a": [5]})
    assert "different shapes" in message(rp.read, {"a": [[1.0, 2.0], [1.0]]})
    assert "scalar" in message(rp.read, {"a": 3.0})
    assert "event shapes" in message(rp.read, {"a": [np.zeros((3, 2)), np.zeros((3, 4))]}, series=True)
    assert "list of trials" in message(rp.read, {"a": np.zeros(3)}, series=True)
    lists = {"a": [np.zeros((3, 2)), np.zeros((4, 2))], "b": [np.zeros((3, 2)), np.zeros((5, 2))]}
    assert "Trial 1 has 4 time points in factor 'a' and 5 in factor 'b'" in message(rp.read, lists, series=True)


@pytest.mark.parametrize(
    "bad", [np.array([1 + 2j, 3j]), np.array([object(), 3], object), np.array(["2020-01-01"] * 2, "datetime64[D]")]
)
def test_complaints_about_dtype(bad):
    assert "expected numbers" in message(rp.read, {"a": bad})


def test_strings_where_numbers_are_expected():
    assert "expected numbers" in message(rp.read, {"a": np.array([["x", "y"], ["z", "w"]])})
    known = rp.read(two()).specs
    assert "shape (3,)" in message(rp.read, {"a": np.array(["x", "y"])}, known=known)


def test_complaints_about_values():
    data = two()
    data["a"][3, 1] = np.nan
    text = message(rp.read, data)
    assert "observation 3" in text
    assert "1 of 3 values" in text
    data["a"][3, 1] = -np.inf
    assert "infinite values in 1 row(s), first in observation 3" in message(rp.read, data)


def test_complaints_about_new_data():
    known = rp.read({**two(), "label": np.array(list("abcabc"))}).specs
    assert "Unknown factor 'c': expected one of a, b, label" in message(rp.read, {"c": np.zeros((2, 3))}, known=known)
    assert "expected observations of shape (3,)" in message(rp.read, {"a": np.zeros((2, 4))}, known=known)
    assert "label 'z' was not in the training data" in message(rp.read, {"label": np.array(["z"])}, known=known)
    assert "one label per row" in message(rp.read, {"label": np.zeros((2, 3))}, known=known)
    assert "at least one of a, b" in message(rp.read, {}, known=known)
    assert "Unknown factor 'c'" in message(rp.read, two(), presence={"c": np.ones(N, bool)})


def test_complaints_about_presence_times_and_weights():
    data = two()
    assert "booleans" in message(rp.read, data, presence={"a": np.ones(N)})
    assert "booleans" in message(rp.read, data, presence={"a": np.ones(N + 1, bool)})
    series = {"a": np.zeros((2, 3, 1))}
    for bad in ([0, 1, 1], [0, 2, 1], [0, np.nan, 1]):
        assert "strictly increasing" in message(rp.read, series, series=True, times=np.array(bad))
    assert "shape (3,)" in message(rp.read, series, series=True, times=np.arange(4))
    assert "3 times" in message(rp.read, series, series=True, times=[np.arange(3), np.arange(2)])
    for bad in (np.ones(N - 1), -np.ones(N), np.zeros(N), np.full(N, np.nan)):
        assert "sample weights" in message(rp.read, data, weights=bad)


def test_nothing_to_learn():
    assert "Only one factor ('x')" in message(rp.read(np.zeros((5, 2))).check_learnable)
    rp.read({"a": np.zeros((5, 2, 1))}, series=True).check_learnable()  # J = 1 with T = 2 is fine
    gone = {name: np.full_like(values, np.nan) for name, values in two().items()}
    assert "Everything is missing" in message(rp.read(gone).check_learnable)
    data = two()
    data["a"][1:] = np.nan
    assert "present in 1 row(s)" in message(rp.read(data).check_learnable)
    data = two()
    half = np.arange(N) < 3
    data["a"][half], data["b"][~half] = np.nan, np.nan
    assert "never present together" in message(rp.read(data).check_learnable)


# ---- scaling -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (np.zeros((3, 8, 8), np.uint8), "unit"),
        (np.full((3, 8), 200, np.uint8), "unit"),
        (np.arange(24, dtype=np.uint8).reshape(3, 8), "sqrt"),
        (np.arange(12).reshape(3, 4), "sqrt"),
        (np.arange(12.0).reshape(3, 4), "sqrt"),
        (np.arange(12.0).reshape(3, 4) - 5, "standard"),
        (np.random.default_rng(0).random((3, 8, 8)), "none"),
        (np.random.default_rng(0).random((3, 8)), "standard"),
        (np.zeros((3, 4), bool), "none"),
    ],
)
def test_scaling_is_chosen_by_dtype_and_range(rows, expected):
    assert suggested_scaling(rows) == expected


@pytest.mark.parametrize("name", ["standard", "robust", "sqrt"])
def test_affine_scalings_centre_scale_and_count_what_they_clip(name):
    rows = np.random.default_rng(0).gamma(2.0, size=(5000, 3)) * [1, 10, 100]
    rows[0, 0] = 1e4
    scaling = fit_scaling("a", rows, name, is_label=False)
    scaled = scaling(torch.as_tensor(rows), torch.float64)
    assert scaled.abs().max() <= 4
    assert scaling.seen == 15000
    assert 1 <= scaling.clipped == int((scaled.abs() == 4).sum())
    assert (scaled.median(0).values.abs() < 0.5).all()
    assert "clipped" in repr(scaling)


def test_unit_scaling_and_labels():
    scaling = fit_scaling("a", np.full((2, 3, 3), 255, np.uint8), "auto", is_label=False)
    assert scaling(torch.tensor([255, 51]), torch.float32).tolist() == [1.0, pytest.approx(0.2)]
    codes = torch.tensor([1, 2])
    assert fit_scaling("a", np.zeros(2), "auto", is_label=True)(codes, torch.float32) is codes


def test_constant_channels_are_warned_of_and_stay_finite():
    rows = np.random.default_rng(0).standard_normal((50, 4))
    rows[:, 2] = 3.0
    with pytest.warns(RPModelsWarning, match=r"1 channel\(s\) are constant .* \(2\)"):
        scaling = fit_scaling("a", rows, "auto", is_label=False)
    assert (scaling(torch.as_tensor(rows), torch.float64)[:, 2] == 0).all()


def test_unknown_scaling():
    assert "expected one of auto" in message(fit_scaling, "a", np.zeros((2, 2)), "log", False)


def test_an_offset_with_more_digits_than_float32_is_not_lost():
    stamps = 1.7e9 + np.random.default_rng(0).standard_normal((200, 1))
    scaling = fit_scaling("t", stamps, "standard", is_label=False).to(torch.float32)
    scaled = scaling(torch.as_tensor(stamps), torch.float32)
    assert scaled.dtype == torch.float32
    assert float(scaled.std()) == pytest.approx(1, abs=0.02)


def test_robust_scaling_of_sparse_data_is_not_called_constant():
    rows = np.zeros((100, 1))
    rows[:10] = 5.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaling = fit_scaling("a", rows, "robust", is_label=False)
    assert float(scaling(torch.as_tensor(rows), torch.float64).std()) == pytest.approx(1, abs=0.05)


def test_forms_that_are_easily_misread():
    masked = np.ma.masked_array(np.arange(8.0).reshape(4, 2), mask=[[0, 0], [1, 1], [0, 0], [0, 0]])
    assert rp.read({"a": masked}).present["a"][:, 0].tolist() == [True, False, True, True]
    assert "expected numbers" in message(rp.read, {"a": np.array(["u", 1.5, "v"], object)})
    assert rp.read({"a": np.array([b"x", b"", b"y"])}).present["a"][:, 0].tolist() == [True, False, True]
    big_endian = np.arange(6.0).reshape(3, 2).astype(">f8")
    batch = rp.read({"a": big_endian}).batch(np.arange(3), torch.float32, torch.device("cpu"))
    np.testing.assert_array_equal(batch.inputs["a"][:, 0], big_endian)
    assert rp.read({"a": np.zeros((2, 2), np.longdouble)}).values["a"].dtype == np.float64
    grad = [torch.ones(2, requires_grad=True), torch.zeros(2)]
    assert rp.read({"a": grad}).values["a"].shape == (2, 1, 2)
    assert rp.read({"a": torch.ones(2, 2, dtype=torch.bfloat16)}).values["a"].dtype == np.float32


def test_zero_weights_do_not_count_as_atoms():
    data = two()
    assert "present in 0 row(s)" in message(
        rp.read(data, weights=np.r_[np.zeros(3), np.ones(3)], presence={"a": np.arange(N) < 3}).check_learnable
    )
