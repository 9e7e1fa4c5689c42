"""Python programs, each in a process of its own that has imported the library already.

Importing takes several seconds, and there are forty programs: so one process imports, and forks for each of them.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

SERVER = """
import json, os, sys, traceback
import matplotlib.pyplot, numpy, pandas, rpmodels, sklearn, torch

torch.set_num_threads(1)
for name in rpmodels.__all__:
    getattr(rpmodels, name)  # what the library imports when it is asked for
torch.optim.AdamW([torch.zeros(1)], fused=True)  # imports torch._dynamo, which takes as long as everything else
for line in sys.stdin:
    job = json.loads(line)
    if "wait" in job:
        print(os.waitstatus_to_exitcode(os.waitpid(job["wait"], 0)[1]), flush=True)
        continue
    child = os.fork()
    if not child:
        status = 1
        try:
            os.chdir(job["folder"])
            sys.argv = job["words"]
            for number in (1, 2):
                os.dup2(os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            exec(compile(job["code"], "program", "exec"), {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(child, flush=True)
"""


@cache
def _server() -> Any:
    """One for every worker of the tests; it ends with its standard input."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    return subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def _asked(**job: Any) -> int:
    server = _server()
    server.stdin.write(json.dumps(job) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


@dataclass(frozen=True)
class Program:
    """One that runs."""

    pid: int
    output: Path

    def printed(self) -> str:
        """All that it has printed so far, errors as well."""
        return self.output.read_text(encoding="utf-8") if self.output.exists() else ""

    def wait(self) -> int:
        """Its exit code, negative for a signal."""
        return _asked(wait=self.pid)


def start(code: str, folder: Path, *words: Any) -> Program:
    """The program begun in a folder, with these words in sys.argv."""
    output = folder / f".printed-{len(list(folder.glob('.printed-*')))}"
    output.touch()
    return Program(_asked(code=code, folder=str(folder), output=str(output), words=["-c", *map(str, words)]), output)


def run(code: str, folder: Path, *words: Any) -> tuple[int, str]:
    """Exit code, and everything that was printed."""
    program = start(code, folder, *words)
    return program.wait(), program.printed()
