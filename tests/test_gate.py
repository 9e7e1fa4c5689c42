"""What comes in is checked where it comes in: a sentence for all that cannot be used, the same numbers for the rest."""

import os
import signal
import stat
import struct
import time
import warnings
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import rpmodels as rp
from data import clusters, views
from processes import start
from registry import ESTIMATORS, made
from rpmodels import memory, writing
from rpmodels.commands import folders, reading
from rpmodels.errors import ArgumentError, FileError, InputError, NumericalError, RPModelsError, RPModelsWarning
from rpmodels.errors.kinds import LONGEST
from rpmodels.observations.arrays import as_array, as_numbers, by_factor

A, B = np.random.default_rng(0).standard_normal((20, 3)), np.random.default_rng(1).standard_normal((20, 2))
BRIEF = {"max_iter": 2, "n_init": 1, "random_state": 0, "finish": "none"}


def categorical(**options):
    return made(rp.RPCategorical, 2, **{**BRIEF, **options})


def series():
    random = np.random.default_rng(0)
    return {"a": random.standard_normal((6, 8, 3)), "b": random.standard_normal((6, 8, 2))}


# ---- what is no array ---------------------------------------------------------------------------


def test_pandas_own_gaps_are_missing():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(A).astype("Float64")
    frame.iloc[0] = pandas.NA
    array = A.copy()
    array[0] = np.nan
    read, expected = rp.read({"a": frame.to_numpy(), "b": B}), rp.read({"a": array, "b": B})
    np.testing.assert_array_equal(read.values["a"], expected.values["a"])
    np.testing.assert_array_equal(read.present["a"], expected.present["a"])
    labels = rp.read({"a": pandas.Series(["x", pandas.NA, "y"], dtype="string").to_numpy(), "b": B[:3]})
    assert labels.present["a"][:, 0].tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (A[:, :0], "at least one number"),
        (None, "expected numbers"),
        (3.0, "observations along its first axis"),
        ("x", "observations along its first axis"),
        (torch.eye(20).to_sparse(), r"dense array, got a sparse tensor.*to_dense"),
        (torch.ones(20, 3, device="meta"), "a tensor that is no array"),
        (np.full((20, 3), 2**63, np.uint64), r"below 2\*\*63"),
        ([[10**30]] * 20, "object"),
        (np.full((20, 3), 1e301), r"numbers below 1e\+300"),
        (A * 1j, "complex"),
        (np.array([b"\xff"] * 20), "bytes that are no text"),
        (np.zeros((20, 2), "datetime64[s]"), "datetime64"),
    ],
)
def test_what_is_no_factor(value, said):
    with pytest.raises(InputError, match=said):
        categorical().fit({"a": value, "b": B})


@pytest.mark.parametrize("kind", [rp.RPHMM, rp.RPGPFA, rp.RPLDS])
@pytest.mark.parametrize(
    "value", [None, 3.0, "x", np.array(1.0), torch.eye(3).to_sparse(), {"a": None}, {"a": 2}], ids=str
)
def test_what_is_no_series(kind, value):
    with pytest.raises(InputError):
        kind(2).fit(value)


@pytest.mark.parametrize("kind", [rp.RPHMM, rp.RPGPFA])
def test_nothing_to_learn_from(kind):
    for x in ({name: each * np.nan for name, each in series().items()}, {k: v[:, :0] for k, v in series().items()}):
        with pytest.raises(InputError, match=r"Everything is missing|trials of two times or more"):
            made(kind, 2, **BRIEF).fit(x)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"presence": {"a": "x"}}, "presence of factor 'a': expected booleans"),
        ({"presence": {"a": np.ones(20)}}, "presence of factor 'a': expected booleans"),
        ({"sample_weight": "x"}, "sample weights: expected 20 finite numbers.*got 'x'"),
        ({"sample_weight": [object()] * 20}, "sample weights"),
        ({"checkpoint": "a\0b"}, "checkpoint: expected a path"),
    ],
)
def test_words_where_numbers_belong(given, said):
    with pytest.raises(InputError, match=said):
        categorical().fit({"a": A, "b": B}, **given)


