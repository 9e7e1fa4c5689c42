"""Data on disk, batches read ahead, extra atoms, and engines: the same numbers by other means."""

import subprocess
import sys

import h5py
import numpy as np
import pytest
import torch
import zarr
from torch.utils.data import Dataset

import rpmodels as rp
from data import clusters
from registry import made
from rpmodels import errors
from rpmodels.carriers import Batch
from rpmodels.communicator import ALONE
from rpmodels.learning import RPMObjective
from rpmodels.learning.batch_reader import BatchReader
from rpmodels.learning.batches import Minibatches
from rpmodels.mixtures import FreshAtoms, KernelDensity, NoExtraAtoms, Pooled, RememberedAtoms
from rpmodels.observations import read
from rpmodels.observations.stored import Stored, stored

N = 60


def pairs():
    x, _ = clusters(N)
    x["b"][::7] = np.nan
    return {name: each.astype(np.float32) for name, each in x.items()}


class Items(Dataset):
    """Observations made on the way, as (x, label)."""

    def __init__(self, x):
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, n):
        return torch.tensor(self.x[n]), 0


def on_disk(kind, x, folder):
    if kind == "memmap":
        np.save(folder / "x.npy", x)
        return np.load(folder / "x.npy", mmap_mode="r")
    if kind == "zarr":
        array = zarr.create_array(str(folder / "x.zarr"), shape=x.shape, chunks=(7, *x.shape[1:]), dtype=x.dtype)
        array[:] = x
        return array
    if kind == "h5py":
        return h5py.File(folder / "x.h5", "w").create_dataset("x", data=x)
    return Items(x)


def fit(x, **options):
    chosen = {"max_iter": 12, "batch_size": 20, "n_init": 2, "random_state": 0, **options}
    return made(rp.RPCategorical, 3, **chosen).fit(x)


@pytest.fixture(scope="module")
def in_memory():
    return fit(pairs())


@pytest.mark.parametrize("kind", ["memmap", "zarr", "h5py", "dataset"])
def test_data_on_disk_give_the_fit_of_data_in_memory(kind, tmp_path, in_memory):
    x = pairs()
    for name in x:
        (tmp_path / name).mkdir()
    lazy = {name: on_disk(kind, each, tmp_path / name) for name, each in x.items()}
    assert isinstance(read(lazy).values["a"], Stored)
    model = fit(lazy)
    assert model.score_ == in_memory.score_
    np.testing.assert_array_equal(model.predict_proba(lazy), in_memory.predict_proba(x))


def test_trials_on_disk(tmp_path):
    x = np.random.default_rng(0).normal(size=(9, 6, 3)).astype(np.float32)
    x[2, 3] = np.nan
    lazy = read(on_disk("memmap", x, tmp_path), series=True)
    plain = read(x, series=True)
    index = np.array([5, 2, 2, 8])
    for some, same in ((lazy, plain), (lazy.subset(index), plain.subset(index))):
        batch, expected = (each.batch(np.array([0, 2, 1]), torch.float32, torch.device("cpu")) for each in (some, same))
        assert torch.equal(batch.inputs["x"], expected.inputs["x"])
        assert torch.equal(batch.present["x"], expected.present["x"])


def test_large_parts_of_what_is_stored_stay_there(tmp_path, monkeypatch):
    monkeypatch.setattr("rpmodels.observations.stored.IN_MEMORY", 10)
    x = np.arange(24.0).reshape(8, 3)
    lazy = stored("x", on_disk("memmap", x, tmp_path), timed=False)
    part = lazy.take(np.array([7, 1, 3, 0, 2])).take(np.array([4, 0, 1, 1]))
    assert isinstance(part, Stored)
    np.testing.assert_array_equal(part[:][:, 0], x[[2, 7, 1, 1]])
    np.testing.assert_array_equal(part[1], x[[7]])
    np.testing.assert_array_equal(np.asarray(part), part[:])


def test_blocks_are_all_there_is(tmp_path, monkeypatch):
    monkeypatch.setattr("rpmodels.observations.stored.BLOCK", 7)
    x = np.arange(24.0).reshape(8, 3)
    blocks = list(stored("x", on_disk("memmap", x, tmp_path), timed=False).blocks())
    assert len(blocks) == 4
    np.testing.assert_array_equal(np.concatenate([block for _, block in blocks])[:, 0], x)


def test_what_is_wrong_on_disk_is_said_before_any_work(tmp_path):
    x = pairs()["a"]
    x[5, 2] = np.nan
    with pytest.raises(errors.InputError, match="NaN"):
        read({"a": on_disk("memmap", x, tmp_path)})

    class Uneven(Items):
        def __getitem__(self, n):
            return self.x[n][: 3 if n == 4 else 4]

    with pytest.raises(errors.InputError, match=r"a\[4\]"):
        read({"a": Uneven(pairs()["a"])})

    class Endless(Dataset):
        def __getitem__(self, n):
            return np.zeros(2)

    with pytest.raises(errors.InputError, match="length"):
        read({"a": Endless()})


