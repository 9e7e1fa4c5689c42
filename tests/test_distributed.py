"""Several processes train one model: the same numbers as one, the same decisions, and no job that hangs."""

import json
import re
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from rpmodels.communicator import ALONE

JOB = Path(__file__).parent / "jobs" / "together.py"
CASES = re.findall(r'^    "([a-z ]+)": \(rp', JOB.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Everything the job wrote, by name and rank."""
    folder = tmp_path_factory.mktemp("together")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = subprocess.run(
        [sys.executable, str(JOB), str(folder), str(port)], capture_output=True, text=True, timeout=300, check=False
    )
    written = {path.name: json.loads(path.read_text()) for path in folder.glob("*.[01]")}
    assert done.returncode == 0, done.stderr
    assert "alone.0" in written, done.stderr
    assert "pair.1" in written, done.stderr
    return written


@pytest.mark.parametrize("case", [case for case in CASES if case != "unseeded"])
def test_two_processes_take_the_steps_of_one(results, case):
    alone, one, other = (results[name][case] for name in ("alone.0", "pair.0", "pair.1"))
    np.testing.assert_allclose(one["free_energy"], alone["free_energy"], atol=1e-9)
    assert one == other
    # L-BFGS makes more of a last digit than a step does.
    assert one["score"] == pytest.approx(alone["score"], abs=1e-8)
    assert np.ptp(alone["free_energy"]) > 0.01  # something was learnt, so equal gradients mean something


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("unseeded", "population")])
def test_two_processes_give_the_numbers_they_gave(results, case):
    known = json.loads((Path(__file__).parent / "references.json").read_text(encoding="utf-8"))
    assert results["pair.0"][case]["score"] == pytest.approx(known["in one process"][case], rel=1e-6)


def test_without_a_seed_all_processes_draw_the_same(results):
    assert results["pair.0"]["unseeded"] == results["pair.1"]["unseeded"]


def test_a_dead_process_ends_the_others_with_a_sentence(results):
    assert "lost the others" in results["dying.0"]
    assert "checkpoint" in results["dying.0"]
    assert "dying.1" not in results


def test_one_process_goes_on_where_two_were(results):
    alone, resumed = results["alone.0"]["discrete"], results["resumed.0"]
    assert resumed["n"] == alone["n"]
    np.testing.assert_allclose(resumed["free_energy"], alone["free_energy"], atol=1e-9)


def test_what_the_first_process_refuses_all_refuse(results):
    assert results["refused.0"] == results["refused.1"]
    assert "holds another fit" in results["refused.0"]


def test_a_reason_to_stop_is_everybodys(results):
    one, other = results["stopping.0"], results["stopping.1"]
    assert one["n"] == other["n"] == 3
    assert other["reason"] == "enough"
    assert "another process" in one["reason"]


def test_shares_are_all_of_a_batch():
    index = np.arange(7)
    assert ALONE.share(index) is not None
    np.testing.assert_array_equal(ALONE.share(index), index)


def test_processes_are_met_in_one_place():
    source = Path(__file__).parent.parent / "src" / "rpmodels"
    using = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(r"^\s*(import torch\.distributed|from torch\.distributed)", path.read_text(), re.MULTILINE)
    }
    assert using == {"learning/distributed.py"}
