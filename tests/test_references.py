"""The numbers of small fits, as they were before the library was built anew: structure may change, they may not."""

import json

import pytest

import references
from rpmodels import kernels

KNOWN = json.loads(references.FILE.read_text(encoding="utf-8"))
CLOSE = {"rel": 1e-6, "abs": 1e-8}


@pytest.fixture(autouse=True)
def in_torch(monkeypatch):
    """As they were computed: another order of sums is 1e-6 of a pooled fit after all its steps."""
    monkeypatch.setenv(kernels.SWITCH, "0")
    with kernels.switched(False):
        yield


def compare(found, known):
    """Names and counts to the letter, numbers but for rounding."""
    if isinstance(known, dict):
        assert found.keys() == known.keys()
        for name, each in known.items():
            compare(found[name], each)
    elif isinstance(known, list):
        assert len(found) == len(known)
        for one, other in zip(found, known, strict=True):
            compare(one, other)
    elif isinstance(known, float):
        assert found == pytest.approx(known, **CLOSE)
    else:
        assert found == known


@pytest.mark.parametrize("name", references.CASES)
def test_a_fit_gives_the_numbers_it_gave(name):
    compare(references.measured(name), KNOWN[name])


@pytest.mark.parametrize("name", ["move", "gpfa, per time"])
def test_a_resumed_fit_gives_them_too(name):
    compare(references.resumed(name), KNOWN[name])
