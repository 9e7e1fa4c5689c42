"""What it costs and where it stops: memory, throughput, growth, one process against two, a million pairs.

    python benchmarks/scale.py [memory|growth|together|engines|million|transform …]

Every measurement runs in a process of its own, with one thread unless it says otherwise. Writes
docs/results/bench-scale.json and bench-scale.png. Times on a shared machine are noisy: ratios are taken in one run.
"""

import argparse
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator

import rpmodels as rp
from rpmodels.estimators import RPMEstimator
from rpmodels.learning import Run, TrainingSettings
from rpmodels.learning.batches import Divided
from rpmodels.learning.distributed import process_group
from rpmodels.persistence import write_json
from rpmodels.versions import versions

OUT = Path(__file__).parent.parent / "docs" / "results"
Answer = dict[str, float]

MEMORY = {
    "discrete": [{"n": n, "t": 1} for n in (5_000, 10_000, 20_000)],
    "gaussian": [{"n": n, "t": 1} for n in (5_000, 10_000, 20_000)],
    "per_time": [{"n": n, "t": 200} for n in (125, 250, 500)],
    "pooled": [{"n": n, "t": 200} for n in (125, 250, 500)],
}
GROWTH = {
    ("discrete", "batch"): [250, 500, 1000, 2000, 4000],
    ("discrete", "factors"): [2, 4, 8, 16],
    ("discrete", "states"): [10, 20, 40, 80],
    ("gaussian", "batch"): [250, 500, 1000, 2000, 4000],
    ("gaussian", "factors"): [2, 4, 8, 16],
    ("gaussian", "latents"): [1, 2, 4, 8],
    ("pooled", "batch"): [10, 20, 40, 80],
}
BASE = {"batch": 1000, "factors": 2, "states": 10, "latents": 2}


def peak_mb() -> float:
    """Of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def rows_of_views(n: int, factors: int = 2) -> dict[str, Any]:
    """Ten classes, each factor a noisy view of 20 numbers."""
    random = np.random.default_rng(0)
    z = random.integers(10, size=n)
    noise = (random.standard_normal((n, 20), dtype=np.float32) for _ in range(factors))
    return {f"x{j}": random.normal(size=(10, 20)).astype(np.float32)[z] + each for j, each in enumerate(noise)}


def estimator(kind: str, size: dict[str, int]) -> RPMEstimator:
    if kind == "discrete":
        return rp.RPCategorical(size["states"], random_state=0)
    if kind == "gaussian":
        return rp.RPFA(size["latents"], random_state=0)
    return rp.RPGPFA(1, n_inducing=40, inference=rp.Inference(atoms=kind), random_state=0)


def observed(kind: str, n: int, t: int, factors: int) -> rp.Observations:
    if kind in ("discrete", "gaussian"):
        return rp.read(rows_of_views(n, factors))
    return rp.read({"x": rp.datasets.textured_ball(n_trials=n, n_times=t, random_state=0).x}, series=True)


def begun(kind: str, observations: rp.Observations, batch: int | None, size: dict[str, int]) -> Run[Any]:
    model, _ = estimator(kind, size).build(observations)
    model.prepare(observations)
    training = TrainingSettings(max_iter=10**6, batch_size=batch)
    return Run.start(model, Divided.undivided(observations), training, 0)


def memory(kind: str, n: int, t: int) -> Answer:
    """Two steps over all observations at once, F_j over all of them, and the score of all."""
    observations = observed(kind, n, t, 2)
    before = peak_mb()
    start = time.perf_counter()
    run = begun(kind, observations, None, BASE)
    run.advance(observations, 2)
    steps = time.perf_counter() - start
    scores = run.objective.fitted(observations).free_energies(observations).total
    assert bool(torch.isfinite(scores).all())
    whole = time.perf_counter() - start
    return {"peak_mb": peak_mb(), "before_mb": before, "seconds_two_steps": steps, "seconds_score": whole - steps}


def growth(kind: str, what: str, value: int) -> Answer:
    """Milliseconds of a step, best of three rounds."""
    size = {**BASE, "batch": 20} if kind == "pooled" else BASE
    size = {**size, what: value}
    observations = observed(kind, max(2 * size["batch"], 100), 50, size["factors"])
    run = begun(kind, observations, size["batch"], size)
    run.advance(observations, 2)
    rounds = []
    for _ in range(3):
        start = time.perf_counter()
        run.advance(observations, run.step + 5)
        rounds.append((time.perf_counter() - start) * 200)
    return {"ms_per_step": min(rounds), "rows_per_second": size["batch"] / min(rounds) * 1e3}


def transform(n: int) -> Answer:
    """New observations a second, of a fitted model: states of pairs, latents of pairs, latents of trials."""
    found: Answer = {}
    for kind in ("discrete", "gaussian", "per_time"):
        t = 50
        rows = n if kind != "per_time" else n // t
        training, new = observed(kind, 2_000 if kind != "per_time" else 50, t, 2), observed(kind, rows, t, 2)
        run = begun(kind, training, None, BASE)
        fitted = run.objective.fitted(training)
        start = time.perf_counter()
        for each in fitted.posterior(new):
            assert each.posterior is not None
        found[f"{kind}_per_second"] = rows / (time.perf_counter() - start)
    return found


def member(steps: int, rounds: int, engine: dict[str, Any] | None = None) -> Answer:
    """One process of a group (or alone): images a second through the paper's network, best of several rounds."""
    with process_group():
        random = np.random.default_rng(0)
        images = {name: random.integers(0, 256, (4_000, 28, 28)).astype(np.uint8) for name in ("x1", "x2")}
        observations = rp.read(images)
        groups: dict[str, Any] = {"recognition": rp.Recognition(tied=True), "engine": rp.Engine(**(engine or {}))}
        model, _ = rp.RPCategorical(10, **groups, random_state=0).build(observations)
        model.prepare(observations)
        training = TrainingSettings(max_iter=10**6, batch_size=1000)
        run = Run.start(model, Divided.undivided(observations), training, 0)
        run.advance(observations, 2)
        rates = []
        for _ in range(rounds):
            start = time.perf_counter()
            run.advance(observations, run.step + steps)
            rates.append(2_000 * steps / (time.perf_counter() - start))
        return {"images_per_second": max(rates)}