def test_labels_of_a_dataset_are_read():
    class Labels(Items):
        def __getitem__(self, n):
            return int(self.x[n])

    labels = np.arange(9) % 3
    assert read({"y": Labels(labels)}).specs["y"].vocabulary == (0, 1, 2)


def test_reading_ahead_changes_nothing(in_memory):
    model = fit(pairs(), workers=2)
    assert model.score_ == in_memory.score_
    np.testing.assert_array_equal(model.history_["free_energy"], in_memory.history_["free_energy"])


def test_the_plan_is_never_ahead_of_the_steps():
    """A checkpoint must not know of batches that were only read."""
    observations = read(pairs())
    reader = BatchReader(observations, ALONE, 0, 2, torch.float32, torch.device("cpu"))
    planned, alone = Minibatches(N, 20, 3), Minibatches(N, 20, 3)
    batches = reader.batches(planned)
    for _ in range(5):
        batch, seed = next(batches)
        np.testing.assert_array_equal(batch.index, alone.next())
        assert seed == alone.step_seed()
        assert str(planned.state()) == str(alone.state())


# ---- extra atoms --------------------------------------------------------------------------------


def built(make, extra, x):
    observations = read(x)
    model, _ = make.build(observations)
    model.prepare(observations)
    return RPMObjective(model, observations, extra), observations


MODELS = {
    "discrete": lambda: rp.RPCategorical(
        3, recognition=rp.Recognition(dropout=0.0, input_dropout=0.0), engine=rp.Engine(dtype="float64"), random_state=1
    ),
    "continuous": lambda: rp.RPFA(
        2, recognition=rp.Recognition(dropout=0.0, input_dropout=0.0), engine=rp.Engine(dtype="float64"), random_state=1
    ),
}


def batch_with(observations, index, beside=None):
    def cut(which):
        return observations.batch(which, torch.float64, torch.device("cpu"))

    batch = cut(index)
    return Batch(**{**vars(batch), "beside": None if beside is None else cut(beside)})


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("kind", ["fresh", "remembered"])
def test_with_everybodys_atoms_a_batch_has_the_mixture_of_all_data(name, kind):
    extra = FreshAtoms(N) if kind == "fresh" else RememberedAtoms(N)
    objective, observations = built(MODELS[name](), extra, pairs())
    own, rest = np.arange(0, N, 4), np.setdiff1d(np.arange(N), np.arange(0, N, 4))
    if kind == "remembered":
        objective.evaluate(batch_with(observations, rest))  # seen, with these weights
    batch = batch_with(observations, own, rest if kind == "fresh" else None)
    among = objective.evaluate(batch).energy.total
    plain = RPMObjective(objective.model, observations)
    everything = plain.evaluate(batch_with(observations, np.arange(N))).energy.total
    torch.testing.assert_close(among, everything[own])
    fewer = plain.evaluate(batch_with(observations, own)).energy.total
    assert (fewer - everything[own]).abs().max() > 1e-4


def test_the_bank_gives_nobody_what_is_in_the_batch():
    objective, observations = built(MODELS["discrete"](), RememberedAtoms(7), pairs())
    bank = objective.bank
    batch = batch_with(observations, np.arange(20))
    assert bank.drawn(batch, 7) is None  # nothing was seen yet
    objective.evaluate(batch)
    assert bank.drawn(batch, 7) is None
    other = batch_with(observations, np.arange(15, 40))
    factors, weights = bank.drawn(other, 7)
    assert len(weights) == 7
    kept = bank.g0[:15]
    assert all(any(torch.equal(row, each) for each in kept) for row in factors["a"].g)
    assert bank.staleness(torch.arange(15)).tolist() == [0.0] * 15
    objective.evaluate(other)
    assert bank.staleness(torch.arange(20)).tolist() == [1.0] * 15 + [0.0] * 5


def test_own_gradients_stand_for_those_of_remembered_atoms(monkeypatch):
    objective, observations = built(MODELS["continuous"](), RememberedAtoms(N), pairs())
    own, rest = np.arange(20), np.arange(20, N)
    objective.evaluate(batch_with(observations, rest))
    batch = batch_with(observations, own)

    def gradient():
        objective.zero_grad()
        objective.evaluate(batch).energy.mixture.mean().backward()
        return torch.cat([p.grad.flatten() for p in objective.model.recognition.parameters() if p.grad is not None])

    for_all = gradient()
    monkeypatch.setattr(RememberedAtoms, "own_gradients_for_all", False)
    for_own = gradient()
    assert (for_all - for_own).norm() > 0.1 * for_own.norm()


