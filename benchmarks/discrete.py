"""Speed of the discrete RPM: milliseconds a step against the bare network, throughput, growth with N.

    make bench        # prints, and writes docs/results/bench-discrete.json

Times on a shared machine are noisy: what counts are the ratios, measured side by side in one run.
"""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rpmodels as rp
from rpmodels.fitted import FittedRPM
from rpmodels.learning import Run, TrainingSettings
from rpmodels.learning.batches import divide
from rpmodels.versions import versions

OUT = Path(__file__).parent.parent / "docs" / "results" / "bench-discrete.json"
ROUNDS = 5


def best(action: Callable[[], Any]) -> float:
    """Median seconds of several rounds, after one to warm up."""
    action()
    times = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        action()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def images(n: int) -> dict[str, np.ndarray[Any, Any]]:
    random = np.random.default_rng(0)
    return {name: random.integers(0, 256, (n, 28, 28)).astype(np.uint8) for name in ("x1", "x2")}


def rpm_step(images_of: dict[str, np.ndarray[Any, Any]], presence: dict[str, Any] | None = None) -> Callable[[], None]:
    """Five steps of 500 pairs through the library's own loop."""
    observations = rp.read(images_of, presence=presence)
    network = rp.recognition.ConvolutionalNetwork((28, 28), 10)
    model = rp.RPM(rp.priors.CategoricalPrior.uniform(10), {"x1": network, "x2": network})
    model.prepare(observations)
    data = divide(observations, 0.0, seed=0)
    run = Run.start(model, data, TrainingSettings(max_iter=10**6, batch_size=500), seed=0)
    return lambda: run.advance(observations, run.step + 5)


def bare_step() -> Callable[[], None]:
    """Five times forward, backward and Adam over the same number of images, and nothing else."""
    network = rp.recognition.ConvolutionalNetwork((28, 28), 10)
    optimiser = torch.optim.AdamW(network.parameters())
    halves = [torch.rand(500, 28, 28) for _ in range(2)]

    def step() -> None:
        for _ in range(5):
            optimiser.zero_grad()
            sum(network(half).square().mean() for half in halves).backward()
            optimiser.step()

    return step


def yardstick() -> None:
    """A fixed piece of work, to compare machines by."""
    a = torch.ones(512, 512)
    for _ in range(50):
        a = a @ a / 512


def growth() -> dict[str, float]:
    """Seconds to infer N new observations from a fitted model, and the exponent in N."""
    seconds = {}
    for n in (2_000, 8_000, 32_000):
        random = np.random.default_rng(0)
        data = {name: random.standard_normal((n, 20)) for name in ("a", "b")}
        observations = rp.read(data)
        model = rp.RPM(rp.priors.CategoricalPrior.uniform(10), {name: rp.recognition.MLP((20,), 10) for name in data})
        model.prepare(observations)
        fitted = FittedRPM.collected(model, observations)
        seconds[str(n)] = best(lambda m=fitted, o=observations: list(m.posterior(o)))  # type: ignore[misc]
    slope = np.polyfit(np.log([int(n) for n in seconds]), np.log(list(seconds.values())), 1)[0]
    return {**seconds, "exponent": float(slope)}


def main() -> None:
    data = images(5_000)
    everything = {name: np.ones(5_000, bool) for name in data}
    result = {
        "threads": torch.get_num_threads(),
        "yardstick_seconds": best(yardstick),
        "rpm_step_ms": 200 * best(rpm_step(data)),
        "bare_network_step_ms": 200 * best(bare_step()),
        "with_presence_step_ms": 200 * best(rpm_step(data, everything)),
        "infer_seconds": growth(),
        "versions": versions(),
    }
    result["ratio_to_bare"] = result["rpm_step_ms"] / result["bare_network_step_ms"]  # type: ignore[operator]
    print(json.dumps(result, indent=1))
    OUT.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
