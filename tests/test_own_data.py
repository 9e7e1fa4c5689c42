"""`rpmodels fit`, `transform`, `info` and `datasets`, as people call them."""

import ast
import csv
import json
import pathlib
import re
import shlex
import sys

import numpy as np
import pandas as pd
import pytest

import rpmodels as rp
from command_line import command, done, refused
from registry import made
from rpmodels import cli
from rpmodels.commands import folders
from rpmodels.datasets.catalogue import DATA_SETS

QUICK = ("--set", "max_iter=5", "--set", "n_init=1", "--set", "verbose=0")
CONTINUOUS = (*QUICK, "--set", "search.retries=0", "--set", "training.finish=none")
SETTINGS = {"max_iter": 5, "n_init": 1, "random_state": 0}
SETTINGS_OF_CONTINUOUS = {**SETTINGS, "retries": 0, "finish": "none"}
TWO = ("--factor", "left=a,b,c", "--factor", "right=d,e")


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(autouse=True)
def _pages_are_drawn_elsewhere(monkeypatch):
    """Drawing is most of the time of so small a fit; fits of fixtures have their pages."""
    monkeypatch.setattr("rpmodels.commands.fitting.model_page", lambda *_, **__: "<html></html>")


@pytest.fixture(scope="module")
def views():
    """Two views of three states, and a label for each of them."""
    random = np.random.default_rng(0)
    z = random.integers(3, size=60)
    left = 3 * random.standard_normal((3, 3))[z] + random.standard_normal((60, 3))
    right = 3 * random.standard_normal((3, 2))[z] + random.standard_normal((60, 2))
    return {"left": left, "right": right, "kind": np.array(["p", "q", "r"])[z], "code": z}


