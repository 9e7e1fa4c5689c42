"""The first hour with spikes: lists, a table and a file to latents and decoded behaviour, in few lines."""

import pathlib
import re
import shlex

import pytest

import rpmodels as rp
from command_line import command
from processes import run

pytest.importorskip("pynwb")
PAGE = (pathlib.Path(__file__).parent.parent / "docs" / "howto" / "spikes.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROUTES = {"lists": "rp.adapters.binned(units", "table": "rp.adapters.binned(table", "nwb": "rp.adapters.binned(session"}
CHECKED = """
from rpmodels.report import model_page
import pathlib
pathlib.Path("hour.html").write_text(model_page(model, new, "an hour"), encoding="utf-8")
averaged = rp.evaluation.decode(latents, there, times=rp.adapters.merged(first, bins.best).times, at=since)
assert averaged.mean > 0.7, averaged  # lists
assert rp.load("session.rpm").n_latents == choice.best
assert decoder.score(model.transform(new), where[30:]) > 0.7  # NWB, trials that nobody has seen
"""


@pytest.fixture(scope="module")
def hour(tmp_path_factory):
    """The page as a reader would run it."""
    folder = tmp_path_factory.mktemp("hour")
    code = "\n".join(BLOCKS).replace("print(spikes)\n", "first = spikes\nprint(spikes)\n", 1)
    status, printed = run(code + CHECKED, folder)
    assert status == 0, printed
    return folder, printed


@pytest.mark.parametrize("start", ROUTES.values(), ids=ROUTES.keys())
def test_every_way_is_short(start):
    (block,) = [each for each in BLOCKS if start in each]
    lines = [line for line in block.splitlines() if line.strip()]
    assert len(lines) <= 15
    assert "fit(" in block
    assert "decode(" in block or "Decoder(" in block or "compare_baselines(" in block


def test_lists_and_files_become_latents_and_behaviour(hour):
    folder, printed = hour
    assert "behaviour averaged within bins" in printed
    assert "R² on new trials" in printed
    assert "<img" in (folder / "hour.html").read_text(encoding="utf-8")


def test_a_table_needs_four_commands(hour, monkeypatch):
    folder, _ = hour
    monkeypatch.chdir(folder)
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    lines = [line for line in block.splitlines() if line.strip()]
    assert len(lines) <= 4
    quick = ["--set", "max_iter=60", "--set", "n_init=1", "--set", "verbose=0"]
    told = {}
    for line in lines:
        _, name, *words = shlex.split(line)
        result = command(name, *words, *(quick if name == "fit" else ()))
        assert result.exit_code == 0, (result.output, result.exception)
        told[name] = result.output
    assert float(re.search(r"held-out R² ([\d.]+)", told["decode"])[1]) > 0.7
    assert "averaged within bins" in told["decode"]
    assert (folder / "spikes-fit" / "report.html").stat().st_size > 10_000
    latents = rp.load(folder / "spikes-fit" / "model.rpm")
    assert latents.n_latents == 1
