"""Shapes are checked at run time in every test: the hook must come before the first import of rpmodels."""

import os
from typing import Any

import jaxtyping
import matplotlib as mpl

import typechecker
from missing import as_failure

mpl.use("Agg")
os.environ.setdefault("OMP_NUM_THREADS", "1")
jaxtyping.jaxtyped = typechecker.outside_functions(jaxtyping.jaxtyped)
jaxtyping.install_import_hook("rpmodels", "typechecker.checked")

import pytest  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


def pytest_configure(config: pytest.Config) -> None:
    # Not in pyproject.toml: naming the class there would import the library before the hook.
    config.addinivalue_line("filterwarnings", "ignore::rpmodels.errors.RPModelsWarning")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    typechecker.counted.clear()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Any:
    outcome = yield
    as_failure(outcome.get_result())


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report() -> Any:
    outcome = yield
    as_failure(outcome.get_result())


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
