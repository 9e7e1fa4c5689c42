"""One `verbose` for everything that lasts, and a bar that counts what there is to do."""

import re
import warnings
from functools import partialmethod

import numpy as np
import pytest
from tqdm.auto import tqdm

import rpmodels as rp
from data import views
from rpmodels import memory
from rpmodels.evaluation import choose, cross_validate, stability

QUICK = {
    "max_iter": 2, "n_init": 1, "random_state": 0, "search": rp.Search(retries=0),
    "training": rp.Training(finish="none"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def every_move(monkeypatch):
    """Is shown, however quick: by itself a bar is drawn ten times a second."""
    monkeypatch.setattr(tqdm, "__init__", partialmethod(tqdm.__init__, mininterval=0))


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", rp.RPModelsWarning)
        yield


@pytest.fixture(scope="module")
def x():
    return views(60, width=3, noise=0.2)[0]


def counted(text, label):
    """How far bars of this name came, and of how many."""
    return {tuple(map(int, each)) for each in re.findall(rf"{label}: +\d+%[^\r]*?(\d+)/(\d+) \[", text)}


@pytest.mark.parametrize(
    ("label", "tasks", "work"),
    [
        ("cross_validate", 3, lambda x, told: cross_validate(rp.RPFA(1, **QUICK), x, cv=3, verbose=told)),
        ("choose", 4, lambda x, told: choose(rp.RPFA(1, **QUICK), "n_latents", [1, 2], x, cv=2, verbose=told)),
        ("stability", 3, lambda x, told: stability(rp.RPFA(1, **QUICK), x, n_runs=3, verbose=told)),
    ],
)
def test_evaluations_count_their_tasks(label, tasks, work, x, capsys):
    work(x, 0)
    assert not counted(capsys.readouterr().err, label)
    work(x, 1)
    assert (tasks, tasks) in counted(capsys.readouterr().err, label)


# ---- observations, piece by piece --------------------------------------------------------------------


@pytest.fixture
def small_pieces(monkeypatch):
    """As if memory were for a dozen observations at a time."""
    monkeypatch.setattr(memory, "BUDGET", 2**14)


VERBS = ["transform", "score", "score_samples"]


@pytest.mark.parametrize("verb", VERBS)
def test_large_data_are_counted(verb, x, small_pieces, capsys):
    """Up to all of them, in several pieces; and the numbers are those of a model that says nothing."""
    model = rp.RPFA(1, **QUICK).fit(x)
    silent = getattr(model, verb)(x)
    assert not counted(capsys.readouterr().err, "observations")
    told = getattr(model.set_params(verbose=1), verb)(x)
    found = counted(capsys.readouterr().err, "observations")
    assert len(found) > 2
    assert {count for _, count in found} == {60}
    np.testing.assert_array_equal(told, silent)


def test_one_piece_needs_no_bar(x, capsys):
    rp.RPFA(1, verbose=1, **QUICK).fit(x).transform(x)
    assert not counted(capsys.readouterr().err, "observations")


def test_filters_count_too(small_pieces, capsys):
    series = np.random.default_rng(0).normal(size=(30, 8, 3)).astype(np.float32)
    model = rp.RPLDS(1, **QUICK).fit(series)
    capsys.readouterr()
    model.set_params(verbose=1).filter(series)
    assert {count for _, count in counted(capsys.readouterr().err, "observations")} == {30}


def test_closing_scores_count(x, small_pieces, capsys):
    """The score that a fit ends with goes through all observations once more."""
    rp.RPFA(1, **QUICK).fit(x)
    assert not capsys.readouterr().err
    rp.RPFA(1, verbose=1, **QUICK).fit(x)
    text = capsys.readouterr().err
    assert {count for _, count in counted(text, "observations")} == {60}
    assert text.rindex("observations:") > text.rindex("training:")
