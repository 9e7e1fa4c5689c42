"""Pages of docs/howto and docs/tutorials are run as a reader would: blocks in order, in a process of their own."""

import importlib.util
import pathlib
import re

import pytest

from processes import run
from rpmodels.datasets import hippocampus

DOCS = pathlib.Path(__file__).parent.parent / "docs"
PAGES = sorted(page for folder in ("howto", "tutorials") for page in (DOCS / folder).glob("*.md"))


def what_is_not_there(page):
    """Why a page cannot run on this machine: nothing is downloaded or installed for a test."""
    if page.stem == "hippocampus" and not all(file.there() for file in (hippocampus.SPIKES, hippocampus.TRACKING)):
        return "the hippocampus data set is neither in RPMODELS_DATA nor in the cache"
    if page.stem == "textures" and importlib.util.find_spec("skimage") is None:
        return "scikit-image is not installed"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_page_runs(page, tmp_path):
    if missing := what_is_not_there(page):
        pytest.skip(missing)
    code = "\n".join(re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
    assert "import rpmodels as rp" in code
    status, printed = run(code, tmp_path)
    assert status == 0, printed
