"""Whatever is handed in, and whatever stands in a file: a number, or a sentence.

The campaigns are programs of their own (tests/jobs): annotations are not checked there, as they are not for users.
RPMODELS_CALLS and RPMODELS_FILES say how many calls and files `make soak` tries.
"""

import json
import os
from pathlib import Path

import pytest

from processes import run

TESTS = Path(__file__).parent
CALLS, FILES = int(os.environ.get("RPMODELS_CALLS", "100000")), int(os.environ.get("RPMODELS_FILES", "2000"))
PART = 10_000
"""Calls of one process."""


def outcomes(job, folder, count, seed):
    status, printed = run((TESTS / "jobs" / job).read_text(encoding="utf-8"), folder, count, seed, TESTS)
    assert status == 0, printed
    return json.loads((folder / "outcomes.json").read_text(encoding="utf-8"))


def calls(folder, count, seed):
    found = outcomes("calls.py", folder, count, seed)
    assert found["wrong"] == {}
    assert sum(found["counts"].values()) == count
    return found["counts"]


def files(folder, count, seed):
    found = outcomes("hostile.py", folder, count, seed)
    assert found["wrong"] == {}
    assert sum(found["counts"].values()) == count
    return found["counts"]


def test_no_call_ends_in_a_raw_error_or_in_nan(tmp_path):
    counts = calls(tmp_path, 600, seed=0)
    assert min(counts.values()) > 60


def test_no_hostile_file_is_opened_in_silence(tmp_path):
    counts = files(tmp_path, 60, seed=0)
    assert {name for name in counts if name.startswith("damaged")} == {"damaged: refused"}
    assert counts["foreign: refused"] > 5


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1, 1 + max(1, CALLS // PART)))
def test_no_call_of_many_ends_in_a_raw_error_or_in_nan(seed, tmp_path):
    calls(tmp_path, min(CALLS, PART), seed)


@pytest.mark.soak
def test_no_hostile_file_of_many_is_opened_in_silence(tmp_path):
    files(tmp_path, FILES, seed=1)
