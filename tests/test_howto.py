"""Every page of docs/howto is run as a reader would: its blocks in order, in one fresh interpreter."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

DOCS = pathlib.Path(__file__).parent.parent / "docs"
PAGES = sorted((DOCS / "howto").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs(page, tmp_path):
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    assert "import rpmodels as rp" in code
    command, environment = [sys.executable, "-c", code], {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    assert [page.stem for page in PAGES if f"howto/{page.stem}" not in index] == []