@pytest.mark.parametrize("kind", ["own", "fresh", "remembered"])
def test_every_kind_of_atoms_fits_and_resumes(kind, tmp_path):
    engine = rp.Engine(atoms=kind, extra=15)
    model = fit(pairs(), n_init=1, engine=engine)
    again = rp.RPCategorical(
        3, max_iter=12, training=rp.Training(batch_size=20), n_init=1, random_state=0, engine=engine
    )
    again.fit(pairs(), checkpoint=tmp_path / "kept", checkpoint_every=0)
    np.testing.assert_array_equal(again.history_["free_energy"], model.history_["free_energy"])
    model.save(tmp_path / "model.rpm")
    loaded = rp.load(tmp_path / "model.rpm")
    assert loaded.engine.get_params() == engine.get_params()
    np.testing.assert_array_equal(loaded.predict_proba(pairs()), model.predict_proba(pairs()))


def test_extra_atoms_of_unequal_trials():
    random = np.random.default_rng(0)
    trials = [random.normal(size=(n, 2)) for n in random.integers(4, 9, size=24)]
    for kind in ("fresh", "remembered"):
        model = rp.RPGPFA(
            1,
            max_iter=8,
            training=rp.Training(batch_size=6),
            n_init=1,
            random_state=0,
            engine=rp.Engine(atoms=kind, extra=5),
        )
        assert np.isfinite(model.fit(trials).history_["free_energy"]).all()
        assert isinstance(model.model_.pattern.atoms, Pooled)


# ---- engines ------------------------------------------------------------------------------------


def test_what_stands_for_auto():
    def chosen(batch, n=1000, series=False):
        x = np.zeros((n, 5, 2)) if series else {"a": np.zeros((n, 2)), "b": np.zeros((n, 2))}
        return type(rp.Engine().extra_atoms(batch, read(x, series=series), True))

    assert [chosen(size) for size in (20, 100, 249, 250, 500, None)] == [
        NoExtraAtoms, FreshAtoms, FreshAtoms, NoExtraAtoms, NoExtraAtoms, NoExtraAtoms,
    ]  # fmt: skip
    assert chosen(150, n=150) is NoExtraAtoms
    assert chosen(150, series=True) is NoExtraAtoms
    assert type(rp.Engine().extra_atoms(150, read({"a": np.zeros((900, 2))}), False)) is NoExtraAtoms


def test_networks_in_bfloat16_and_everything_else_in_full(in_memory):
    model = fit(pairs(), engine=rp.Engine(precision="bfloat16"))
    assert model.score_ == pytest.approx(in_memory.score_, abs=0.05)
    assert model.score_ != in_memory.score_
    _, factors = next(model.model_.pattern.recognised(read(pairs())))
    assert factors["a"].g.dtype == torch.float32
    assert all(each.dtype == torch.float32 for each in model.model_.parameters())


@pytest.mark.soak
@pytest.mark.parametrize("images", [False, True])
def test_compiled_networks_give_the_same_fit(images, tmp_path):
    # In a process of its own: a compiler cannot read functions that check their shapes.
    program = (
        "import sys, numpy as np, rpmodels as rp\n"
        "x = dict(np.load(sys.argv[1]))\n"
        "made = [rp.RPCategorical(3, max_iter=12, n_init=1, random_state=0, training=rp.Training(batch_size=20), "
        "engine=rp.Engine(compile=c)).fit(x) for c in (True, False)]\n"
        "np.testing.assert_allclose(*(each.history_['free_energy'] for each in made), atol=1e-4)\n"
        "np.testing.assert_allclose(*(each.score_samples(x) for each in made), atol=1e-4)\n"
    )
    x = pairs()
    if images:  # convolutions, by batches of several sizes
        x = {name: np.kron(each[:, :, None], np.ones((1, 4, 16), np.float32)) for name, each in x.items()}
    np.savez(tmp_path / "x.npz", **x)
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "x.npz")], check=True, timeout=600)


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ({"atoms": "others"}, "engine.atoms: expected 'auto', 'own', 'remembered' or 'fresh', got 'others'"),
        ({"extra": 0}, "engine.extra"),
        ({"workers": -1}, "engine.workers"),
        ({"precision": "float16"}, "bfloat16"),
    ],
)
def test_bad_engines(engine, said):
    with pytest.raises(errors.InputError, match=said):
        fit(pairs(), engine=rp.Engine(**engine))
    with pytest.raises(errors.InputError, match=r"engine: expected rp.Engine\(…\) or None"):
        fit(pairs(), engine={"workers": 2})


def test_there_are_no_extra_atoms_beside_those_of_a_density():
    estimator = rp.RPFA(2, inference=rp.Inference(marginal=KernelDensity(0.1)), engine=rp.Engine(atoms="fresh"))
    with pytest.raises(errors.BuildError, match="KernelDensity"):
        estimator.fit(pairs())
