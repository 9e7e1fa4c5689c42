"""What stands around the library: workflows, containers and papers say what is so."""

import ast
import json
import re
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RUNNERS = {"ubuntu-latest", "macos-latest", "windows-latest"}


def read(path):
    """A workflow; what YAML takes for a truth value is the word `on`."""
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {"on" if key is True else key: value for key, value in found.items()}


def jobs():
    return [(f"{path.stem}: {name}", job) for path in WORKFLOWS for name, job in read(path)["jobs"].items()]


def test_workflows_are_those_that_are_promised():
    assert [path.stem for path in WORKFLOWS] == ["docs", "nightly", "tests", "wheel"]
    assert all(read(path)["on"] and read(path)["permissions"] == {"contents": "read"} for path in WORKFLOWS)
    matrix = dict(jobs())["tests: platforms"]["strategy"]["matrix"]
    assert set(matrix["os"]) == RUNNERS
    assert matrix["python"] == ["3.11", "3.12", "3.13"]
    assert "schedule" in read(ROOT / ".github/workflows/nightly.yml")["on"]


@pytest.mark.parametrize(("name", "job"), jobs(), ids=[name for name, _ in jobs()])
def test_a_job_names_what_there_is(name, job):
    matrix = job.get("strategy", {}).get("matrix", {})
    runners = matrix["os"] if "matrix.os" in job["runs-on"] else [job["runs-on"]]
    assert set(runners) <= RUNNERS
    assert 0 < job["timeout-minutes"] <= 360
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for step in job["steps"]:
        assert len({"uses", "run"} & set(step)) == 1
        assert re.fullmatch(r"actions/[\w-]+@v\d+", step.get("uses", "actions/none@v1"))
        words = step.get("run", "")
        assert set(re.findall(r"\bmake ([\w-]+)", words)) <= targets
        for extras in re.findall(r"\.\[([\w,]+)\]", words):
            assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
        assert all((ROOT / file).exists() for file in re.findall(r"tests/\w+\.py", words))
        for variable in re.findall(r"\$\{\{ matrix\.(\w+) \}\}", json.dumps(step)):
            assert variable in matrix
    known = read(ROOT / f".github/workflows/{name.split(':')[0]}.yml")["jobs"]
    assert job.get("needs", name.split(": ")[1]) in known


def test_no_file_of_the_release_names_a_host():
    files = [*WORKFLOWS, *ROOT.glob("*ockerfile"), *(ROOT / ".devcontainer").iterdir(), ROOT / "CITATION.cff"]
    files += [ROOT / "SECURITY.md", ROOT / "CODE_OF_CONDUCT.md"]
    assert [path.name for path in files if "://" in path.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("path", ["Dockerfile", ".devcontainer/Dockerfile"])
def test_a_container_is_made_of_what_is_here(path):
    text = (ROOT / path).read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert lines[0] == ["FROM", "python:3.11-slim"]
    assert {word for word, _ in lines} <= {"FROM", "ENV", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT", "CMD"}
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for sources in (rest.split()[:-1] for word, rest in lines if word == "COPY"):
        assert all((ROOT / each).exists() and each not in left_out for each in sources)
    for extras in re.findall(r"\.\[([\w,]+)\]", text):
        assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    for word, rest in lines:
        if word in ("ENTRYPOINT", "CMD"):
            assert isinstance(ast.literal_eval(rest), list)


def test_the_devcontainer_is_built_from_its_file():
    found = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert (ROOT / ".devcontainer" / found["build"]["dockerfile"]).exists()


def test_classifiers_are_known_and_tried():
    known = pytest.importorskip("trove_classifiers").classifiers
    assert set(PROJECT["classifiers"]) <= known
    matrix = dict(jobs())["tests: platforms"]["strategy"]["matrix"]["python"]
    named = [each.rsplit(" ", 1)[1] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert set(named) <= set(matrix)
    assert PROJECT["requires-python"] == f">={min(named, key=lambda each: int(each[2:]))}"
