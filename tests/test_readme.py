"""Every Python block of the README, in one process of their own, as a reader would run them."""

import pathlib
import re
import subprocess

from processes import run

README = pathlib.Path(__file__).parent.parent / "README.md"


def blocks() -> str:
    return "\n".join(re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL))


def test_the_readme_runs(tmp_path):
    code = blocks()
    assert code.count("import rpmodels") == 1
    status, printed = run(code, tmp_path)
    assert status == 0, printed
    assert "nats above independence per observation" in printed
    accuracy = float(re.search(r"accuracy ([\d.]+)", printed).group(1))
    assert accuracy >= 0.85


def test_ci_runs_exactly_the_readme_command():
    text = README.read_text()
    script = (README.parent / ".ci" / "run").read_text()
    assert "make test" in text
    assert "make test" in script.splitlines()
    # What comes before is the system's: nothing that `make test` would not find on a user's machine.
    assert not {"pip", "pytest", "python"} & set(re.findall(r"\w+", script))


def test_what_the_readme_links_to_is_in_the_repository():
    """Linked files exist and git does not ignore them: an ignored one is missing from every clone."""
    linked = [README.parent / target for target in re.findall(r"\]\(([^)#:]+)\)", README.read_text())]
    assert len(linked) > 5
    assert [path for path in linked if not path.exists()] == []
    ignored = subprocess.run(["git", "check-ignore", *map(str, linked)], cwd=README.parent,
                             capture_output=True, text=True, check=False)  # fmt: skip
    assert ignored.stdout == ""
