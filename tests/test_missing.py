"""What is skipped is said, and where everything was promised to be there it is a failure."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
CASES = """
import pytest
from missing import DOES_NOT_APPLY

def test_there():
    pass

def test_lacks_data():
    pytest.skip("no recordings here")

def test_lacks_a_package():
    pytest.importorskip("a_package_that_nobody_has")

@pytest.mark.skipif(True, reason="no browser")
def test_lacks_a_browser():
    pass

def test_does_not_apply():
    pytest.skip(f"{DOES_NOT_APPLY}: two latents")

@pytest.mark.xfail(reason="known")
def test_known():
    raise AssertionError
"""


@pytest.mark.parametrize(("required", "failed", "skipped"), [("1", True, 1), ("0", False, 4), ("", False, 4)])
def test_what_is_missing_fails_where_it_was_promised(required, failed, skipped, tmp_path):
    (tmp_path / "test_cases.py").write_text(CASES)
    hooks = f'import sys\nsys.path.insert(0, r"{HERE}")\n'
    hooks += "import pytest\nfrom missing import as_failure\n\n"
    hooks += "@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport():\n"
    hooks += "    outcome = yield\n    as_failure(outcome.get_result())\n"
    (tmp_path / "conftest.py").write_text(hooks)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    environment = {**os.environ, "RPMODELS_REQUIRE": required}
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=tmp_path)
    told = found.stdout.splitlines()[-1]
    assert f"{skipped} skipped" in told
    # What is skipped before it begins is an error there, and not a failure.
    assert ("2 failed" in told and "1 error" in told) == failed
    assert found.returncode == failed
    assert "1 xfailed" in told


def test_the_suite_has_these_hooks():
    text = (HERE / "conftest.py").read_text(encoding="utf-8")
    assert text.count("as_failure(outcome.get_result())") == 2
