"""Do the tests notice? Bugs written into the mathematical core one at a time, and the tests that run through the line.

python benchmarks/mutants.py map                       # which test runs through which line, and how long it takes
python benchmarks/mutants.py run [--count 300] [--seed 0] [--floor 0.9] [--budget 60] [--out FILE]
python benchmarks/mutants.py by-hand [--floor 0.85] [--out FILE]

`map` is one run of `make test` under coverage, kept in build/mutants. Every mutant is a fork of a process that has
torch, pytest and the like already; it runs the quickest tests of its line until one fails, `budget` seconds of the
processor at most. One whose tests take longer, or fail without it, is not decided, and does not count. Bugs written by
hand need no map: without one they are tried on the files of tests that are named beside them.
"""

import argparse
import importlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from mutants_by_hand import NEAR, SUBTLE
from mutations import Mutant, sampled

ROOT = Path(__file__).resolve().parent.parent
SOURCE, BUILD = ROOT / "src" / "rpmodels", ROOT / "build" / "mutants"
CORE = (
    "families", "linalg", "mixtures", "priors", "inference", "generative", "linear", "recognition", "carriers.py",
    "free_energy.py", "log_weight.py", "integration.py", "temperature.py", "sampling_error.py", "channels.py",
    "learning/objective.py", "learning/batches.py", "learning/optimisers.py", "learning/moves.py", "learning/finish.py",
    "learning/climbing.py", "evaluation/bits.py", "metrics.py", "alignment.py",
)  # fmt: skip
HEAVY = ("torch", "gpytorch", "sklearn", "scipy.stats", "hypothesis", "pytest", "jaxtyping", "beartype", "matplotlib")
TESTS = 60
"""Of a line, the quickest."""
PATIENCE, UNDECIDED = 20, "unknown"
"""Times the budget that a clock on the wall may show; what is said where tests took longer, or fail anyway."""


def core() -> list[Path]:
    """Modules of the mathematical core."""
    found = [SOURCE / name for name in CORE]
    return sorted(path for each in found for path in (each.rglob("*.py") if each.is_dir() else [each]))


def mapped() -> None:
    """Run the tests once, and keep who runs through what."""
    BUILD.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "COVERAGE_FILE": str(BUILD / "coverage")}
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", "not soak", "--cov=rpmodels"]
    more = ["--cov-context=test", "--cov-report=", "--cov-fail-under=0", f"--junitxml={BUILD / 'times.xml'}"]
    subprocess.run([*command, *more], check=False, cwd=ROOT, env=environment)
    coverage: Any = importlib.import_module("coverage")
    data = coverage.CoverageData(str(BUILD / "coverage"))
    data.read()
    found = {}
    for path in core():
        lines = data.contexts_by_lineno(str(path))
        found[str(path.relative_to(ROOT))] = {
            line: sorted({each.partition("|")[0] for each in names if each}) for line, names in lines.items()
        }
    seconds: dict[str, float] = {}
    for case in ElementTree.parse(BUILD / "times.xml").iter("testcase"):
        module = case.get("classname", "").replace(".", "/")
        seconds[f"{module}.py::{case.get('name')}"] = float(case.get("time", "0"))
    (BUILD / "map.json").write_text(json.dumps({"lines": found, "seconds": seconds}), encoding="utf-8")


def watching(mutant: Mutant, known: dict[str, Any]) -> list[str]:
    """Tests that run through the line, quickest first; of a line that runs at import, those of its module."""
    if not known:
        return [f"tests/test_{name}.py" for name in NEAR[mutant.path.removeprefix("src/rpmodels/")].split()]
    lines = known["lines"].get(mutant.path, {})
    names = lines.get(str(mutant.line)) or sorted({name for each in lines.values() for name in each})
    seconds: dict[str, float] = known["seconds"]
    return sorted(names, key=lambda name: seconds.get(name, 1.0))[:TESTS]


def killed(mutant: Mutant, tests: list[str], budget: float) -> str | None:
    """By what; None where it lives."""
    if not tests:
        return None
    child = os.fork()
    if child == 0:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(budget), math.ceil(budget) + 1))
        _as_mutant(mutant, tests)
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE * budget:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return None if code == 0 else UNDECIDED if code in (-signal.SIGXCPU, -signal.SIGKILL) else "a test"
        time.sleep(0.05)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return UNDECIDED


