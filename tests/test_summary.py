"""What a fitted estimator says of itself, and its history as a table."""

import copy
import pickle
import re
import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rpmodels as rp
from registry import made
from rpmodels.errors import RPModelsError
from rpmodels.estimators import summary
from rpmodels.learning.consumers import History, HistoryTable

BRIEF = {"max_iter": 12, "random_state": 0}
LONG = {"factors": {f"a long name of factor {n}": [n] for n in range(6)}}


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    z = random.standard_normal((40, 1))
    X = {name: z + 0.3 * random.standard_normal((40, size)) for name, size in (("a", 4), ("b", 10))}
    return made(rp.RPFA, 1, n_init=3, retries=0, **BRIEF).fit({**X, "c": np.where(z[:, 0] > 0, "up", "down")})


def test_before_a_fit_it_is_scikit_learns_text():
    assert repr(rp.RPFA(3, max_iter=20)) == "RPFA(max_iter=20, n_latents=3)"
    assert repr(rp.RPCategorical()) == "RPCategorical()"
    wide = rp.RPGPFA(**LONG)
    assert max(len(line) for line in repr(wide).splitlines()) <= 80  # scikit-learn breaks lines
    assert len(rp.RPGPFA(**LONG).__repr__(N_CHAR_MAX=60)) < len(repr(wide))
    halves = rp.RPGPFA(factors={"left": slice(0, 5), "right": slice(5, None)}, max_iter=150, n_init=1, random_state=0)
    assert repr(halves) == (
        "RPGPFA(factors={'left': slice(0, 5, None), 'right': slice(5, None, None)},\n"
        "       max_iter=150, n_init=1, random_state=0)"
    )


def test_after_a_fit_there_is_a_line_about_it(fitted):
    first, line = repr(fitted).split("\n")
    assert first == "RPFA(max_iter=12, n_latents=1, random_state=0, search=Search(retries=0))"
    number = r"-?[\d.e+-]+"
    pattern = (
        rf"fitted: ({number}) nats above independence per observation, a lower bound of the score "
        rf"\(ceiling ({number})\), 12 steps, 3 starts \(spread ({number}) when first compared\), "
        rf"stopped: max_iter = 12 steps, then L-BFGS \({number} nats(?:, weights penalised by [\d.]+)?\); "
        r"factors a \(4 channels together\), b \(10 channels together\), c \(2 labels\)"
    )
    score, ceiling, spread = (float(each) for each in re.fullmatch(pattern, line).groups())
    assert score == pytest.approx(float(fitted.score_), rel=1e-3)
    assert ceiling == pytest.approx(fitted.score_.ceiling, rel=1e-3)
    values = [each.free_energies[0] for each in fitted.restarts_]
    assert spread == pytest.approx(max(values) - min(values), rel=0.06)


def test_copies_files_and_other_representations(fitted, tmp_path):
    assert repr(clone(fitted)) == repr(fitted).split("\n")[0]
    assert repr(pickle.loads(pickle.dumps(fitted))) == repr(fitted) == repr(copy.deepcopy(fitted)) == str(fitted)
    fitted.save(tmp_path / "model")
    again = rp.load(tmp_path / "model")
    assert repr(again).split("\n")[1] == repr(fitted).split("\n")[1]
    assert "sk-top-container" in fitted._repr_html_()
    assert "RPFA" in repr(make_pipeline(StandardScaler(), fitted))


def test_starts_and_factors_in_words():
    def attempt(kind, *values, again=False):
        return SimpleNamespace(kind=kind, free_energies=values, again=again, agreement=None)

    assert summary.starts([attempt("as given")]) == "1 start"
    several = [attempt("as given", 0.5, 3.0), attempt("random", -np.inf), attempt("random", 0.25)]
    others = [attempt("random, again", 9.0, again=True), attempt("random + move", 7.0)]
    assert summary.starts([*several, *others]) == "3 starts (spread 0.25 when first compared)"
    specs = {str(n): rp.observations.FactorSpec((n,)) for n in range(9)}
    assert summary.factors(specs).endswith("5 (5,), and 3 more")
    assert summary.factors({"x": rp.observations.FactorSpec((2, 3))}) == "factor x (2, 3)"
    chosen = {name: rp.observations.FactorSpec(shape) for name, shape in {"a": (9,), "b": (9,), "c": (1,)}.items()}
    said = "factors a (9 channels, each by itself), b (9 channels together), c (1,)"
    assert summary.factors(chosen, ["a"], choice=True) == said


def test_a_history_is_a_dict_that_prints_in_a_line(fitted):
    history = fitted.history_
    assert isinstance(history, dict)
    f = history["free_energy"]
    assert repr(history).startswith(f"history of 12 steps: free energy {f[0]:.4g} to {f[-1]:.4g} nats per observation")
    assert list(history) == ["step", "free_energy", "prior", "recognition", "mixture", "parameters", "learning_rate"]
    assert isinstance(pickle.loads(pickle.dumps(history)), HistoryTable)
    assert repr(History().table()) == "history of no steps"


def test_a_history_as_a_data_frame(fitted, tmp_path, monkeypatch):
    fitted.save(tmp_path / "model")
    for history in (fitted.history_, rp.load(tmp_path / "model").history_):
        frame = history.to_pandas()
        assert frame.index.name == "step"
        assert frame.index.tolist() == list(range(1, 13))
        assert set(frame.columns) == set(history) - {"step"}
        np.testing.assert_array_equal(frame["free_energy"], history["free_energy"])
        pd.testing.assert_frame_equal(pd.DataFrame(history).set_index("step"), frame)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(RPModelsError, match=r"to_pandas needs the package pandas, .* pip install pandas"):
        history.to_pandas()
