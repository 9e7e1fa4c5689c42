"""What the handling of absence costs when nothing is absent: steps of a default RP-GPFA with it and without.

    python benchmarks/presence.py [rounds]

Rounds of twenty steps alternate in one process; prints the median ratio of their CPU times (the bar is 1.1).
"""

import sys
import time
from typing import Any

import numpy as np
import torch

from gpfa import BASE, started
from rpmodels.carriers import Factor, Sites
from rpmodels.mixtures import AtomMixture, atoms
from rpmodels.recognition import RecognitionFactor
from rpmodels.recognition.networks import rows_of


def dense(self: RecognitionFactor, inputs: torch.Tensor, present: torch.Tensor, like: torch.Tensor) -> Factor:
    raw = self._raw(rows_of(inputs), like.dtype).reshape(*present.shape, -1)
    return Factor(self.head(self.family, raw), present, self.targets)


WITHOUT: list[tuple[Any, str, Any]] = [
    (RecognitionFactor, "forward", dense),
    (Factor, "known", lambda self: self.g),
    (Factor, "masked", lambda _, values: values),
    (Factor, "complete", property(lambda _: True)),
    (Sites, "complete", property(lambda _: True)),
    (atoms, "_log_count", lambda factor, weights: weights.log()[:, None].expand(factor.present.shape)),
    (AtomMixture, "_some_empty", property(lambda _: False)),
]
WITH = [(owner, name, vars(owner)[name]) for owner, name, _ in WITHOUT]


def main(rounds: int) -> None:
    torch.set_num_threads(1)
    runs = [(started(**BASE), WITH), (started(**BASE), WITHOUT)]
    seconds = np.zeros((rounds, 2))
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            (run, observations), parts = runs[which]
            for owner, name, part in parts:
                setattr(owner, name, part)
            begun = time.process_time()
            run.advance(observations, run.step + 20)
            seconds[number, which] = time.process_time() - begun
    ratios = seconds[1:, 0] / seconds[1:, 1]  # the first round warms up
    low, high = np.percentile(ratios, [25, 75])
    print(f"with/without presence: median {np.median(ratios):.3f}, quartiles {low:.3f} to {high:.3f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 50)
