"""Files of the Neural Latents Benchmark: written, read, and answered by a fitted model."""

import sys

import h5py
import numpy as np
import pytest

import rpmodels as rp
from rpmodels.evaluation import LatentsBenchmark
from rpmodels.evaluation.benchmark import write_group
from rpmodels.metrics import bits_per_spike
from test_co_smoothing import REFINED, population

SEEN, BINS = 12, 16


@pytest.fixture(scope="module")
def counts():
    return population()[0]


def arrays_of(counts, forward=True):
    """As the benchmark divides trials, units and bins; what is to be predicted among it."""
    found = {}
    for part, trials in (("train", counts[:32]), ("eval", counts[32:])):
        for units, columns in (("heldin", slice(0, SEEN)), ("heldout", slice(SEEN, None))):
            found[f"{part}_spikes_{units}"] = trials[:, :BINS, columns]
            if forward:
                found[f"{part}_spikes_{units}_forward"] = trials[:, BINS:, columns]
    return found


@pytest.fixture(scope="module")
def model(counts):
    return rp.RPGPFA(2, random_state=0, max_iter=100).fit(LatentsBenchmark("x", arrays_of(counts)).training)


def test_files_come_back(tmp_path, counts):
    path, arrays = tmp_path / "data.h5", arrays_of(counts)
    LatentsBenchmark("mc_maze_small", arrays).write(path)
    with h5py.File(path) as file:
        assert set(file) == {"mc_maze_small"}
        assert set(file["mc_maze_small"]) == set(arrays)
    found = LatentsBenchmark.read(path)
    assert found.name == "mc_maze_small"
    for key, each in arrays.items():
        np.testing.assert_array_equal(found.arrays[key], each)
    np.testing.assert_array_equal(found.training, counts[:32])


def test_arrays_at_the_root_are_read_as_the_benchmarks_own_tools_write_them(tmp_path, counts):
    path = tmp_path / "mc_rtt.h5"
    with h5py.File(path, "w") as file:
        for key, each in arrays_of(counts, forward=False).items():
            file.create_dataset(key, data=each.astype(np.uint8))
        file.create_dataset("train_behavior", data=np.zeros((32, BINS, 2)))
    found = LatentsBenchmark.read(path)
    assert found.name == "mc_rtt"
    assert "train_behavior" not in found.arrays
    np.testing.assert_array_equal(found.training, counts[:32, :BINS])


def test_one_file_holds_several_sets_and_a_new_one_takes_the_place_of_the_old(tmp_path, counts):
    path = tmp_path / "data.h5"
    for name, arrays in (
        ("a", arrays_of(counts)),
        ("b", arrays_of(counts, forward=False)),
        ("a", arrays_of(2 * counts)),
    ):
        LatentsBenchmark(name, arrays).write(path)
    np.testing.assert_array_equal(LatentsBenchmark.read(path, "a").training, 2 * counts[:32])
    np.testing.assert_array_equal(LatentsBenchmark.read(path, "b").training, counts[:32, :BINS])
    for name in (None, "c"):
        with pytest.raises(rp.RPModelsError, match=r"groups a, b, none called c|no train_spikes_heldin"):
            LatentsBenchmark.read(path, name)


def test_what_is_hidden_in_evaluation_is_not_a_number(counts):
    found = LatentsBenchmark("x", arrays_of(counts)).evaluation
    np.testing.assert_array_equal(found[:, :BINS, :SEEN], counts[32:, :BINS, :SEEN])
    assert np.isnan(found[:, BINS:]).all()
    assert np.isnan(found[:, :, SEEN:]).all()


@pytest.mark.parametrize("e_step", [None, REFINED])
def test_a_submission_holds_the_rates_of_the_model(tmp_path, counts, model, e_step):
    data = LatentsBenchmark("mc_maze_small", arrays_of(counts))
    data.submit(model, tmp_path / "rates.h5", e_step=e_step)
    with h5py.File(tmp_path / "rates.h5") as file:
        found = {key: each[()] for key, each in file["mc_maze_small"].items()}
    parts = [f"{p}_rates_{u}{f}" for p in ("train", "eval") for u in ("heldin", "heldout") for f in ("", "_forward")]
    assert set(found) == set(parts)
    seen = counts[32:].copy()
    seen[:, :, SEEN:], seen[:, BINS:] = np.nan, np.nan
    expected = model.rates(seen, e_step=e_step)
    np.testing.assert_allclose(found["eval_rates_heldin"], expected[:, :BINS, :SEEN], rtol=1e-5)
    np.testing.assert_allclose(found["eval_rates_heldout"], expected[:, :BINS, SEEN:], rtol=1e-5)
    np.testing.assert_allclose(found["eval_rates_heldin_forward"], expected[:, BINS:, :SEEN], rtol=1e-5)
    np.testing.assert_allclose(found["eval_rates_heldout_forward"], expected[:, BINS:, SEEN:], rtol=1e-5)
    assert found["train_rates_heldout"].shape == (32, BINS, 4)
    scores = data.scores(found)
    assert scores["co-bps"] == pytest.approx(
        bits_per_spike(expected[:, :BINS, SEEN:], counts[32:, :BINS, SEEN:]), rel=1e-5
    )
    assert scores["fp-bps"] == pytest.approx(bits_per_spike(expected[:, BINS:], counts[32:, BINS:]), rel=1e-5)
    assert scores["co-bps"] > 0.05


def test_hidden_spikes_do_not_change_a_submission(counts, model):
    plain = LatentsBenchmark("x", arrays_of(counts)).rates(model)
    other = arrays_of(counts)
    for key in other:
        if key.startswith("eval") and key != "eval_spikes_heldin":
            other[key] = 5.0 + other[key]
    for key, each in LatentsBenchmark("x", other).rates(model).items():
        np.testing.assert_array_equal(each, plain[key])


def test_what_is_no_benchmark_is_refused(tmp_path, counts, model):
    arrays = arrays_of(counts)
    with pytest.raises(rp.RPModelsError, match="no train_spikes_heldout"):
        LatentsBenchmark("x", {key: each for key, each in arrays.items() if key != "train_spikes_heldout"})
    with pytest.raises(rp.RPModelsError, match="train_spikes_heldout of shape"):
        LatentsBenchmark("x", {**arrays, "train_spikes_heldout": counts[:31, :BINS, SEEN:]})
    with pytest.raises(rp.RPModelsError, match="eval_spikes_heldin of shape"):
        LatentsBenchmark("x", {**arrays, "eval_spikes_heldin": counts[32:, :BINS, 1:SEEN]})
    unknown = {key: each for key, each in arrays.items() if key != "eval_spikes_heldout"}
    with pytest.raises(rp.RPModelsError, match="no eval_spikes_heldout"):
        LatentsBenchmark("x", unknown).scores({})
    with pytest.raises(rp.RPModelsError, match="one by one"):
        LatentsBenchmark("x", arrays).rates(rp.RPHMM(2))


def test_h5py_is_asked_for_when_it_is_needed(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(rp.RPModelsError, match=r"needs the package h5py.*rpmodels\[hdf5\]"):
        LatentsBenchmark.read(tmp_path / "x.h5")
    with pytest.raises(rp.RPModelsError, match=r"needs the package h5py.*rpmodels\[hdf5\]"):
        write_group(tmp_path / "x.h5", "a", {})
