"""Runs the code of documentation pages, each in a process of its own that has imported the library already.

Importing takes several seconds, and there are twenty pages: so one process imports, and forks for every page.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

SERVER = """
import json, os, sys, traceback
import matplotlib, numpy, pandas, rpmodels, sklearn

for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if not child:
        status = 1
        try:
            os.chdir(job["folder"])
            for number in (1, 2):
                os.dup2(os.open(job["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            exec(compile(job["code"], "page", "exec"), {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@cache
def _server() -> Any:
    """One for every worker of the tests; it ends with its standard input."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    return subprocess.Popen(
        [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )


def run_page(code: str, folder: Path) -> tuple[int, str]:
    """Exit code, and everything that was printed."""
    server, output = _server(), folder / ".printed"
    server.stdin.write(json.dumps({"code": code, "folder": str(folder), "output": str(output)}) + "\n")
    server.stdin.flush()
    status = int(server.stdout.readline())
    return status, output.read_text(encoding="utf-8") if output.exists() else ""
