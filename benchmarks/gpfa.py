"""RP-GPFA: milliseconds a step, seconds to a good fit, peak memory, and how they grow with N, T, K and M.

    python benchmarks/gpfa.py [--quick]

Every configuration runs in a process of its own. Writes docs/results/bench-gpfa.json and bench-gpfa.png. A matmul
loop timed beside every measurement is the yardstick: compare ratios, not milliseconds, between machines.
"""

import argparse
import importlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import matplotlib as mpl
import numpy as np
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator

import rpmodels as rp
from rpmodels.learning import RPMObjective, Run, TrainingSettings
from rpmodels.learning.batches import Divided
from rpmodels.learning.loop import Consumer, State
from rpmodels.persistence import write_json

BASE = {"n": 50, "t": 50, "k": 1, "m": 20}
SWEEPS = {
    "n": [25, 50, 100, 200, 400],
    "t": [25, 50, 100, 200, 400],
    "k": [1, 2, 3, 4],
    "m": [10, 20, 40, 80, 160],
}
BASES: dict[str, dict[str, int]] = {"t": {"m": 20}, "m": {"t": 200}}
"""Where a sweep must stand elsewhere: M up to 160 needs as many times."""
MEMORY = [{"n": n, "t": 20, "k": 1, "m": 10} for n in (500, 1000, 2000, 4000)]
OUT = Path(__file__).parent.parent / "docs" / "results"


def yardstick(seconds: float = 0.3) -> float:
    """Milliseconds of one 500 × 500 product."""
    a = torch.randn(500, 500)
    end, count = time.perf_counter() + seconds, 0
    begun = time.perf_counter()
    while time.perf_counter() < end:
        a @ a
        count += 1
    return (time.perf_counter() - begun) / count * 1e3


def started(n: int, t: int, k: int, m: int) -> tuple[Run[Any], rp.Observations]:
    """A default run at its first step, one mixture per time."""
    x = rp.datasets.textured_ball(n_trials=n, n_times=t, random_state=0).x
    model = rp.RPGPFA(k, n_inducing=m, inference=rp.Inference(atoms="per_time"), random_state=0)
    observations = rp.read({"x": x}, series=True)
    built = model._build(observations)
    built.prepare(observations)
    training = TrainingSettings(max_iter=10_000, learning_rate=2e-2, batch_size=None, max_gradient_norm=1.0)
    return Run.start(built, Divided.undivided(observations), training, 0), observations


def step_time(settings: dict[str, int], budget: float) -> dict[str, float]:
    """The best of several rounds of steps, and the yardstick beside them."""
    run, observations = started(**settings)
    run.advance(observations, 3)
    rounds: list[float] = []
    begun = time.perf_counter()
    while len(rounds) < 3 or (time.perf_counter() - begun < budget and len(rounds) < 15):
        start = time.perf_counter()
        run.advance(observations, run.step + 25)
        rounds.append((time.perf_counter() - start) * 40)
    return {"ms_per_step": min(rounds), "ms_per_step_median": float(np.median(rounds)), "ms_yardstick": yardstick()}


