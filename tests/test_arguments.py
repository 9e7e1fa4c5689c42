"""Arguments and their groups: declared once, checked before any work, the same for scikit-learn, files and commands."""

import inspect
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import rpmodels as rp
from data import views
from processes import run
from registry import ESTIMATORS, made
from rpmodels.checks import Array, ByFactor, Flag, Integer, Listed, Nothing, Number, Word, shown
from rpmodels.errors import ArgumentError, BuildError, InputError
from rpmodels.estimators.arguments import Declared, argument, every_argument
from rpmodels.estimators.fingerprint import fingerprint
from rpmodels.estimators.names import flat, nested

JOBS = Path(__file__).parent / "jobs"
GROUPS = (rp.Recognition, rp.Inference, rp.Training, rp.Search, rp.Engine)
KINDS = [each.kind for each in ESTIMATORS.values()]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def refusing(steps):
    """A callback that must never be called: by then there was work."""

    def called(state):
        steps.append(state.step)

    return called


# ---- declarations -------------------------------------------------------------------------------


@every_kind
def test_no_estimator_has_more_than_twenty_arguments_or_a_constructor_of_its_own(kind):
    parameters = inspect.signature(kind).parameters
    assert len(parameters) <= 20
    assert list(parameters) == list(kind.declared)
    first, *rest = parameters.values()
    positional = kind.description.size is not None
    assert (first.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD) == positional
    # Latents and their states are two sizes: RPSLDS(2, 4).
    named = [each for each in rest if each.name != "n_states"]
    assert {each.kind for each in named} == {inspect.Parameter.KEYWORD_ONLY}
    assert "def __init__" not in inspect.getsource(kind)


@pytest.mark.parametrize("kind", [*KINDS, *GROUPS], ids=lambda kind: kind.__name__)
def test_the_documentation_names_every_argument_with_its_range_and_default(kind):
    text = " ".join(inspect.getdoc(kind).split())
    for name, each in kind.declared.items():
        assert f" {name}: " in text
        told = f"rp.{each.group.__name__}(" if each.group else f"{each.rule.expected}; default {each.default!r})"
        assert told in text
    if issubclass(kind, rp.estimators.RPMEstimator):
        assert text.index("Args:") < text.index("Attributes:")


class Base(Declared):
    """A base.

    Attributes:
        volume_: of water

    """

    litres: float = argument(Number(above=0.0), "how much it holds", default=1.0)


class Kettle(Base):
    litres = 2.0
    lid: str = argument(Word("on", "off"), "where the lid is", default="on", kw_only=False)


def test_what_a_declaration_gives():
    assert str(inspect.signature(Kettle)) == "(lid='on', *, litres=2.0)"
    assert (Kettle("off").lid, Kettle().litres, Base().litres) == ("off", 2.0, 1.0)
    assert repr(Kettle(litres=3.0)) == "Kettle(litres=3.0)"
    with pytest.raises(TypeError, match="too many positional"):
        Kettle("on", 2.0)
    lines = [line.strip() for line in Base.__doc__.splitlines() if line.strip()]
    assert lines[1:3] == ["Args:", "litres: how much it holds (a number > 0; default 1.0)"]
    assert lines[3:] == ["Attributes:", "volume_: of water"]


def test_an_unknown_argument_is_told_where_it_is():
    with pytest.raises(ArgumentError, match=r"RPFA has no argument 'tol' by itself.*training=rp.Training\(tol=…\)"):
        rp.RPFA(2, tol=1e-3)
    with pytest.raises(TypeError, match=r"inference=rp.Inference\(atoms=…\) or engine=rp.Engine\(atoms=…\)"):
        rp.RPGPFA(atoms="pooled")
    with pytest.raises(TypeError, match="expected 'max_iter'"):
        rp.RPFA(2, maxiter=3)
    with pytest.raises(TypeError, match="Training has no argument 'speed': expected one of batch_size, tol"):
        rp.Training(speed=3)


