"""One mixture per time, or pooled over time? Recovery of the plain ball as trials become many.

    python benchmarks/atoms.py [SEEDS]        # writes docs/results/atoms.json

Seeds from 1000 on: the rule of `atoms="auto"` was chosen by this table.
"""

import sys
import warnings
from pathlib import Path

import numpy as np

import rpmodels as rp
from rpmodels.learning.parallel import parallel_map
from rpmodels.persistence import write_json

OUT = Path(__file__).parent.parent / "docs" / "results" / "atoms.json"
TRIALS = (5, 10, 20, 40)
N_TIMES = 30
N_NEW = 20


def one(task: tuple[int, str, int]) -> float:
    """Held-out nMSE of one fit, one start."""
    n, atoms, seed = task
    warnings.simplefilter("ignore")
    data = rp.datasets.plain_ball(n_trials=n + N_NEW, n_times=N_TIMES, random_state=seed)
    model = rp.RPGPFA(inference=rp.Inference(atoms=atoms), n_init=1, random_state=seed).fit(data.x[:n])
    return rp.metrics.nmse(model.transform(data.x[n:]), data.z[n:], model.transform(data.x[:n]), data.z[:n])


def main() -> None:
    seeds = range(1000, 1000 + (int(sys.argv[1]) if len(sys.argv) > 1 else 3))
    tasks = [(n, atoms, seed) for n in TRIALS for atoms in ("per_time", "pooled") for seed in seeds]
    found = dict(zip(tasks, parallel_map(one, tasks, 1), strict=True))
    rows = []
    for n in TRIALS:
        for atoms in ("per_time", "pooled"):
            values = [found[n, atoms, seed] for seed in seeds]
            rows.append({"n_trials": n, "atoms": atoms, "nmse_heldout": values, "median": float(np.median(values))})
            print(rows[-1], flush=True)
    write_json(OUT, {"seeds": list(seeds), "n_times": N_TIMES, "rows": rows})


if __name__ == "__main__":
    main()