def peak_memory(settings: dict[str, int]) -> dict[str, float]:
    """Megabytes that one step adds to the process at its highest."""
    run, observations = started(**settings)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run.advance(observations, 1)
    return {"peak_mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024}


def seconds_to(seed: int) -> dict[str, float]:
    """A default fit of the ball on a clock that stops while the truth is looked at, restarts included.

    The first optimiser of a process makes PyTorch import its compiler: imports are timed on their own.
    """
    begun = time.perf_counter()
    importlib.import_module("torch._dynamo")
    importing = time.perf_counter() - begun
    data = rp.datasets.textured_ball(random_state=seed)
    clock = Clock(data.x, data.z)
    advance = Run.advance

    def watched(
        self: Run[Any], observations: rp.Observations, until: int, consumers: Any = (), stopping: Any = None
    ) -> None:
        advance(self, observations, until, [*consumers, clock.watching(self)], stopping)

    Run.advance = watched  # type: ignore[method-assign]
    clock.start()
    model = rp.RPGPFA(random_state=seed).fit(data.x)
    total = clock.now()
    error = rp.metrics.nmse(model.transform(data.x), data.z)
    return {**{f"seconds_to_{level:g}": clock.reached.get(level, np.inf) for level in LEVELS},
            "seconds": total, "nmse": error, "seconds_importing": importing, "ms_yardstick": yardstick()}  # fmt: skip


LEVELS = (0.05, 0.01)


class Clock:
    """Wall clock of a fit without the time spent on looking."""

    def __init__(self, x: Any, z: Any) -> None:
        self.reached: dict[float, float] = {}
        self._observations, self._z = rp.read({"x": x}, series=True), z
        self._begun, self._looking = 0.0, 0.0

    def start(self) -> None:
        """Zero."""
        self._begun = time.perf_counter()

    def now(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self._begun - self._looking

    def watching(self, run: Run[Any]) -> Consumer:
        """Looks at a run every few steps."""

        def look(state: State) -> None:
            if state.step % 5 or len(self.reached) == len(LEVELS):
                return
            begun = time.perf_counter()
            so_far = self.now()
            batch = self._observations.batch(np.arange(len(self._observations)), run.model.dtype, run.model.device)
            objective = cast(RPMObjective, run.objective.eval())
            with torch.no_grad():
                posterior = objective.evaluate(batch).posterior
            objective.train()
            error = rp.metrics.nmse(posterior.mu[..., :1].numpy(), self._z)
            for level in LEVELS:
                if error <= level:
                    self.reached.setdefault(level, so_far)
            self._looking += time.perf_counter() - begun

        return look


def exponent(sizes: Sequence[float], values: Sequence[float], last: int = 3) -> float:
    """Slope of the line through the last points in log–log."""
    return float(np.polyfit(np.log(sizes[-last:]), np.log(values[-last:]), 1)[0])


def in_own_process(task: str, argument: Any) -> dict[str, float]:
    """Run one measurement in a fresh process."""
    command = [sys.executable, __file__, "--one", json.dumps([task, argument])]
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(answer.stdout.strip().splitlines()[-1])
    return result


def measure(quick: bool) -> dict[str, Any]:
    results: dict[str, Any] = {"threads": torch.get_num_threads(), "base": BASE, "sweeps": {}, "exponents": {}}
    results["fits"] = [in_own_process("fit", seed) for seed in range(1 if quick else 3)]
    print("fits", json.dumps(results["fits"]), flush=True)
    for name, sizes in SWEEPS.items():
        rows = []
        for size in sizes[: 2 if quick else None]:
            settings = {**BASE, **BASES.get(name, {}), name: size}
            rows.append({**settings, **in_own_process("step", settings)})
            print(json.dumps(rows[-1]), flush=True)
        results["sweeps"][name] = rows
        results["exponents"][f"step_in_{name}"] = exponent([r[name] for r in rows], [r["ms_per_step"] for r in rows])
    rows = []
    for settings in MEMORY[: 2 if quick else None]:
        rows.append({**settings, **in_own_process("memory", settings)})
        print(json.dumps(rows[-1]), flush=True)
    results["memory"] = rows
    results["exponents"]["memory_in_n"] = exponent([r["n"] for r in rows], [r["peak_mb"] for r in rows], 4)
    return results


def plot(results: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(1, 5, figsize=(14, 3), layout="constrained")
    for ax, (name, rows) in zip(axes, results["sweeps"].items(), strict=False):
        sizes = [row[name] for row in rows]
        ax.loglog(sizes, [row["ms_per_step"] for row in rows], "o-", label="a step")
        ax.loglog(sizes, [row["ms_yardstick"] for row in rows], ":", color="0.5", label="500 × 500 product")
        slope = results["exponents"][f"step_in_{name}"]
        ax.set(xlabel=name.upper(), ylabel="ms", title=f"exponent {slope:.2f}")
    sizes = [row["n"] for row in results["memory"]]
    axes[4].loglog(sizes, [row["peak_mb"] for row in results["memory"]], "o-", color="C1")
    axes[4].set(
        xlabel="N (T = 20)", ylabel="MB a step adds", title=f"exponent {results['exponents']['memory_in_n']:.2f}"
    )
    for ax in axes:
        ax.minorticks_off()
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
        ax.set_xticks(ax.lines[0].get_xdata(), [f"{x:g}" for x in ax.lines[0].get_xdata()])
    axes[0].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=120)
    plt.close(figure)


TASKS: dict[str, Callable[[Any], dict[str, float]]] = {
    "step": lambda settings: step_time(settings, 4.0),
    "memory": peak_memory,
    "fit": seconds_to,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two sizes of everything, nothing written")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        task, argument = json.loads(options.one)
        print(json.dumps(TASKS[task](argument)))
        return
    results = measure(options.quick)
    print(json.dumps(results["exponents"], indent=1))
    if not options.quick:
        write_json(OUT / "bench-gpfa.json", results)
        plot(results, OUT / "bench-gpfa.png")


if __name__ == "__main__":
    main()
