"""What the documentation says of the code is so: messages, links, the short guide."""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

import rpmodels as rp
from browser import browser, look, needs_browser, problems
from processes import run
from rpmodels.report.citing import PAPER

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def test_troubleshooting_quotes_messages_that_exist():
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src/rpmodels/errors").glob("*.py")]
    said = re.sub(r'"\s*\n\s*f?"', "", "\n".join(texts))  # strings over several lines, joined
    quoted = re.findall(r'^## "(.+)"$', (DOCS / "troubleshooting.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(quoted) > 10
    assert [words for words in quoted if words not in said] == []


def test_files_that_pages_link_to_exist():
    missing = []
    for page in [ROOT / "README.md", ROOT / "llms.txt", *DOCS.rglob("*.md")]:
        if "_build" in page.parts:
            continue
        targets = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        local = [target for target in targets if not target.startswith(("http", "mailto"))]
        missing += [f"{page.relative_to(ROOT)} → {each}" for each in local if not (page.parent / each).exists()]
    assert missing == []


def test_the_short_guide_names_what_is_there():
    guide = (ROOT / "llms.txt").read_text(encoding="utf-8")
    for estimator, verbs in re.findall(r"^- `rp\.(\w+)\(.*?\)`: .*?\. (.*)$", guide, re.MULTILINE):
        known = set(dir(getattr(rp, estimator)))
        for verb in re.findall(r"\b([a-z]\w+)\b(?=[,(. ])", verbs.split("→")[0]):
            if verb not in ("inputs", "times", "steps", "factor", "x", "n", "at"):
                assert verb in known or f"{verb}_" in known, f"{estimator}.{verb}"
    for name in re.search(r"`rp\.evaluation\.(.*?)`", guide).group(1).split(", "):
        assert hasattr(rp.evaluation, name)


def test_the_paper_in_the_code_names_what_there_is():
    """Every `file.py::name`, and every further `name` of the same cell, is defined in that file."""
    missing, count = [], 0
    for line in (DOCS / "paper.md").read_text(encoding="utf-8").splitlines():
        for cell in line.split("|"):
            file = None
            for quoted in re.findall(r"`([^`]+)`", cell):
                full = re.fullmatch(r"([\w/]+\.py)(?:::([\w.]+))?", quoted)
                file = _file(full.group(1)) if full else file
                name = full.group(2) if full else quoted
                if file is None or name is None or not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)?", name):
                    continue
                count += 1
                if not set(name.split(".")) <= _defined(file):
                    missing.append(f"{file.relative_to(ROOT)}::{name}")
    assert count > 200
    assert missing == []


def _file(path):
    """Of the library, or of the repository."""
    inside = ROOT / "src/rpmodels" / path
    return inside if inside.exists() else ROOT / path


@cache
def _defined(file):
    """Everything that a file gives a name: classes, functions, attributes, constants."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = {each.name for each in ast.walk(tree) if isinstance(each, ast.ClassDef | ast.FunctionDef)}
    named = [each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]
    stored = (each for each in ast.walk(tree) if isinstance(each, ast.Attribute))
    held = [each.attr for each in stored if isinstance(each.ctx, ast.Store)]
    return found | set(named) | set(held)


# ---- the site ------------------------------------------------------------------------------------------


def test_the_front_page_prints_what_it_says(tmp_path):
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (said,) = re.findall(r"```\n(\d.*?)```", page, re.DOTALL)
    status, printed = run(code, tmp_path)
    assert status == 0, printed
    numbers, expected = ([float(each) for each in re.findall(r"\d+\.\d*", text)] for text in (printed, said))
    # To the second decimal: other machines round differently.
    assert numbers == pytest.approx(expected, abs=0.01)
    assert PAPER in page


def test_every_page_is_in_the_table_of_contents():
    index = (DOCS / "index.md").read_text(encoding="utf-8").splitlines()
    pages = [path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")]
    apart = re.compile(r"index|results/.*/table|_build/.*")
    assert [page for page in pages if page not in index and not apart.fullmatch(page)] == []


def test_formulas_are_drawn_where_they_stand(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    import mathtext  # noqa: PLC0415

    line = mathtext.drawn(r"a < \frac{1}{N} \sum_n f_j(z)")
    assert line.startswith('<svg class="formula" role="img" aria-label="a &lt; ')
    width, height = map(float, re.search(r'viewBox="0 0 (\d+) (\d+)"', line).groups())
    numbers = [list(map(float, pair.split())) for pair in re.findall(r"(?<=[MLQC ])-?\d+ -?\d+", line.split(' d="')[1])]
    assert min(x for x, _ in numbers) >= 0
    assert max(x for x, _ in numbers) <= width
    assert min(y for _, y in numbers) >= -1
    assert max(y for _, y in numbers) <= height + 1
    sys.modules.pop("mathtext")


@pytest.mark.soak
@needs_browser
def test_the_site_in_a_browser(tmp_path):
    """Built offline without a warning; at 400 pixels nothing is wider than the screen, nothing is missing."""
    sphinx = pytest.importorskip("sphinx.cmd.build")
    assert sphinx.main(["-W", "-q", "-b", "html", str(DOCS), str(tmp_path)]) == 0
    pages = [each for each in tmp_path.rglob("*.html") if each.name not in ("search.html", "genindex.html")]
    with browser() as driver:
        for width, scheme in ((400, "dark"), (1400, "light")):
            look(driver, width, scheme)
            for page in pages:
                driver.get(page.as_uri())
                assert driver.execute_script("return document.documentElement.scrollWidth") <= width, page
                assert driver.execute_script("return [...document.images].every((i) => i.alt !== null && i.complete)")
                assert driver.execute_script(OUTSIDE) == [], page
                assert not problems(driver), page


OUTSIDE = """
const scrolls = (node) => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
const free = (node) => { for (; node; node = node.parentElement) if (scrolls(node)) return false; return true; };
const right = (node) => node.getBoundingClientRect().right;
const wide = [...document.querySelectorAll("article *")].filter((node) => right(node) > innerWidth + 1);
return wide.filter(free).map((e) => e.tagName + " " + e.textContent.slice(0, 40));
"""
"""What is beyond the right edge of the screen, in no box that scrolls."""