def _as_mutant(mutant: Mutant, tests: list[str]) -> None:
    """In the fork: the changed module in the place of the file, no byte code, and pytest."""
    loaders: Any = importlib.import_module("importlib.machinery")
    pytest: Any = importlib.import_module("pytest")
    read, target = loaders.SourceFileLoader.get_data, str(ROOT / mutant.path)
    stem = f"{Path(mutant.path).stem}."

    def get_data(self: Any, path: str) -> Any:
        if path == target:
            return mutant.source.encode()
        if path.endswith(".pyc") and Path(path).name.startswith(stem):
            raise OSError
        return read(self, path)

    loaders.SourceFileLoader.get_data = get_data
    sys.dont_write_bytecode = True
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    os.chdir(ROOT)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov"]
    # What was imported before the fork cannot be rewritten, and need not be.
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = 2
    try:
        code = int(pytest.main([*options, "-o", "addopts=", "-o", "timeout=0", *tests]))
    finally:
        os._exit(code)


def by_hand() -> list[Mutant]:
    """Those that were written, each of which must be found in its module once."""
    found = []
    for name, changes in SUBTLE.items():
        path = SOURCE / name
        text = path.read_text(encoding="utf-8")
        for before, after in changes:
            if text.count(before) != 1:
                raise SystemExit(f"{name} has {text.count(before)} times, not once: {before}")
            line = text[: text.index(before)].count("\n") + 1
            changed = text.replace(before, after)
            found.append(Mutant(str(path.relative_to(ROOT)), line, "by hand", before, after, changed))
    return found


def noticed(rows: list[dict[str, Any]]) -> float:
    """Of those that are decided."""
    told = [row["by"] for row in rows if row["by"] != UNDECIDED]
    return sum(by is not None for by in told) / max(1, len(told))


def run(given: Any) -> int:
    """A line for every mutant, and the share that was noticed."""
    place = BUILD / "map.json"
    known = {} if given.what == "by-hand" and not place.exists() else json.loads(place.read_text(encoding="utf-8"))
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "src")]
    for name in HEAVY:
        importlib.import_module(name)
    rows: list[dict[str, Any]] = []
    chosen = by_hand() if given.what == "by-hand" else sampled(core(), ROOT, given.count, given.seed)
    if given.out and given.go_on and Path(given.out).exists():
        rows = json.loads(Path(given.out).read_text(encoding="utf-8"))["rows"]
    done, sound = {row["mutant"] for row in rows}, dict[tuple[str, ...], bool]()
    for mutant in (each for each in chosen if each.told not in done):
        tests = watching(mutant, known)
        # Tests that fail by themselves notice nothing.
        if tuple(tests) not in sound:
            unchanged = replace(mutant, source=(ROOT / mutant.path).read_text(encoding="utf-8"))
            sound[tuple(tests)] = killed(unchanged, tests, given.budget) is None
        by = killed(mutant, tests, given.budget) if sound[tuple(tests)] else UNDECIDED
        rows.append({"mutant": mutant.told, "tests": len(tests), "by": by})
        share = noticed(rows)
        print(f"{len(rows):4} {share:.3f} {by or 'LIVES':8} {mutant.told}", flush=True)
        if given.out:
            found = {"what": given.what, "seed": given.seed, "share": round(share, 4), "rows": rows}
            Path(given.out).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    share, left = noticed(rows), sum(row["by"] == UNDECIDED for row in rows)
    print(f"{share:.3f} of {len(rows) - left} mutants were noticed (at least {given.floor}), {left} are undecided")
    return int(share < given.floor)


def main() -> int:
    """Read the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("map", "run", "by-hand"))
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--floor", type=float, default=0.9)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--out")
    parser.add_argument("--go-on", action="store_true", help="with what is in --out already")
    given = parser.parse_args()
    if given.what == "map":
        mapped()
        return 0
    return run(given)


if __name__ == "__main__":
    sys.exit(main())
