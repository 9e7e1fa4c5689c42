"""What the documentation says of the code is so: messages, links, the short guide."""

import re
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
