"""The built wheel in an empty environment, outside the repository (make soak)."""

import os
import pathlib
import subprocess
import sys

import pytest

from test_readme import blocks

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.soak
def test_the_wheel_runs_the_quickstart_and_the_quick_preset(tmp_path):
    def run(*words, **options):
        options = {"capture_output": True, "text": True, "cwd": tmp_path, "timeout": 900, "check": False, **options}
        done = subprocess.run([str(word) for word in words], **options)  # noqa: PLW1510
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path / "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    run(sys.executable, "-m", "venv", tmp_path / "empty")
    binaries = tmp_path / "empty" / "bin"
    run(binaries / "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "RPMODELS_DATA")}
    assert "accuracy" in run(binaries / "python", "-c", blocks(), env=clean)
    out = run(binaries / "rpmodels", "run", "peer-supervision", "--preset", "quick", env=clean)
    assert "| RPM |" in out
    assert (tmp_path / "results" / "peer-supervision-quick" / "metrics.json").exists()