@pytest.mark.parametrize("presence", [np.ones(20, bool), 3, "x", [True] * 20])
def test_presence_is_said_by_factor(presence):
    with pytest.raises(InputError, match="presence: expected None or a dict"):
        by_factor("presence", presence)


def test_times_presence_and_inputs_of_series():
    for times in ("x", np.full(8, np.nan), np.arange(8)[::-1], 3.0, [None] * 6, [["a"]] * 6):
        with pytest.raises(InputError, match="times"):
            made(rp.RPGPFA, 1, retries=0, **BRIEF).fit(series(), times=times)
    recording = {name: each[0] for name, each in series().items()}
    for options in ({"times": np.arange(8)[::-1]}, {"presence": {"a": np.ones(3, bool)}}, {"inputs": "x"}):
        with pytest.raises(InputError):
            made(rp.RPLDS, 1, retries=0, **BRIEF).fit(recording, **options)


def test_a_checkpoint_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RPModelsError, match="is a file: expected a folder"):
        categorical().fit({"a": A, "b": B}, checkpoint=tmp_path / "file")


def test_verbs_refuse_what_they_do_not_take(tmp_path):
    x = {"a": A, "b": B}
    fa = made(rp.RPFA, 1, retries=0, **BRIEF).fit(x)
    for verb in (fa.transform, fa.posterior, fa.score, fa.impute):
        with pytest.raises(ArgumentError, match="take no 'bogus': expected presence beside the data"):
            verb(x, **({"factor": "a"} if verb == fa.impute else {}), bogus=1)
    with pytest.raises(InputError, match="Unknown factor 'zz'"):
        categorical().fit(x).state_names("zz")
    for path in ("", "a\0b"):
        with pytest.raises(InputError, match="path: expected a path"):
            fa.save(path)
        with pytest.raises(InputError, match="path: expected a path"):
            rp.load(path)
    for given in ({"draws": 2**40}, {"nodes": 10**7}, {"method": "x"}):
        with pytest.raises(InputError, match=next(iter(given))):
            fa.impute(x, "a", **{"method": "quadrature" if "nodes" in given else "importance", **given})


def test_arrays_are_what_they_were():
    for value in (
        A,
        A.astype(">f8"),
        A.astype(np.longdouble),
        A.tolist(),
        torch.as_tensor(A),
        [torch.as_tensor(each) for each in A],
    ):
        found = as_array("a", value)
        assert found.dtype == np.float64
        assert found.dtype.isnative
        np.testing.assert_array_equal(found, A)
    assert as_array("a", np.arange(3, dtype=np.uint64)).dtype == np.int64
    np.testing.assert_array_equal(as_numbers("a", np.array([1, 2.5, True], object)), [1.0, 2.5, 1.0])
    masked = np.ma.masked_less(A, 0)
    np.testing.assert_array_equal(as_array("a", masked), np.where(A < 0, np.nan, A))


# ---- numbers of any size --------------------------------------------------------------------------


@pytest.mark.parametrize("power", [-1000, -600, -150, 150, 520, 600, 990])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scaling_makes_the_unit_of_the_data_meaningless(power, dtype):
    """By a power of two nothing is rounded: not one digit of the answers may change."""
    x, _ = clusters(60, distance=2.0)
    big = {name: each * 2.0**power for name, each in x.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RPModelsWarning)
        found = made(rp.RPCategorical, 3, **{**BRIEF, "max_iter": 20, "dtype": dtype}).fit(big)
    expected = made(rp.RPCategorical, 3, **{**BRIEF, "max_iter": 20, "dtype": dtype}).fit(x)
    np.testing.assert_allclose(found.predict_proba(big), expected.predict_proba(x), rtol=1e-4, atol=1e-5)
    assert float(found.score_) == pytest.approx(float(expected.score_), abs=1e-4)


