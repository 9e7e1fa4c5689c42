"""Importing the library is cheap, since everything is handed out when it is asked for, and all of it is there."""

import ast
import importlib
import inspect
import pickle
import subprocess
import sys
import types

import pytest

import rpmodels as rp
from rpmodels import public

HEAVY = ["torch", "gpytorch", "sklearn", "matplotlib", "scipy", "joblib", "pandas"]


def imported_by(program: str) -> list[str]:
    """Which heavy packages, and which of the paper's modules, a fresh process has imported after the program."""
    told = f"import sys\nprint([each for each in sys.modules if each in {HEAVY} or each.startswith('rpmodels.paper')])"
    command = [sys.executable, "-c", f"{program}\n{told}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return ast.literal_eval(done.stdout)


def found_in(module: str, name: str) -> object:
    return getattr(importlib.import_module(module), name)


def test_importing_the_library_imports_nothing_heavy():
    assert imported_by("import rpmodels; rpmodels.__version__, dir(rpmodels)") == []


@pytest.mark.parametrize("program", ["import rpmodels.errors", "from rpmodels import RPModelsError"])
def test_catching_failures_imports_nothing_heavy(program):
    assert imported_by(program) == []


def test_data_sets_need_neither_torch_nor_scikit_learn():
    assert not {"torch", "sklearn"} & set(imported_by("import rpmodels as rp; rp.datasets.plain_ball"))


def test_the_paper_is_imported_when_asked_for():
    rooms = "import rpmodels.baselines, rpmodels.datasets.catalogue, rpmodels.evaluation, rpmodels.plots"
    assert [each for each in imported_by(rooms) if each.startswith("rpmodels")] == []
    assert "rpmodels.paper.baselines" in imported_by("import rpmodels as rp; rp.baselines.DeepCCA")


@pytest.mark.parametrize("package", [rp, rp.baselines, rp.datasets], ids=lambda each: each.__name__)
def test_every_name_resolves_and_is_listed(package):
    assert set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        found = getattr(package, name)
        assert vars(package)[name] is found  # from now on an ordinary attribute
        assert getattr(found, "__name__", name).rpartition(".")[-1] == name


@pytest.mark.parametrize("package", ["rpmodels", "rpmodels.baselines", "rpmodels.datasets", "rpmodels.errors"])
def test_type_checkers_read_what_is_handed_out(package):
    source = public if package == "rpmodels" else importlib.import_module(package)
    tree = ast.parse(inspect.getsource(source))
    blocks = [each.body for each in tree.body if isinstance(each, ast.If)] or [tree.body]
    read = [each for block in blocks for each in block if isinstance(each, ast.ImportFrom)]
    assert read
    for statement in read:
        for name in (alias.name for alias in statement.names):
            inside = statement.module == package
            expected = importlib.import_module(f"{package}.{name}") if inside else found_in(statement.module, name)
            assert found_in(package, name) is expected


def test_type_checkers_read_every_name():
    here = {"__version__", "show_versions"}
    tree = ast.parse(inspect.getsource(public))
    read = {alias.name for each in ast.walk(tree) if isinstance(each, ast.ImportFrom) for alias in each.names}
    assert set(rp.__all__) - here == read == set(public.__all__)


def test_every_room_is_an_attribute_whatever_came_before():
    program = "import rpmodels as rp\nfor name in ('errors', 'learning', 'observations', 'seeding'): getattr(rp, name)"
    imported_by(program)
    for room in rp._ROOMS:
        assert isinstance(getattr(rp, room), types.ModuleType)


def test_unknown_names_are_refused():
    for package in (rp, rp.baselines, rp.datasets):
        with pytest.raises(AttributeError, match=rf"module '{package.__name__}' has no attribute 'RPGFPA'"):
            package.RPGFPA  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'RPGFPA'"):
        exec("from rpmodels import RPGFPA")


def test_pickles_open_in_a_process_that_imported_nothing(tmp_path):
    path = tmp_path / "estimators.pickle"
    path.write_bytes(pickle.dumps([rp.RPGPFA(3), rp.baselines.GumbelVAE(4), rp.datasets.arena]))
    program = f"import pickle; print([repr(each) for each in pickle.load(open({str(path)!r}, 'rb'))][:2])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True)
    assert ast.literal_eval(done.stdout) == ["RPGPFA(n_latents=3)", "GumbelVAE(n_states=4)"]
