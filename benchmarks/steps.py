"""A whole training step against the bare network: forward, backward and optimiser over the same rows, and nothing else.

    python benchmarks/steps.py [ball rpfa …] [--rounds 15]

One thread, both by turns in one process, processor time, medians of rounds. Writes docs/results/bench-steps.json.
`RPMODELS_KERNELS=0 python benchmarks/steps.py --out without` measures the same without compiled kernels.
"""

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rpmodels as rp
from rpmodels.estimators import RPMEstimator
from rpmodels.learning import Run
from rpmodels.learning.batches import Divided
from rpmodels.learning.optimisers import adamw
from rpmodels.persistence import write_json
from rpmodels.versions import versions

OUT = Path(__file__).parent.parent / "docs" / "results"
STEPS = 10
"""In a round."""
Case = Callable[[], tuple[RPMEstimator, rp.Observations]]


def ball() -> tuple[RPMEstimator, rp.Observations]:
    """50 trials × 50 times × 100 pixels, one latent."""
    return rp.RPGPFA(1, random_state=0), rp.read({"x": rp.datasets.textured_ball(random_state=0).x}, series=True)


def rpfa() -> tuple[RPMEstimator, rp.Observations]:
    """500 rows a step, two factors of 20 numbers, two latents."""
    random = np.random.default_rng(0)
    z = random.normal(size=(5000, 2))
    data = {name: z @ random.normal(size=(2, 20)) + random.normal(size=(5000, 20)) for name in ("a", "b")}
    return rp.RPFA(2, random_state=0), rp.read(data)


def trials(n: int, t: int, channels: int, k: int) -> np.ndarray[Any, Any]:
    """Channels that mix slow latents, with noise."""
    random = np.random.default_rng(0)
    z = np.zeros((n, t, k))
    for i in range(1, t):
        z[:, i] = 0.95 * z[:, i - 1] + 0.3 * random.normal(size=(n, k))
    return np.asarray(z @ random.normal(size=(k, channels)) + random.normal(size=(n, t, channels)))


def rphmm() -> tuple[RPMEstimator, rp.Observations]:
    """50 trials × 50 times × 20 channels, five states."""
    return rp.RPHMM(5, random_state=0), rp.read({"x": trials(50, 50, 20, 3)}, series=True)


def rplds(k: int) -> Case:
    """50 trials × 50 times × 50 channels."""
    return lambda: (rp.RPLDS(k, random_state=0), rp.read({"x": trials(50, 50, 50, k)}, series=True))


def coupled(k: int) -> Case:
    """The same for Gaussian processes that factors couple."""
    return lambda: (
        rp.RPGPFA(k, recognition=rp.Recognition(covariance="full"), random_state=0),
        rp.read({"x": trials(50, 50, 50, k)}, series=True),
    )


def mnist() -> tuple[RPMEstimator, rp.Observations]:
    """500 pairs of images a step, ten states."""
    random = np.random.default_rng(0)
    data = {name: random.integers(0, 256, (2000, 28, 28)).astype(np.uint8) for name in ("x1", "x2")}
    return rp.RPCategorical(10, random_state=0), rp.read(data)


CASES: Mapping[str, Case] = {
    "ball": ball, "rpfa": rpfa, "rphmm": rphmm, "rplds2": rplds(2), "rplds4": rplds(4), "rplds8": rplds(8),
    "full2": coupled(2), "full4": coupled(4), "full8": coupled(8), "mnist": mnist,
}  # fmt: skip


def started(case: Case) -> tuple[Run[Any], rp.Observations]:
    """A default fit at its first step."""
    model, observations = case()
    pieces = model._pieces(observations)
    built, _ = model.build(pieces)
    built.prepare(pieces)
    return Run.start(built, Divided.undivided(pieces), model._training(pieces), 0), pieces


def bare(run: Run[Any], observations: rp.Observations) -> Callable[[], None]:
    """The networks of the model over the rows of one batch, a mean square as their loss, and the same optimiser."""
    model = run.model
    size = run.training.batch_size or len(observations)
    batch = observations.batch(np.arange(min(size, len(observations))), model.dtype, model.device)
    parts = []
    for name, recogniser in model.recognisers():
        rows = recogniser.scaling(batch.inputs[name][batch.present[name]], model.dtype)
        parts.append((recogniser.network, rows))
    optimiser = adamw(model.recognition, model.recognition.parameters(), 0.0)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        loss = torch.stack([network(rows).square().mean() for network, rows in parts]).sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()

    return step


def seconds(action: Callable[[], None], steps: int) -> float:
    """Of the processor, a step."""
    begun = time.process_time()
    for _ in range(steps):
        action()
    return (time.process_time() - begun) / steps


def measured(case: Case, rounds: int) -> dict[str, float]:
    """Milliseconds of both, and the median of the ratios of single rounds."""
    run, observations = started(case)
    network = bare(run, observations)

    def whole(steps: int) -> float:
        begun = time.process_time()
        run.advance(observations, run.step + steps)
        return (time.process_time() - begun) / steps

    run.advance(observations, 2)
    network()
    steps = max(1, min(STEPS, round(0.5 / whole(1))))
    pairs = [(whole(steps), seconds(network, STEPS)) for _ in range(rounds)]
    return {
        "ms_step": statistics.median(each for each, _ in pairs) * 1e3,
        "ms_bare": statistics.median(each for _, each in pairs) * 1e3,
        "ratio": statistics.median(each / other for each, other in pairs),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help=", ".join(CASES))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", default="", help="a word for the name of the file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    out = OUT / f"bench-steps{'-' + options.out if options.out else ''}.json"
    found: dict[str, Any] = {}
    for name in options.cases or CASES:
        found[name] = measured(CASES[name], options.rounds)
        print(name, {key: round(each, 2) for key, each in found[name].items()}, flush=True)
    if not options.cases:
        write_json(out, {"cases": found, "versions": versions()})


if __name__ == "__main__":
    main()