@pytest.fixture(scope="module")
def here(tmp_path_factory, views):
    """A folder with the views as a table and as arrays, and a long table of unequal trials."""
    folder = tmp_path_factory.mktemp("data")
    table = pd.DataFrame(np.c_[views["left"], views["right"]], columns=list("abcde"))
    table["kind"], table["code"] = views["kind"], views["code"]
    table.to_csv(folder / "views.csv", index=False)
    np.savez(folder / "views.npz", left=views["left"], right=views["right"])
    np.save(folder / "left.npy", views["left"])
    np.save(folder / "right.npy", views["right"])
    np.save(folder / "all.npy", np.c_[views["left"], views["right"]])
    random = np.random.default_rng(1)
    pieces = []
    for n, length in enumerate((7, 5, 9, 6)):
        walk = np.cumsum(random.standard_normal((length, 1)), 0) + random.standard_normal((length, 3))
        piece = pd.DataFrame(walk, columns=["u", "v", "w"])
        piece.insert(0, "t", np.round(0.1 * np.arange(length), 6))
        piece.insert(0, "trial", f"s{n}")
        pieces.append(piece)
    long = pd.concat(pieces)
    long["word"] = np.array(["cat", "dog", "owl"])[random.integers(3, size=len(long))]
    long.to_csv(folder / "long.csv", index=False)
    long["t"] += 10 * long["trial"].str[1:].astype(int)
    long.to_csv(folder / "session.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def fitted(here):
    """A fit of the table."""
    done("fit", here / "views.csv", "--model", "categorical", "--states", 3, *TWO, *QUICK, "--out", here / "fitted")
    return here / "fitted"


@pytest.fixture(scope="module")
def in_time(here):
    """A fit of the long table, its rows in disorder."""
    long = pd.read_csv(here / "long.csv").sample(frac=1, random_state=0)
    long.to_csv(here / "mixed.csv", index=False)
    options = ("--trial", "trial", "--time", "t", "--factor", "one=u,v", "--factor", "two=w")
    done("fit", here / "mixed.csv", "--model", "gpfa", "--latents", 1, *options, *CONTINUOUS, "--out", here / "gpfa")
    return here / "gpfa"


def trials_of(path, columns, trial="trial", time="t"):
    """An independent reading of a long table."""
    groups = [group.sort_values(time) for _, group in pd.read_csv(path).groupby(trial, sort=False)]
    return (
        [g[columns].to_numpy() for g in groups],
        [g[time].to_numpy() for g in groups],
        [g[trial].iloc[0] for g in groups],
    )


# ---- fit ------------------------------------------------------------------------------------------


def test_a_table_of_two_factors(fitted, views):
    factors = {name: views[name] for name in ("left", "right")}
    model = made(rp.RPCategorical, 3, **SETTINGS).fit(factors)
    assert {path.name for path in fitted.iterdir()} == {
        "model.rpm", "latents.npz", "latents.csv", "history.csv", "report.html", "fit.json",
    }  # fmt: skip
    with np.load(fitted / "latents.npz") as latents:
        assert np.allclose(latents["probabilities"], model.predict_proba(factors), atol=1e-6)
        assert (latents["states"] == model.predict(factors)).all()
    rows = rows_of(fitted / "latents.csv")
    assert [int(row["row"]) for row in rows] == list(range(60))
    assert list(rows[0]) == ["row", "state", "p0", "p1", "p2"]
    assert len(rows_of(fitted / "history.csv")) == 5
    record = json.loads((fitted / "fit.json").read_text())
    assert record["estimator"] == "RPCategorical"
    assert record["parameters"]["n_states"] == 3
    assert record["score"]["nats"] == pytest.approx(float(model.score_), abs=1e-6)
    assert record["score"]["ceiling"] == pytest.approx(model.score_.ceiling)
    assert record["factors"] == {"left": {"shape": [3], "array": [60, 3]}, "right": {"shape": [2], "array": [60, 2]}}
    assert record["command"]["set"] == ["max_iter=5", "n_init=1", "verbose=0"]
    assert record["observations"] == 60
    assert {"seconds", "versions", "warnings", "stopped"} <= set(record)


def test_a_long_table_of_unequal_trials(in_time, here):
    ones, times, names = trials_of(here / "mixed.csv", ["u", "v"])
    twos = trials_of(here / "mixed.csv", ["w"])[0]
    factors = {"one": ones, "two": twos}
    model = made(rp.RPGPFA, 1, **SETTINGS_OF_CONTINUOUS).fit(factors, times=times)
    expected = model.posterior(factors, times=times)
    with np.load(in_time / "latents.npz") as latents:
        assert latents["trials"].tolist() == names
        assert latents["lengths"].tolist() == [len(each) for each in ones]
        cut = np.split(latents["mean"], np.cumsum(latents["lengths"])[:-1])
        assert all(np.allclose(one, other, atol=1e-5) for one, other in zip(cut, expected.mean, strict=True))
        assert np.allclose(latents["variance"], np.concatenate(expected.variance), atol=1e-5)
        assert np.allclose(latents["times"], np.concatenate(times))
    rows = rows_of(in_time / "latents.csv")
    assert list(rows[0]) == ["trial", "t", "latent0", "variance0"]
    assert [(row["trial"], float(row["t"])) for row in rows] == [
        (name, time) for name, each in zip(names, times, strict=True) for time in each
    ]
    assert json.loads((in_time / "fit.json").read_text())["factors"]["two"] == {"shape": [1], "trials": 4, "rows": 27}


@pytest.mark.parametrize(
    ("model", "options", "names"),
    [
        ("hmm", ("--states", 2, "--trial", "trial", "--time", "t", "--factor", "x=u,v,w"), {"probabilities", "states"}),
        ("lds", ("--trial", "trial", "--time", "t", "--factor", "x=u,v,w"), {"mean", "variance"}),
        ("lda", ("--topics", 2, "--trial", "trial", "--factor", "word=word"), {"proportions", "topics"}),
        ("gpfa", ("--factor", "one=u,v", "--factor", "word=word"), {"mean", "variance"}),  # a single recording
    ],
)
def test_every_model_of_sequences(model, options, names, here, tmp_path):
    quick = CONTINUOUS if model in ("gpfa", "lds") else QUICK
    done("fit", here / "long.csv", "--model", model, *options, *quick, "--out", tmp_path / "out")
    with np.load(tmp_path / "out" / "latents.npz") as latents:
        assert names <= set(latents.files)
        first = latents[min(names)]
        assert len(first) == (27 if model != "lda" else 4)
    rows = rows_of(tmp_path / "out" / "latents.csv")
    assert len(rows) == len(first)
    expected = {"hmm": "trial t state p0 p1", "lda": "trial topic0 topic1", "gpfa": "step latent0 variance0"}
    assert " ".join(rows[0]) == expected.get(model, "trial t latent0 latent1 variance0 variance1")


def test_arrays_in_every_form_give_the_same_fit(here, tmp_path, views):
    forms = {
        "npz": [here / "views.npz"],
        "npy": [here / "left.npy", here / "right.npy"],
        "columns": [here / "all.npy", "--factor", "left=0:3", "--factor", "right=3,4"],
    }
    means = []
    for name, words in forms.items():
        done("fit", *words, "--model", "fa", *CONTINUOUS, "--out", tmp_path / name)
        assert not (tmp_path / name / "latents.csv").exists()
        with np.load(tmp_path / name / "latents.npz") as latents:
            means.append(latents["mean"])
    model = made(rp.RPFA, 2, **SETTINGS_OF_CONTINUOUS).fit({name: views[name] for name in ("left", "right")})
    for each in means:
        assert np.allclose(each, model.posterior({name: views[name] for name in ("left", "right")}).mean, atol=1e-5)
    # One array whose columns were shared out is shared out again.
    done("transform", tmp_path / "columns" / "model.rpm", here / "all.npy", "--out", tmp_path / "again.npz")
    with np.load(tmp_path / "again.npz") as latents:
        assert np.allclose(latents["mean"], means[2], atol=1e-5)


def test_labels_are_words_or_said_to_be_labels(here, tmp_path):
    options = ("--model", "categorical", "--factor", "left=a,b,c", *QUICK)
    shapes = {}
    for name, words in {"kind": (), "code": (), "label": ("--label", "code")}.items():
        column = "code" if name == "label" else name
        out = tmp_path / name
        done("fit", here / "views.csv", *options, "--factor", f"{column}={column}", *words, "--out", out)
        shapes[name] = json.loads((out / "fit.json").read_text())["factors"][column]
    assert shapes["kind"]["labels"] == shapes["label"]["labels"] == 3
    assert shapes["code"]["shape"] == [1]
    done("transform", tmp_path / "label" / "model.rpm", here / "views.csv", "--out", tmp_path / "new.npz")


def test_an_interrupt_keeps_the_best_state(here, tmp_path, monkeypatch):
    def stop(self, state):
        if state.step == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("rpmodels.learning.consumers.Progress.__call__", stop)
    result = done("fit", here / "views.npz", "--model", "fa", *CONTINUOUS, "--out", tmp_path / "out")
    assert "rpmodels: note: Interrupted at step" in result
    record = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert "nterrupt" in record["stopped"]
    assert any("Interrupted" in note for note in record["warnings"])


# ---- folders --------------------------------------------------------------------------------------


def test_a_fit_is_replaced_only_when_asked_and_only_as_a_whole(here, tmp_path, monkeypatch):
    out = tmp_path / "out"
    words = ("fit", here / "views.csv", "--model", "categorical", "--states", 3, *TWO, *QUICK, "--out", out)
    done(*words)
    (out / "notes.txt").write_text("mine")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    assert "--force" in refused(*words)

    def killed(*_, **__):
        raise KeyboardInterrupt

    for place in ("rpmodels.commands.fitting.write_json", "rpmodels.commands.folders._exchange"):
        with monkeypatch.context() as patch:
            patch.setattr(place, killed)
            assert command(*words, "--force", "--seed", 1).exit_code != 0
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    arrays = ("fit", here / "views.npz", "--model", "categorical", "--states", 3, *QUICK, "--out", out, "--force")
    done(*arrays, "--seed", 1)
    assert json.loads((out / "fit.json").read_text())["command"]["seed"] == 1
    assert (out / "notes.txt").read_text() == "mine"
    assert not (out / "latents.csv").exists()  # of the earlier fit


def test_an_exchange_that_fails_half_way_is_undone(tmp_path, monkeypatch):
    (tmp_path / "fit.json").write_text("old")
    (tmp_path / "model.rpm").write_text("old")
    move = pathlib.Path.replace

    def failing(self, target):
        if self.name == "fit.json" and pathlib.Path(target).parent == tmp_path and self.read_text() == "new":
            raise OSError("disk on fire")
        return move(self, target)

    writers = {name: lambda path: path.write_text("new") and None for name in ("model.rpm", "history.csv")}
    stage = tmp_path / ".rpmodels-stage"
    stage.mkdir()
    for name in (*writers, "fit.json"):
        (stage / name).write_text("new")
    monkeypatch.setattr(pathlib.Path, "replace", failing)
    with pytest.raises(OSError, match="on fire"):
        folders._exchange(tmp_path, stage, [*writers, "fit.json"])
    assert {path.name: path.read_text() for path in tmp_path.glob("*.*") if path.is_file()} == {
        "fit.json": "old", "model.rpm": "old",
    }  # fmt: skip


def test_folders_that_cannot_be_had_are_refused_before_the_fit(here, tmp_path, monkeypatch):
    monkeypatch.setattr(rp.RPFA, "fit", lambda *_, **__: pytest.fail("the fit has begun"))
    words = ("fit", here / "views.npz", "--model", "fa", "--force", "--out")
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "fit.json").write_text("{}")
    assert "was not made by `rpmodels fit`" in refused(*words, foreign)
    assert (foreign / "fit.json").read_text() == "{}"
    assert "is a file" in refused(*words, here / "views.npz")
    assert "can be written to" in refused(*words, here / "views.npz" / "out")
    np.savez(tmp_path / "latents.npz", left=np.zeros((3, 1)))
    assert "is among the data" in refused("fit", tmp_path / "latents.npz", "--model", "fa", "--out", tmp_path)

    def read_only(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", read_only)
    assert "Permission denied" in refused(*words, tmp_path / "locked")


def test_nothing_is_left_of_a_fit_that_was_refused(here, tmp_path):
    assert "Only one factor" in refused("fit", here / "left.npy", "--model", "fa", *QUICK, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


# ---- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("none.csv", "--model", "fa"), "none.csv: no such file"),
        (("notes.txt", "--model", "fa"), "notes.txt: expected a name that ends with one of .npz, .npy, .csv, .parquet"),
        (("views.csv", "--model", "pca"), "--model: expected one of categorical, circular, fa, gpfa, graph, hmm, lda"),
        (("views.csv", "--model", "fa"), "give --factor"),
        (("views.csv", "--model", "fa", "--factor", "left=a,zz"), "--factor left: expected a column"),
        (("views.csv", "--model", "fa", "--factor", "left"), "expected NAME=column"),
        (("views.csv", "--model", "fa", *TWO, "--factor", "left=d"), "expected NAME=column"),
        (("views.csv", "--model", "fa", "--factor", "l=a,kind", "--factor", "r=d"), "column 'kind': expected numbers"),
        (("slip.csv", "--model", "fa", "--factor", "l=a", "--factor", "r=b"), "expected numbers, got '2;0'"),
        (("views.csv", "--model", "fa", *TWO, "--label", "left"), "expected a factor of one column, got 3"),
        (("views.csv", "--model", "fa", *TWO, "--label", "up"), "no --factor of this name"),
        (("views.csv", "--model", "fa", *TWO, "--trial", "kind"), "--trial is not for fa"),
        (("views.csv", "left.npy", "--model", "fa"), "holds all factors by itself"),
        (("views.npz", "left.npy", "--model", "fa"), "Factor 'left' is there twice"),
        (("views.npz", "--model", "fa", "--factor", "l=0"), "the data are 2 factors already"),
        (("all.npy", "--model", "fa", "--factor", "l=0:9"), "expected numbers of columns from 0 to 4"),
        (("all.npy", "--model", "fa", "--factor", "l=a"), "expected numbers of columns from 0 to 4"),
        (("views.npz", "--model", "gpfa", "--trial", "trial"), "--trial is not for arrays"),
        (("objects.npz", "--model", "fa"), "array 'left' holds Python objects"),
        (("objects.npy", "--model", "fa"), "holds Python objects"),
        (("broken.npz", "--model", "fa"), "broken.npz cannot be read"),
        (("empty.csv", "--model", "fa", *TWO), "empty.csv cannot be read"),
        (("long.csv", "--model", "gpfa", "--trial", "session"), "--trial: expected a column"),
        (("long.csv", "--model", "gpfa", "--trial", "trial", "--time", "word"), "--time word: expected a number"),
        (("long.csv", "--model", "gpfa", "--time", "t", "--factor", "x=u"), "0 twice"),
        (("long.csv", "--model", "gpfa", "--trial", "trial", "--time", "t"), "column 'word': expected numbers"),
        (("long.csv", "--model", "lda", "--factor", "word=word"), "expected --trial COLUMN"),
        (("long.csv", "--model", "lda", "--trial", "trial", "--time", "t"), "--time is not for lda"),
        (("session.csv", "--model", "gpfa", "--trial", "trial", "--time", "t", "--factor", "x=u"), "add --align"),
        (("views.npz", "--model", "lda"), "lda takes one factor"),
        (("views.npz", "--model", "hmm", "--latents", "2"), "--latents is not for hmm: expected --states K"),
        (("views.npz", "--model", "fa", "--states", "2"), "--states is not for fa: expected --latents K"),
        (("views.npz", "--model", "fa", "--set", "steps=3"), "fa has no such argument. Expected one of n_latents,"),
        (("views.npz", "--model", "fa", "--set", "max_iter"), "expected ARGUMENT=VALUE"),
        (("views.npz", "--model", "fa", "--set", "max_iter=many"), "max_iter: expected an integer ≥ 1, got 'many'"),
        (("views.npz", "--model", "fa", "--set", "recognition.tied=1"), "expected true or false, got 1"),
        (("views.npz", "--model", "fa", "--set", "training.tol=NaN"), "expected a number ≥ 0 or null, got 'NaN'"),
        (("views.npz", "--model", "fa", "--set", "tol=1"), "no such argument. Expected one of training.tol."),
        (("views.npz", "--model", "fa", "--set", "training.callbacks=[]"), "fit in Python"),
        (("views.npz", "--model", "fa", "--latents", "2", "--set", "n_latents=3"), "give one of them"),
        (("views.npz", "--model", "fa", "--latents", "0"), "expected"),
        (("views.npz", "--model", "fa", "--set", "network=magic"), "magic"),
        (("views.npz", "--model", "fa", "--seed", "-1"), "--seed: expected an integer"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_a_sentence(words, expected, here, tmp_path, monkeypatch):
    monkeypatch.chdir(here)
    pathlib.Path("notes.txt").write_text("mine")
    pathlib.Path("slip.csv").write_text("a,b\n1,1\n2,2;0\n")
    pathlib.Path("empty.csv").write_text("")
    pathlib.Path("broken.npz").write_bytes(b"PK\x03\x04 half")
    np.savez("objects.npz", left=np.array([{}, None], object))
    np.save("objects.npy", np.array([{}, None], object))
    assert expected in refused("fit", *words, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_errors_end_with_code_2_and_one_line(here, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["rpmodels", "fit", "none.csv", "--model", "fa", "--out", str(tmp_path / "out")])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err.strip().count("\n") == 0


def test_packages_are_named_where_they_are_missing(here, tmp_path, monkeypatch):
    (tmp_path / "table.parquet").write_bytes(b"PAR1")
    words = ("--model", "fa", *TWO, "--out", tmp_path / "out")
    with monkeypatch.context() as patch:
        for name in ("pyarrow", "fastparquet"):
            patch.setitem(sys.modules, name, None)
        assert "pip install 'rpmodels[tables]'" in refused("fit", tmp_path / "table.parquet", *words)
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert "pip install 'rpmodels[tables]'" in refused("fit", here / "views.csv", *words)


def test_only_the_commands_import_typer_and_nobody_pandas():
    """scikit-learn imports pandas by itself where it is installed, so sys.modules would tell nothing."""
    source = pathlib.Path(rp.__file__).parent
    importing = {
        (str(path.relative_to(source)), name)
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in [getattr(node, "module", None) or node.names[0].name]
        if name.partition(".")[0] in ("pandas", "typer")
    }
    assert importing == {("cli.py", "typer")}
    assert "rpmodels.cli" not in (source / "__init__.py").read_text(encoding="utf-8")


# ---- transform ------------------------------------------------------------------------------------


def test_transform_gives_what_python_gives(fitted, here, tmp_path, views):
    model = rp.load(fitted / "model.rpm")
    for data, out in (("views.csv", "new.npz"), ("views.npz", "new.csv")):
        done("transform", fitted / "model.rpm", here / data, "--out", tmp_path / out)
    expected = model.predict_proba({name: views[name] for name in ("left", "right")})
    with np.load(tmp_path / "new.npz") as latents:
        assert np.allclose(latents["probabilities"], expected, atol=1e-6)
    found = np.array([[row["p0"], row["p1"], row["p2"]] for row in rows_of(tmp_path / "new.csv")], np.float32)
    assert (found == model.predict_proba({name: views[name] for name in ("left", "right")})).all()


def test_transform_does_without_a_factor(fitted, here, tmp_path, views):
    expected = rp.load(fitted / "model.rpm").predict_proba({"right": views["right"]})
    np.savez(tmp_path / "right.npz", right=views["right"])
    pd.DataFrame(views["right"], columns=["d", "e"]).to_csv(tmp_path / "right.csv", index=False)
    for n, data in enumerate((tmp_path / "right.npz", tmp_path / "right.csv", here / "right.npy")):
        done("transform", fitted / "model.rpm", data, "--out", tmp_path / f"{n}.npz")
        with np.load(tmp_path / f"{n}.npz") as latents:
            assert np.allclose(latents["probabilities"], expected, atol=1e-6)


def test_transform_of_trials(in_time, here, tmp_path):
    model = in_time / "model.rpm"
    done("transform", model, here / "session.csv", "--align", "--out", tmp_path / "new.csv")
    ones, times, _ = trials_of(here / "long.csv", ["u", "v"])
    twos = trials_of(here / "long.csv", ["w"])[0]
    expected = rp.load(model).transform({"one": ones, "two": twos}, times=times)
    rows = rows_of(tmp_path / "new.csv")
    assert np.allclose([float(row["latent0"]) for row in rows], np.concatenate(expected)[:, 0], atol=1e-5)
    assert float(rows[-1]["t"]) == pytest.approx(30.5)  # as it stands in the table


def test_transform_of_texts_and_columns_called_like_ours(here, tmp_path):
    table = pd.read_csv(here / "long.csv").rename(columns={"trial": "topic0"})
    table.to_csv(tmp_path / "texts.csv", index=False)
    words = ("--trial", "topic0", "--factor", "word=word", *QUICK)
    done("fit", tmp_path / "texts.csv", "--model", "lda", "--topics", 2, *words, "--out", tmp_path / "out")
    new = table.rename(columns={"topic0": "text", "word": "said"})[:7]
    new.to_csv(tmp_path / "new.csv", index=False)
    options = ("--trial", "text", "--factor", "w=said")
    done("transform", tmp_path / "out" / "model.rpm", tmp_path / "new.csv", *options, "--out", tmp_path / "got.csv")
    (row,) = rows_of(tmp_path / "got.csv")
    first = rows_of(tmp_path / "out" / "latents.csv")[0]
    assert row["text"] == first["topic0"] == "s0"
    assert float(row["topic0"]) == pytest.approx(float(first["topic0_"]), abs=1e-5)


def test_what_transform_refuses(fitted, here, tmp_path):
    model = fitted / "model.rpm"
    (tmp_path / "there.npz").write_text("mine")
    assert "--force" in refused("transform", model, here / "views.npz", "--out", tmp_path / "there.npz")
    assert (tmp_path / "there.npz").read_text() == "mine"
    assert ".npz, .csv" in refused("transform", model, here / "views.npz", "--out", tmp_path / "new.txt")
    data = here / "views.npz"
    assert "is among the data" in refused("transform", model, data, "--out", data, "--force")
    assert "not a model file" in refused("transform", data, data, "--out", tmp_path / "new.npz")
    assert "Unknown factor 'all'" in refused("transform", model, here / "all.npy", "--out", tmp_path / "new.npz")
    result = command("transform", tmp_path / "none.rpm", data, "--out", tmp_path / "new.npz")
    assert isinstance(result.exception, FileNotFoundError)
    done("transform", model, data, "--out", tmp_path / "there.npz", "--force")


# ---- info and data sets ---------------------------------------------------------------------------


def test_info_of_a_model_and_of_a_fit(fitted):
    about = json.loads(done("info", fitted / "model.rpm", "--json"))
    assert about["model"] == "RPCategorical"
    assert about["non_default_parameters"] == {
        "max_iter": 5, "n_init": 1, "n_states": 3, "random_state": 0,
    }  # fmt: skip
    assert about["factors"] == {"left": {"shape": [3]}, "right": {"shape": [2]}}
    assert about["observations"] == 60
    assert about["versions"]["rpmodels"] == rp.__version__
    assert about["bytes"] == (fitted / "model.rpm").stat().st_size
    assert about["score"] == json.loads((fitted / "fit.json").read_text())["score"]
    assert "non default parameters: max_iter 5" in done("info", fitted / "model.rpm")
    text = done("info", fitted)
    assert "estimator: RPCategorical" in text
    assert "nats above independence per observation (median" in text
    assert "set: (max_iter=5, n_init=1, verbose=0)" in text


def test_info_names_parts_without_building_them(tmp_path, views):
    model = rp.RPFA(
        1,
        inference=rp.Inference(expected_log_mixture=rp.mixtures.InteriorBound()),
        recognition=rp.Recognition(scaling={"left": "none", "right": "auto"}),
    )
    training = rp.Training(callbacks=[rp.TimeLimit(60)], finish="none")
    model.set_params(search__retries=0, training=training, **SETTINGS)
    model.fit({name: views[name] for name in ("left", "right")}).save(tmp_path / "model.rpm")
    changed = json.loads(done("info", tmp_path / "model.rpm", "--json"))["non_default_parameters"]
    assert changed["inference.expected_log_mixture"] == "InteriorBound"
    assert changed["recognition.scaling"] == {"left": "none", "right": "auto"}
    assert changed["training.callbacks"][0].endswith("TimeLimit")


def test_info_of_a_run(tmp_path):
    settings = {"experiment": "toy", "preset": "quick", "settings": {"n": 3}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    assert "run it again to go on" in done("info", tmp_path)
    row = {"model": "A", "method": "", "condition": "", "metric": "score", "values": [1.0, 2.0], "median": 1.5,
           "mean": 1.5, "sd": 0.5, "paper": None}  # fmt: skip
    metrics = {**settings, "rows": [row], "seconds": 3.0, "versions": {"rpmodels": "0"}}
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    assert "model A, metric score, median 1.5, mean 1.5, sd 0.5" in done("info", tmp_path)
    assert json.loads(done("info", tmp_path, "--json"))["seeds"] == 2
    (tmp_path / "settings.json").write_text("{}")
    assert "expected a model file, or a folder" in refused("info", tmp_path)


def test_every_data_set_is_in_the_catalogue(tmp_path, monkeypatch):
    functions = {name for name in rp.datasets.__all__ if name.islower()}
    assert functions == {each.name for each in DATA_SETS}
    monkeypatch.setenv("RPMODELS_DATA", str(tmp_path))
    (tmp_path / "van_hateren").mkdir()
    (tmp_path / "van_hateren" / "doves_280.npz").write_bytes(b"")
    listed = {each["name"]: each for each in json.loads(done("datasets", "--json"))}
    assert listed["load_van_hateren"]["here"] == str(tmp_path / "van_hateren")
    assert listed["load_mnist"]["origin"].startswith("CC BY-SA 3.0")
    text = done("datasets")
    assert all(f"{name}: " in text for name in functions)


@pytest.mark.parametrize("name", [each.name or each.callback.__name__ for each in cli.app.registered_commands])
def test_help_has_an_example(name):
    assert f"Example: rpmodels {name}" in " ".join(done(name, "--help").split())


def test_the_commands_of_the_page(tmp_path, monkeypatch):
    """Blocks of Python are run by test_howto; here they make the files that the commands speak of."""
    page = (pathlib.Path(__file__).parent.parent / "docs" / "howto" / "command-line.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for kind, block in re.findall(r"```(python|sh)\n(.*?)```", page, re.DOTALL):
        if kind == "python":
            exec(block, {})
            continue
        for line in block.splitlines():
            _, name, *words = shlex.split(line)
            done(name, *words, *(QUICK if name == "fit" else ()))
    assert len(rows_of(tmp_path / "again.csv")) == 200


# ---- pages -----------------------------------------------------------------------------------


def test_a_fit_has_its_page(fitted, in_time):
    """Both are made before the pages are replaced, being fixtures of the module."""
    for folder in (fitted, in_time):
        page = (folder / "report.html").read_text(encoding="utf-8")
        for expected in ("What to know", "Latents", "Learning", "Does it fit?", "p = ", "max_iter"):
            assert expected in page
        assert page.count("<img") >= 5
        assert "http" not in page.replace("http://www.w3.org/2000/svg", ""), "nothing is loaded from anywhere"


def test_report_of_a_fit_and_of_a_model_on_other_data(here, fitted, tmp_path):
    assert "there already" in refused("report", fitted)
    done("report", fitted, "--out", tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text(encoding="utf-8").count("<img") >= 5
    assert "none were given" in refused("report", fitted / "model.rpm", "--out", tmp_path / "model.html")
    done("report", fitted / "model.rpm", here / "views.npz", "--out", tmp_path / "model.html")
    assert "RPCategorical" in (tmp_path / "model.html").read_text(encoding="utf-8")
    assert "model file" in refused("report", tmp_path / "nothing")


def test_a_page_that_fails_costs_the_page_only(here, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no fonts")

    monkeypatch.setattr("rpmodels.commands.fitting.model_page", fail)
    words = ("fit", here / "views.csv", "--model", "categorical", "--states", 3, *TWO, *QUICK, "--out", tmp_path / "f")
    assert isinstance(command(*words).exception, RuntimeError)
    assert rp.load(tmp_path / "f" / "model.rpm").n_states == 3
    assert (tmp_path / "f" / "fit.json").exists()


# ---- what a stranger meets first ---------------------------------------------------------------


def test_one_trial_only_is_said(here, tmp_path):
    long = pd.read_csv(here / "long.csv")
    long[long["trial"] == "s2"].to_csv(tmp_path / "one.csv", index=False)
    options = ("--trial", "trial", "--time", "t", "--factor", "one=u,v", "--factor", "two=w")
    words = ("fit", tmp_path / "one.csv", "--model", "gpfa", "--latents", 1, *options, *CONTINUOUS)
    done(*words, "--out", tmp_path / "f")
    notes = json.loads((tmp_path / "f" / "fit.json").read_text())["warnings"]
    assert any("one trial only" in note and "leave --trial out" in note for note in notes)


def test_milliseconds_after_seconds_are_noticed(here, in_time, tmp_path, capsys):
    long = pd.read_csv(here / "long.csv")
    long["t"] *= 1000
    long.to_csv(tmp_path / "ms.csv", index=False)
    model = rp.load(in_time / "model.rpm")
    trials, times, _ = trials_of(tmp_path / "ms.csv", ["u", "v"])
    with pytest.warns(rp.RPModelsWarning, match="time step of 100, those of the fit one of 0.1"):
        model.transform({"one": trials}, times=times)
    result = command("transform", in_time / "model.rpm", tmp_path / "ms.csv", "--out", tmp_path / "latents.csv")
    assert "same units" in result.output + capsys.readouterr().err


def test_a_parquet_file_is_the_same_table(here, fitted, tmp_path):
    pytest.importorskip("pyarrow", reason="reading .parquet needs pyarrow")
    pd.read_csv(here / "views.csv").to_parquet(tmp_path / "views.parquet")
    done("transform", fitted / "model.rpm", tmp_path / "views.parquet", "--out", tmp_path / "latents.npz")
    with np.load(fitted / "latents.npz") as one, np.load(tmp_path / "latents.npz") as other:
        assert np.allclose(one["probabilities"], other["probabilities"], atol=1e-6)
