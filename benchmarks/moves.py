"""Do restarts, the k-means start and the split-and-merge move pay? Digit pairs, accuracy on test images.

.venv/bin/python benchmarks/moves.py 20        # seeds 1000 … 1019; writes docs/results/moves.json
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import rpmodels as rp
from rpmodels.learning import AsGiven, KMeans, Move, RandomStart, Start, StatesStart
from rpmodels.learning.parallel import parallel_map

OUT = Path(__file__).parent.parent / "docs" / "results" / "moves.json"


class Variant(rp.RPCategorical):
    """RPCategorical with chosen starts, with or without the move."""

    kinds: tuple[Start, ...] = ()
    moves = True

    def _starts(self) -> Sequence[Start]:
        return self.kinds

    def _move(self) -> Move | None:
        return super()._move() if self.moves else None


VARIANTS = {
    "1 random start": ((AsGiven(),), False),
    "1 random start + move": ((AsGiven(),), True),
    "1 k-means start": ((StatesStart(KMeans()),), False),
    "1 k-means start + move": ((StatesStart(KMeans()),), True),
    "8 random starts": ((AsGiven(), *[RandomStart()] * 7), False),
    "default: 3 random, 1 k-means + move": ((AsGiven(), *[RandomStart()] * 2, StatesStart(KMeans())), True),
}


def accuracy(seed: int, kinds: tuple[Start, ...], moves: bool) -> float:
    digits = rp.datasets.load_digit_images(seed)
    pairs, _ = rp.datasets.make_pairs(digits.train_images, digits.train_labels, random_state=seed)
    model = Variant(10, recognition=rp.Recognition(tied=True), random_state=seed)
    model.kinds, model.moves = kinds, moves
    model.fit(pairs)
    train, test = (model.recognise(x, "x1").argmax(1) for x in (digits.train_images, digits.test_images))
    matching = rp.metrics.match_states(digits.train_labels, train, 10)
    return float((matching[test] == digits.test_labels).mean())


def main() -> None:
    seeds = range(1000, 1000 + int(sys.argv[1]))
    result = {}
    for name, (kinds, moves) in VARIANTS.items():
        started = time.perf_counter()
        found = list(parallel_map(accuracy, seeds, 2, kinds, moves))
        result[name] = {
            "accuracy": [round(a, 4) for a in found],
            "median": float(np.median(found)),
            "worst": min(found),
            "below_0.95": sum(a < 0.95 for a in found),
            "seconds_per_fit": 2 * (time.perf_counter() - started) / len(found),
        }
        print(name, {key: value for key, value in result[name].items() if key != "accuracy"}, flush=True)
    OUT.write_text(json.dumps({"seeds": list(seeds), "variants": result}, indent=1) + "\n")


if __name__ == "__main__":
    main()
