"""States and latents of a car on a track (`rp.datasets.nascar`), seen in several ways: RPSLDS beside RPLDS and RPHMM.

python benchmarks/switching.py --seen linear network counts --seeds 0 1 2 [--out docs/results/switching.json]

Half of the trials are for training. Accuracy and R² (of the true places, by a linear map of the latents) are those of
the other half, as are the scores.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import rpmodels as rp
from rpmodels.alignment import equal_states, explained

TRIALS, TIMES = 20, 200
ACCURACY, RECOVERY = 0.95, 0.95


def row(seen: str, seed: int, max_iter: int, network: str) -> dict[str, Any]:
    """One world, three models."""
    data = rp.datasets.nascar(2 * TRIALS, TIMES, seen=seen, random_state=seed)
    train, test = data.x[:TRIALS], data.x[TRIALS:]
    options: dict[str, Any] = {"max_iter": max_iter, "n_init": 2, "random_state": seed, "network": network}
    begun = time.perf_counter()
    switching = rp.RPSLDS(2, 4, search=rp.Search(moves=0), **options).fit(train)
    seconds = time.perf_counter() - begun
    found = switching.latents(test)
    linear, states = rp.RPLDS(2, **options).fit(train), rp.RPHMM(4, **options).fit(train)
    return {
        "seen": seen,
        "seed": seed,
        "network": network,
        "max_iter": max_iter,
        "accuracy": equal_states(found.states, data.states[TRIALS:], 4),
        "r2": explained(found.values, data.z[TRIALS:]),
        "score": float(switching.score(test)),
        "seconds": seconds,
        "score_lds": float(linear.score(test)),
        "r2_lds": explained(linear.latents(test).values, data.z[TRIALS:]),
        "score_hmm": float(states.score(test)),
        "accuracy_hmm": equal_states(states.latents(test).states, data.states[TRIALS:], 4),
    }


def main() -> None:
    """Every row is written as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seen", nargs="+", default=["linear", "network", "counts"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--max-iter", type=int, default=300)
    parser.add_argument("--network", default="linear")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    rows = []
    for seed in asked.seeds:
        for seen in asked.seen:
            rows.append(row(seen, seed, asked.max_iter, asked.network))
            print({name: round(each, 4) if isinstance(each, float) else each for name, each in rows[-1].items()})
            if asked.out is not None:
                asked.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    met = sum(each["accuracy"] >= ACCURACY and each["r2"] >= RECOVERY for each in rows)
    print(f"accuracy and R² both reached: {met} of {len(rows)}")


if __name__ == "__main__":
    main()
