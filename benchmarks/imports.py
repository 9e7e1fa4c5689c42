"""What importing the library costs beside what it stands on, in fresh processes that take turns.

    python benchmarks/imports.py [rounds]

Prints medians, in seconds on the clock and of the processor, and ratios of the latter to `import torch` (the bar is 1.5
for `import rpmodels`, which hands everything out when it is asked for). The first estimator pays for scikit-learn and
GPyTorch: the row before it is what they cost by themselves.
"""

import os
import resource
import subprocess
import sys
import time

import numpy as np

PROGRAMS = {
    "python": "pass",
    "torch": "import torch",
    "rpmodels": "import rpmodels",
    "rpmodels.datasets": "import rpmodels; rpmodels.datasets.plain_ball",
    "torch, sklearn.base, gpytorch": "import torch, sklearn.base, gpytorch",
    "rpmodels.RPCategorical": "import rpmodels; rpmodels.RPCategorical",
    "rpmodels.RPGPFA": "import rpmodels; rpmodels.RPGPFA",
}


def seconds(program: str) -> tuple[float, float]:
    """On the clock, and of the processor (less shaken by what else runs)."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    elapsed, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return elapsed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(rounds: int) -> None:
    for program in PROGRAMS.values():  # files into memory, bytecode written
        seconds(program)
    taken = np.array([[seconds(program) for program in PROGRAMS.values()] for _ in range(rounds)])
    clock, processor = np.moveaxis(np.median(taken, 0), -1, 0)
    torch = processor[list(PROGRAMS).index("torch")]
    print(f"{'import':>30} {'clock':>7} {'processor':>10} {'/ torch':>8}")
    for name, on_clock, of_processor in zip(PROGRAMS, clock, processor, strict=True):
        print(f"{name:>30} {on_clock:7.2f} {of_processor:10.2f} {of_processor / torch:8.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 7)