def group(world: int, steps: int = 25) -> float:
    """So many processes on this machine, one thread each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    environments = [_environment(RANK=str(rank), LOCAL_RANK=str(rank), **shared) for rank in range(world)]
    command = _command("member", [steps, 1])
    started = [subprocess.Popen(command, env=each, stdout=subprocess.PIPE, text=True) for each in environments]
    answers = [each.communicate()[0] for each in started]
    return float(json.loads(answers[0].strip().splitlines()[-1])["images_per_second"])


def together(rounds: int = 5) -> dict[str, Any]:
    """One process against two, by turns, best of five."""
    rates: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(rounds):
        for world, each in rates.items():
            each.append(group(world))
    found = {"one": rates[1], "two": rates[2], "ratio_of_best": max(rates[2]) / max(rates[1])}
    print("together", found, flush=True)
    return found


def engines() -> dict[str, float]:
    """Images a second with networks as they are, in bfloat16, and compiled; one thread."""
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "bfloat16": {"precision": "bfloat16"},
        "compiled": {"compile": True},
    }
    return {name: alone("member", 5, 3, engine)["images_per_second"] for name, engine in kinds.items()}


def million(n: int, threads: int) -> Answer:
    """Pairs of 64 numbers on disk, made block by block; one default fit, and the states it finds."""
    torch.set_num_threads(threads)
    random = np.random.default_rng(0)
    centres = random.normal(size=(2, 10, 64)).astype(np.float32)
    z = random.integers(10, size=n)
    with tempfile.TemporaryDirectory() as folder:
        x: dict[str, Any] = {}
        for j, name in enumerate("ab"):
            path = Path(folder) / f"{name}.npy"
            array = np.lib.format.open_memmap(path, "w+", np.float32, (n, 64))
            for at in range(0, n, 50_000):
                part = z[at : at + 50_000]
                array[at : at + 50_000] = centres[j, part] + 2 * random.standard_normal((len(part), 64), np.float32)
            array.flush()
            del array
            x[name] = np.load(path, mmap_mode="r")
        made = peak_mb()
        start = time.perf_counter()
        model = rp.RPCategorical(10, random_state=0).fit(x)
        seconds = time.perf_counter() - start
        states = model.predict({name: each[:20_000] for name, each in x.items()})
        matching = rp.metrics.match_states(z[:20_000], states, 10)
        accuracy = float((matching[states] == z[:20_000]).mean())
        return {"seconds": seconds, "peak_mb": peak_mb(), "made_mb": made, "accuracy": accuracy,
                "score": float(model.score_), "ceiling": model.score_.ceiling}  # fmt: skip


# ---- running -----------------------------------------------------------------------------------


def _command(task: str, arguments: Sequence[Any]) -> list[str]:
    return [sys.executable, __file__, "--one", json.dumps([task, arguments])]


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **more}


def alone(task: str, *arguments: Any) -> Answer:
    """In a process of its own."""
    answer = subprocess.run(
        _command(task, arguments), env=_environment(), stdout=subprocess.PIPE, text=True, check=True
    )
    found: Answer = json.loads(answer.stdout.strip().splitlines()[-1])
    print(task, *arguments, {name: round(each, 3) for name, each in found.items()}, flush=True)
    return found


def exponent(rows: Sequence[dict[str, Any]], size: str, value: str) -> float:
    """Slope in log–log."""
    return float(np.polyfit(np.log([row[size] for row in rows]), np.log([row[value] for row in rows]), 1)[0])


def all_memory() -> dict[str, Any]:
    rows = {kind: [{**size, **alone("memory", kind, size["n"], size["t"])} for size in each]
            for kind, each in MEMORY.items()}  # fmt: skip
    exponents = {kind: exponent([{**row, "mb": row["peak_mb"] - row["before_mb"]} for row in each], "n", "mb")
                 for kind, each in rows.items()}  # fmt: skip
    return {"rows": rows, "exponents": exponents}


def all_growth() -> dict[str, Any]:
    rows = {f"{kind} in {what}": [{what: value, **alone("growth", kind, what, value)} for value in values]
            for (kind, what), values in GROWTH.items()}  # fmt: skip
    return {"rows": rows, "exponents": {name: exponent(each, name.split()[-1], "ms_per_step")
                                        for name, each in rows.items()}}  # fmt: skip


TASKS: dict[str, Callable[..., Answer]] = {
    "memory": memory, "growth": growth, "member": member, "million": million, "transform": transform,
}  # fmt: skip
PARTS: dict[str, Callable[[], Any]] = {
    "memory": all_memory,
    "growth": all_growth,
    "together": together,
    "engines": engines,
    "million": lambda: alone("million", 10**6, 2),
    "transform": lambda: alone("transform", 50_000),
}


def plot(results: dict[str, Any], path: Path) -> None:
    """Memory by kind, and milliseconds of a step by everything that was varied."""
    names = list(results["growth"]["rows"])
    figure, axes = plt.subplots(2, 4, figsize=(13, 5.6), layout="constrained")
    for kind, rows in results["memory"]["rows"].items():
        label = f"{kind}, exponent {results['memory']['exponents'][kind]:.2f}"
        axes.flat[0].loglog([row["n"] for row in rows], [row["peak_mb"] - row["before_mb"] for row in rows], "o-",
                            label=label)  # fmt: skip
    axes.flat[0].set(xlabel="N (T = 1, or 200)", ylabel="MB beyond the data", title="memory")
    axes.flat[0].legend(frameon=False, fontsize="x-small")
    for ax, name in zip(axes.flat[1:], names, strict=True):
        rows, what = results["growth"]["rows"][name], name.split()[-1]
        ax.loglog([row[what] for row in rows], [row["ms_per_step"] for row in rows], "o-")
        ax.set(xlabel=what, ylabel="ms a step", title=f"{name}: {results['growth']['exponents'][name]:.2f}")
        ax.set_xticks([row[what] for row in rows], [f"{row[what]:g}" for row in rows])
    for ax in axes.flat:
        ax.minorticks_off()
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        ax.yaxis.set_major_formatter("{x:g}")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.one:
        task, arguments = json.loads(options.one)
        print(json.dumps(TASKS[task](*arguments)))
        return
    out = OUT / "bench-scale.json"
    results = json.loads(out.read_text()) if out.exists() else {}
    for name in options.parts or PARTS:
        results[name] = PARTS[name]()
        results["versions"] = versions()
        write_json(out, results)
    if {"memory", "growth"} <= set(results):
        plot(results, OUT / "bench-scale.png")


if __name__ == "__main__":
    main()
