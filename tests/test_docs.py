"""What the documentation says of the code is so: messages, links, the short guide."""

import ast
import re
from functools import cache
from pathlib import Path

import rpmodels as rp

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