@pytest.mark.parametrize(
    ("rule", "words", "good", "bad"),
    [
        (Integer(2), "an integer ≥ 2", [2, np.int64(7)], [1, 2.0, True, "2", None, 2**70, np.nan, [2]]),
        (Integer(0, 2**64 - 1), "an integer ≥ 0 and < 2**64", [0, 2**64 - 1], [-1, 2**64]),
        (Integer(most=-1), "an integer ≤ -1", [-1], [0]),
        (Number(least=0.0, below=1.0), "a number ≥ 0 and < 1", [0, 0.5, np.float32(0.1)], [1, -0.1, np.nan, np.inf]),
        (Number(above=0.0), "a number > 0", [1e-9, 10**300], [0.0, True, "1", 1j, 10**400, np.ones(1)]),
        (Flag() | Nothing(), "True, False or None", [True, np.bool_(False), None], [0, 1, "yes"]),
        (Word("a", "b") | Integer(1), "'a', 'b' or an integer ≥ 1", ["a", 1], ["c", b"a", ["a"], np.array(["a"])]),
        (Listed(Integer(0)), "a list (each an integer ≥ 0)", [[], (1, 2), range(3), np.arange(2)], ["12", {1}, [0.5]]),
        (ByFactor(Word("a")), "a dict {factor: 'a'}", [{}, {"x": "a"}], [{"x": "b"}, [("x", "a")], "a"]),
        (Array(1), "an array of finite numbers with 1 axes", [[1, 2], np.ones(2)], [[], [[1]], [np.nan], "12", None]),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_rules(rule, words, good, bad):
    assert rule.expected == words
    assert all(rule.fits(each) for each in good)
    assert not any(rule.fits(each) for each in bad)
    rule.check("x", good[0])
    with pytest.raises(InputError, match=r"^x: expected "):
        rule.check("x", bad[0])


def test_a_wrong_value_is_shown_in_a_line():
    class Rude:
        def __repr__(self):
            raise RuntimeError

    assert shown(Rude()) == "a Rude"
    assert len(shown(np.arange(10_000))) < 100
    assert "\n" not in shown(np.eye(3))


# ---- scikit-learn -------------------------------------------------------------------------------


@every_kind
def test_two_underscores_reach_into_groups_that_were_not_given(kind):
    model = kind().set_params(training__weight_decay=0.1, engine__dtype="float64", max_iter=3)
    assert model.get_params()["training__weight_decay"] == 0.1
    assert model.get_params(deep=False)["training"].get_params() == rp.Training(weight_decay=0.1).get_params()
    assert "search__n_jobs" not in model.get_params()
    assert model.set_params(search=None, search__n_jobs=2).search.n_jobs == 2
    with pytest.raises(ValueError, match="Invalid parameter 'speed'"):
        kind().set_params(training__speed=3)
    twin = clone(model)
    assert twin.training is not model.training
    assert flat(twin) == flat(model)
    twin.set_params(training__weight_decay=0.2)
    assert model.training.weight_decay == 0.1


def test_a_grid_search_over_an_argument_in_a_group():
    x, _ = views(40, seed=0)
    table = np.concatenate(list(x.values()), 1)
    half = table.shape[1] // 2
    model = made(rp.RPFA, 1, factors={"a": slice(0, half), "b": slice(half, None)}, max_iter=2, n_init=1, retries=0)
    grid = {"training__weight_decay": [0.0, 0.5], "training__finish": ["none"], "n_latents": [1]}
    search = GridSearchCV(model, grid, cv=2).fit(table)
    assert search.best_estimator_.training.weight_decay in (0.0, 0.5)
    assert model.training is None


def test_what_is_not_given_is_as_the_estimator_has_it():
    for kind, norm, retries, batch in (
        (rp.RPCategorical, None, 0, 500), (rp.RPFA, 1.0, 3, 500), (rp.RPGPFA, 1.0, 3, "auto"),
        (rp.RPLDS, 1.0, 3, "auto"), (rp.RPHMM, None, 0, "auto"), (rp.RPLDA, 1.0, 0, "auto"),
    ):  # fmt: skip
        for model in (kind(), kind(training=rp.Training(tol=1e-3)), kind(training=rp.Training(), search=rp.Search())):
            chosen = model._chosen()
            assert (chosen.training.max_gradient_norm, chosen.search.retries) == (norm, retries)
            assert chosen.training.batch_size == batch
    given = rp.RPFA(training=rp.Training(max_gradient_norm=None, batch_size=7), search=rp.Search(retries=1))._chosen()
    assert (given.training.max_gradient_norm, given.training.batch_size, given.search.retries) == (None, 7, 1)
    assert rp.RPLDS()._chosen().inference.atoms == "pooled"
    assert rp.RPLDS()._chosen().recognition.covariance == "full"
    assert rp.RPGPFA()._chosen().recognition.covariance == "diagonal"


# ---- checked before any work --------------------------------------------------------------------


class Endless:
    """Data that must not be looked at."""

    def __getattr__(self, name):
        raise AssertionError(name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"tol": "1e-3"}, r"^training\.tol: expected a number ≥ 0 or None, got '1e-3'\.$"),
        ({"tol": float("nan")}, "training.tol: .* got nan"),
        ({"tol": -1.0}, "training.tol"),
        ({"callbacks": ["x"]}, r"training.callbacks: expected None or a list \(each something that can be called\)"),
        ({"callbacks": print}, "training.callbacks: .*built-in function print"),
        ({"callbacks": "abc"}, "training.callbacks"),
        ({"max_gradient_norm": -1}, "training.max_gradient_norm: expected 'auto', a number > 0 or None, got -1"),
        ({"max_gradient_norm": 0}, "training.max_gradient_norm"),
        ({"max_gradient_norm": float("nan")}, "training.max_gradient_norm"),
        ({"random_state": -1}, "random_state: expected None, an integer ≥ 0 and < 2"),
        ({"random_state": "x"}, "random_state"),
        ({"random_state": 1.5}, "random_state"),
        ({"random_state": 2**70}, r"random_state: expected None, an integer ≥ 0 and < 2\*\*64 .*got 11805916207174"),
        ({"device": 3}, "engine.device: expected 'auto', 'cpu' or another device of this machine, got 3"),
        ({"device": "gpu"}, "engine.device: .* got 'gpu'"),
        ({"device": "meta"}, "engine.device"),
        ({"dtype": torch.float16}, "engine.dtype: expected 'float32', 'float64', torch.float32 or torch.float64, got"),
        ({"verbose": "x"}, "verbose: expected an integer ≥ 0, True or False, got 'x'"),
        ({"workers": -1}, "engine.workers: expected an integer ≥ 0, got -1"),
        ({"optimiser": "adam"}, "training.optimiser: expected None or a function"),
        ({"targets": {"a": 0}}, "recognition.targets: expected None or a dict"),
        ({"engine": {"workers": 2}}, r"engine: expected rp.Engine\(…\) or None, got {'workers': 2}"),
        ({"training": rp.Search()}, r"training: expected rp.Training\(…\) or None, got Search\(\)"),
        ({"n_latents": 2.0}, "n_latents: expected an integer ≥ 1 and ≤ 100000, got 2.0"),
        ({"factors": {"a": 0.5}}, "factors: expected None or a dict {factor: columns or rp.Population"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_arguments_are_refused_before_the_data_are_looked_at(arguments, said):
    with pytest.raises(InputError, match=said):
        made(rp.RPFA, **arguments).fit(Endless())


@every_kind
def test_every_fit_begins_with_the_check(kind):
    with pytest.raises(InputError, match=r"training.patience: expected an integer ≥ 1, got 0"):
        kind(training=rp.Training(patience=0)).fit(Endless())


@pytest.mark.parametrize(
    ("kind", "arguments", "said"),
    [
        (
            rp.RPCategorical,
            {"covariance": "full"},
            "recognition.covariance is not for RPCategorical: its latents are",
        ),
        (rp.RPHMM, {"precision": "constant"}, "recognition.precision is not for RPHMM: its latents are states"),
        (rp.RPLDA, {"tied": True}, "recognition.tied is not for RPLDA: one network is shared by all parts"),
        (rp.RPLDS, {"covariance": "diagonal"}, "recognition.covariance is not for RPLDS: dynamics mix the latents"),
        (rp.RPFA, {"atoms": "pooled"}, "inference.atoms is not for RPFA"),
    ],
    ids=lambda each: each.__name__ if isinstance(each, type) else "",
)
def test_what_means_nothing_to_an_estimator_is_refused(kind, arguments, said):
    with pytest.raises(InputError, match=said):
        made(kind, **arguments).fit(Endless())


def test_what_an_estimator_has_anyway_may_be_said():
    assert rp.RPLDS(recognition=rp.Recognition(covariance="full"))._chosen().recognition.covariance == "full"


@pytest.mark.parametrize(
    ("name", "factory", "said"),
    [
        (
            "optimiser",
            lambda parameters: 3,
            "optimiser: expected a function that returns a torch Optimizer, got",
        ),
        ("optimiser", lambda: None, "Your optimiser could not be made"),
        ("scheduler", lambda optimiser: None, "scheduler: expected a function that returns a torch LRScheduler"),
        ("scheduler", lambda optimiser: 3, "got one of 3"),
    ],
)
def test_factories_that_give_something_else(name, factory, said):
    steps = []
    model = made(rp.RPFA, 1, max_iter=3, n_init=1, callbacks=[refusing(steps)], **{name: factory})
    with pytest.raises((InputError, BuildError), match=said):
        model.fit(views(30)[0])
    assert not steps


def test_a_precision_and_a_device_of_torch_are_as_good_as_their_names(tmp_path):
    x, _ = views(30)
    fits = [
        made(
            rp.RPFA, 1, max_iter=3, n_init=1, retries=0, random_state=0, finish="none", dtype=dtype, device=device
        ).fit(x)
        for dtype, device in (("float64", "cpu"), (torch.float64, torch.device("cpu")))
    ]
    assert fits[0].score_ == fits[1].score_
    fits[1].save(tmp_path / "model")
    assert rp.load(tmp_path / "model").engine.get_params() == fits[0].engine.get_params()


ALWAYS = (rp.RPGPFA,)
"""The others are for `make soak`."""


@pytest.mark.parametrize(
    "kind",
    [kind if kind in ALWAYS else pytest.param(kind, marks=pytest.mark.soak) for kind in KINDS],
    ids=lambda kind: kind.__name__,
)
def test_no_value_of_any_argument_ends_in_a_raw_error(kind, tmp_path):
    """In a process that has no type checker."""
    (tmp_path / "kind").write_text(kind.__name__, encoding="utf-8")
    status, printed = run((JOBS / "fuzz.py").read_text(encoding="utf-8"), tmp_path)
    assert status == 0, printed
    found = json.loads((tmp_path / "outcomes.json").read_text(encoding="utf-8"))
    assert {name.partition("=")[0] for name in found} == {*every_argument(kind), *kind.declared}
    assert {name: said for name, (what, said) in found.items() if what == "raw"} == {}
    for name, (what, said) in found.items():
        if what == "refused":
            assert said.endswith("."), name
    kinds = [what for what, _ in found.values()]
    assert min(kinds.count("fits"), kinds.count("refused")) > 50


# ---- other rooms --------------------------------------------------------------------------------


def test_full_names_and_back():
    model = rp.RPGPFA(2, kernel="matern32", training=rp.Training(tol=0.1))
    names = flat(model)
    assert list(names) == sorted(names, key=lambda name: list(names).index(name))
    assert set(names) == set(every_argument(rp.RPGPFA))
    assert (names["training.tol"], names["engine.dtype"], names["kernel"]) == (0.1, "float32", "matern32")
    assert flat(rp.RPGPFA(**nested(rp.RPGPFA, names))) == names


def test_the_fingerprint_sees_through_groups():
    observations = rp.read(views(20)[0])

    def of(**arguments):
        return fingerprint(made(rp.RPFA, 1, **arguments), observations)

    assert fingerprint(rp.RPFA(1, training=rp.Training(), search=rp.Search()), observations) == of()
    assert of(n_jobs=2, callbacks=[print], device="cpu", verbose=1) == of()
    assert of(scaling={"a": "none", "b": "robust"}) == of(scaling={"b": "robust", "a": "none"})
    assert of(tol=0.1, dropout=0.2) == of(dropout=0.2, tol=0.1)
    differing = {name for name, value in of(tol=0.1, dropout=0.2).items() if value != of()[name]}
    assert differing == {"training.tol", "recognition.dropout"}
    # A network of one's own by what it is made of, not by weights that every run of a script makes anew.
    assert of(network=torch.nn.Linear(3, 2)) == of(network=torch.nn.Linear(3, 2))
    assert of(network=torch.nn.Linear(3, 2)) != of(network=torch.nn.Linear(3, 2, bias=False))
    assert of(network=torch.nn.Linear(3, 2)) != of(network=torch.nn.Sequential(torch.nn.Linear(3, 2)))


@pytest.mark.soak
def test_type_checkers_know_the_arguments(tmp_path):
    (tmp_path / "good.py").write_text(
        "import rpmodels as rp\n"
        'model: rp.RPGPFA = rp.RPGPFA(2, kernel="rbf", training=rp.Training(tol=1e-3), engine=rp.Engine())\n'
    )
    (tmp_path / "bad.py").write_text(
        'import rpmodels as rp\nrp.RPGPFA(2, kernl="rbf")\nrp.RPFA(1, tol=1.0)\nrp.Training(toll=1.0)\nrp.RPFA("two")\n'
    )
    config = Path(__file__).parent.parent / "pyproject.toml"
    command = [sys.executable, "-m", "mypy", "--config-file", config, "--cache-dir", tmp_path / "cache"]
    good, bad = (
        subprocess.run([*command, tmp_path / name], capture_output=True, text=True, cwd=config.parent, check=False)
        for name in ("good.py", "bad.py")
    )
    assert good.returncode == 0, good.stdout
    for text in ('"kernl" for "RPGPFA"', '"tol" for "RPFA"', '"toll" for "Training"', 'incompatible type "str"'):
        assert text in bad.stdout
    assert bad.stdout.count("error:") == 4
