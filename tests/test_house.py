"""The house as its rules say: how long modules are, how much they import, and who asks for whom."""

import ast
import re
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "rpmodels"
MODULES = sorted(SOURCE.rglob("*.py"))
ABOVE = ("evaluation", "plots", "report", "commands")
"""Rooms that know descriptions and latents, and no estimator class."""


def name(path):
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_module_can_be_seen_at_once(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 300
    imports = [each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Import | ast.ImportFrom)]
    names = sum(len(each.names) for each in imports)
    assert names <= 35 or path.name == "public.py"  # a list of names


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_a_function_can_be_seen_at_once(path):
    for each in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(each, ast.FunctionDef):
            told = (ast.get_docstring(each, clean=False) or "").splitlines()
            assert each.end_lineno - each.body[0].lineno + 1 - len(told) <= 45, each.name


def test_no_estimator_class_is_asked_for_outside_its_room():
    asks = re.compile(r"isinstance\([^)]*\b(RP[A-Z]\w+|RPMEstimator|ContinuousEstimator)\b")
    outside = [path for path in MODULES if path.parent.name != "estimators"]
    assert [name(path) for path in outside if asks.search(path.read_text(encoding="utf-8"))] == []