def test_numbers_that_a_network_cannot_take_are_told():
    x, _ = views(30)
    model = made(rp.RPFA, 1, retries=0, scaling="none", **BRIEF).fit(x)
    with pytest.raises(NumericalError, match=r"network of factor 'a' gave numbers that are not finite.*units"):
        model.transform({"a": 1e200 * x["a"]})


# ---- sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if ESTIMATORS[name].size])
def test_ten_million_latents_are_refused(name):
    tiny = ESTIMATORS[name]
    with pytest.raises(InputError, match=rf"^{tiny.size}: expected .* 100000.*got 10000000"):
        tiny.kind(**{tiny.size: 10**7}).fit(tiny.data(0))


def test_what_the_machine_has_no_memory_for_is_refused_before_it_is_allocated(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 2**23)
    x, trials = views(30)[0], series()
    for model, data in (
        (rp.RPCategorical(90_000), x),
        (rp.RPFA(60_000), x),
        (rp.RPHMM(3_000), trials),
        (rp.RPLDS(3_000), trials),
    ):
        size = model.description.size
        with pytest.raises(
            InputError, match=rf"^{size}: expected a value that needs at most .* GB.*Choose a smaller one"
        ):
            model.fit(data)
        with pytest.raises(InputError, match=rf"^{size}: "):
            model.build(rp.read(data, series=model.description.in_trials))
    small = categorical().fit(x)
    with pytest.raises(InputError, match="n_samples"):
        small.sample(10**7)


def test_texts_of_errors_are_of_a_sane_length():
    long = InputError("a" * 10**6 + " what to do.")
    assert len(str(long)) < LONGEST + 10
    assert str(long).endswith("what to do.")
    assert len(str(RPModelsWarning("b" * 10**6))) < LONGEST + 10
    with pytest.raises(InputError) as told:
        categorical().fit({"a": A, "b" * 10**6: B}, presence={"c" * 10**6: A})
    assert len(str(told.value)) < LONGEST + 10


# ---- the writer -----------------------------------------------------------------------------------


def test_save_refuses_what_is_no_file(tmp_path):
    model = categorical().fit({"a": A, "b": B})
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/null")
    for name, kind in (("fifo", "a FIFO"), ("folder", "a folder"), ("link", "a device")):
        with pytest.raises(FileError, match=f"is {kind}: expected a file"):
            model.save(tmp_path / name)
    assert stat.S_ISFIFO((tmp_path / "fifo").stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "circle", tmp_path / "file" / "model"):
        with pytest.raises(FileError, match="could not be written"):
            model.save(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["circle", "fifo", "file", "folder", "link"]


def test_what_killed_writers_left_is_swept_and_what_living_ones_write_is_not(tmp_path):
    for name in (".m.abc.writing", ".m.d[e].writing", ".other.abc.writing"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m").write_text("half")
    left = []

    def write(path):
        left.extend(each.name for each in tmp_path.iterdir())
        writing.sweep(tmp_path, "m")  # another writer of the same file
        path.write_text("whole")

    writing.write_atomically(tmp_path / "m", write)
    assert len(left) == 2  # that of another file, and its own
    assert sorted(each.name for each in tmp_path.iterdir()) == [".other.abc.writing", "m"]
    assert (tmp_path / "m").read_text() == "whole"
    writing.sweep(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == ["m"]


SAVING = """
import sys, numpy as np, rpmodels as rp
x = {name: np.random.default_rng(0).standard_normal((4000, 20)) for name in "ab"}
model = rp.RPCategorical(20, max_iter=1, n_init=1, random_state=0, training=rp.Training(finish="none")).fit(x)
print("begun", flush=True)
while True:
    model.save("model")
"""


def check_kills_in_save(folder, kills):
    random = np.random.default_rng(0)
    for _ in range(kills):
        program = start(SAVING, folder)
        deadline = time.monotonic() + 120
        while "begun" not in program.printed() or not (folder / "model").exists():
            assert time.monotonic() < deadline, program.printed()
            time.sleep(0.01)
        time.sleep(random.uniform(0.0, 0.2))
        os.kill(program.pid, signal.SIGKILL)
        program.wait()
        assert rp.load(folder / "model").n_states == 20
    rp.load(folder / "model").save(folder / "model")
    assert [each.name for each in folder.iterdir() if "printed" not in each.name] == ["model"]


def test_a_kill_in_save_leaves_a_whole_file(tmp_path):
    check_kills_in_save(tmp_path, 2)


@pytest.mark.soak
def test_many_kills_in_save_leave_a_whole_file(tmp_path):
    check_kills_in_save(tmp_path, int(os.environ.get("RPMODELS_KILLS", "20")))


# ---- files on the command line ----------------------------------------------------------------------


def header(shape, descr="<f8"):
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}}}".encode()
    text += b" " * (64 - (10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def test_headers_that_lie_about_their_size(tmp_path):
    lie = header((10**12,))
    (tmp_path / "lie.npy").write_bytes(lie)
    (tmp_path / "nested.npy").write_bytes(header("(" * 500 + ")" * 500))
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.writestr("a.npy", lie)
    for name in ("lie.npy", "lie.npz", "nested.npy"):
        with pytest.raises(InputError, match=f"{name} cannot be read") as told:
            reading._arrays_in(tmp_path / name)
        assert len(str(told.value)) < 1000
    np.savez(tmp_path / "good.npz", a=A, b=np.zeros((0, 3)))
    np.testing.assert_array_equal(reading._arrays_in(tmp_path / "good.npz")["a"], A)


def test_archives_that_are_larger_than_the_memory(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "zeros.npz", a=np.zeros(10**6))
    monkeypatch.setattr(memory, "available", lambda: 5 * 10**5)
    with pytest.raises(InputError, match="arrays that fit into memory"):
        reading._arrays_in(tmp_path / "zeros.npz")


def test_integers_beyond_all_arrays_are_numbers_and_long_fields_are_cut(tmp_path):
    pytest.importorskip("pandas")
    rows = "\n".join(f"{n},{n * n % 7}" for n in range(30))
    (tmp_path / "big.csv").write_text(f"c0,c1\n99999999999999999999999,1\n{rows}\n")
    (tmp_path / "field.csv").write_text("c0,c1\nx" + "1" * 10**6 + ",1\n1,2\n")
    factors = reading.Reading({"a": ["c0"], "b": ["c1"]})
    found = reading.read_files([tmp_path / "big.csv"], rp.RPCategorical.description, factors)
    assert found.factors["a"].dtype == np.float64
    assert found.factors["a"][0] == 1e23
    with pytest.raises(InputError, match="expected numbers, got 'x111") as told:
        reading.read_files([tmp_path / "field.csv"], rp.RPCategorical.description, factors)
    assert len(str(told.value)) < 1000


@pytest.mark.parametrize("moment", range(6))
def test_a_run_that_is_killed_while_files_are_exchanged_leaves_a_whole_fit(moment, tmp_path, monkeypatch):
    """Wherever it stops: the files of one fit, all of them, once somebody comes again."""
    record = '{"command": 1, "estimator": 2, "score": 3, "fit": "%s"}'

    def writers(which):
        texts = {"model.rpm": which, "latents.npz": which, folders.RECORD: record % which}
        return {name: partial(Path.write_text, data=text) for name, text in texts.items()}

    folders.replace_files(tmp_path, writers("old"))
    moves, replace = 0, Path.replace

    def stopping(self, target):
        nonlocal moves
        if Path(self).parent != Path(target).parent and not Path(self).parent.name.endswith(writing.WRITING):
            moves += 1
            if moves > moment:
                os._exit(0)
        return replace(self, target)

    child = os.fork()
    if not child:
        monkeypatch.setattr(Path, "replace", stopping)
        folders.replace_files(tmp_path, writers("new"))
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    folders._recover(tmp_path)
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert set(found) == {"model.rpm", "latents.npz", folders.RECORD}
    assert {"new" if "new" in text else "old" for text in found.values()} == {"old"}
