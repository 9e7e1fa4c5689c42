"""Is what `fit` returns the maximum? Simulated data that the models are right about, at several sizes and seeds.

python benchmarks/optimum.py [--models fa hmm lds gp] [--networks linear mlp] [--sizes 50 200 800] [--seeds 0 1 2]

For every fit: its score, that of a fit ten times as long (linear networks are also begun at the true latents), the gap
between it and the best of these in per cent, the score of new data, and the error of what was learnt of the truth. With
several sizes the slope of log error on log N closes the table.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import rpmodels as rp

Array = NDArray[np.float64]
NEW = 200
BINS = 25


@dataclass(frozen=True)
class Truth:
    """Data to learn from, new data, the latents of the former, and what an estimator should find."""

    x: Any
    new: Any
    z: Array
    error: Callable[[Any], float]


def views(n: int, seed: int) -> Truth:
    """Three views of five channels, linear in one latent, of precisions 24, 16 and 16."""
    random, world = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    z = random.standard_normal((n + NEW, 1))
    x, precisions = {}, (24.0, 16.0, 16.0)
    for j, precision in enumerate(precisions):
        loadings = world.standard_normal((1, 5))
        loadings *= np.sqrt(precision / np.square(loadings).sum())
        x[f"x{j}"] = z @ loadings + random.standard_normal((n + NEW, 5))

    def error(model: Any) -> float:
        """Of log precisions, each factor's mean over the data."""
        found = [1.0 / model.recognise(x[f"x{j}"][:n], f"x{j}")[1][:, 0, 0] - 1.0 for j in range(3)]
        logs = [np.log(np.mean(each)) - np.log(true) for each, true in zip(found, precisions, strict=True)]
        return float(np.sqrt(np.mean(np.square(logs))))

    return Truth({k: v[:n] for k, v in x.items()}, {k: v[n:] for k, v in x.items()}, z[:n], error)


def chain(n: int, seed: int) -> Truth:
    """Three states behind four channels."""
    random, world = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    steps = 0.8 * np.eye(3) + 0.2 * world.dirichlet(np.ones(3), 3)
    centres = 1.2 * world.standard_normal((3, 4))
    z = np.zeros((n + NEW, BINS), int)
    z[:, 0] = random.integers(3, size=n + NEW)
    for t in range(1, BINS):
        z[:, t] = (steps[z[:, t - 1]].cumsum(1) < random.random((n + NEW, 1))).sum(1).clip(max=2)
    x = centres[z] + random.standard_normal((n + NEW, BINS, 4))

    def error(model: Any) -> float:
        """Mean absolute error of the transitions, states in the best order."""
        order = rp.metrics.match_states(z[:n].ravel(), model.predict(x[:n]).ravel(), 3)
        back = np.argsort(order)
        return float(np.abs(model.transitions_[np.ix_(back, back)] - steps).mean())

    return Truth(x[:n], x[n:], z[:n], error)


def dynamics(n: int, seed: int) -> Truth:
    """Two latents that turn and fade, behind five channels."""
    random, world = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    angle, modulus = 0.4, 0.95
    step = modulus * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    z = np.zeros((n + NEW, BINS, 2))
    z[:, 0] = random.standard_normal((n + NEW, 2))
    for t in range(1, BINS):
        z[:, t] = z[:, t - 1] @ step.T + np.sqrt(1 - modulus**2) * random.standard_normal((n + NEW, 2))
    x = z @ (0.7 * world.standard_normal((2, 5))) + random.standard_normal((n + NEW, BINS, 5))

    def error(model: Any) -> float:
        """Of the eigenvalue of A."""
        found = model.eigenvalues_[0]
        return float(abs(complex(found.real, abs(found.imag)) - modulus * np.exp(1j * angle)))

    return Truth(x[:n], x[n:], z[:n], error)


def smooth(n: int, seed: int) -> Truth:
    """One smooth latent of length scale 4 behind five channels."""
    random, world = np.random.default_rng(seed), np.random.default_rng(10_000 + seed)
    t = np.arange(BINS)
    root = np.linalg.cholesky(np.exp(-0.5 * np.square((t[:, None] - t) / 4.0)) + 1e-8 * np.eye(BINS))
    z = (random.standard_normal((n + NEW, BINS)) @ root.T)[..., None]
    loadings = world.standard_normal((1, 5))
    loadings *= np.sqrt(4.0 / np.square(loadings).sum())
    x = z @ loadings + random.standard_normal((n + NEW, BINS, 5))

    def error(model: Any) -> float:
        """Of the log length scale."""
        return float(abs(np.log(model.length_scales_[0] / 4.0)))

    return Truth(x[:n], x[n:], z[:n], error)


MODELS: dict[str, tuple[Callable[..., Any], int, Callable[[int, int], Truth]]] = {
    "fa": (rp.RPFA, 1, views),
    "hmm": (rp.RPHMM, 3, chain),
    "lds": (rp.RPLDS, 2, dynamics),
    "gp": (rp.RPGPFA, 1, smooth),
}


def one(task: tuple[str, str, int, int]) -> dict[str, Any]:
    """A row of the table."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    name, network, n, seed = task
    kind, size, make = MODELS[name]
    truth = make(n, seed)
    model = kind(size, network=network, random_state=seed)
    began = time.process_time()
    model.fit(truth.x)
    seconds = time.process_time() - began
    longer = kind(size, network=network, random_state=seed, max_iter=10 * model.max_iter).fit(truth.x)
    others = {"longer": float(longer.score_)}
    if network == "linear":
        begun = kind(size, network=network, random_state=seed, search=rp.Search(start=truth.z), n_init=1)
        others["from the truth"] = float(begun.fit(truth.x).score_)
    score = float(model.score_)
    best = max(score, *others.values())
    return {
        "model": name, "network": network, "n": n, "seed": seed, "score": score, **others,
        "gap": 100.0 * (best - score) / abs(best), "new": float(model.score(truth.new)),
        "new, longer": float(longer.score(truth.new)), "error": truth.error(model), "seconds": seconds,
        "converged": bool(model.converged_), "stopped": model.stop_reason_,
    }  # fmt: skip


def told(rows: Sequence[dict[str, Any]]) -> str:
    """The table: a line for every model, network and size, and the slopes."""
    lines = []
    for name, network in dict.fromkeys((row["model"], row["network"]) for row in rows):
        own = [row for row in rows if (row["model"], row["network"]) == (name, network)]
        errors = []
        for n in sorted({row["n"] for row in own}):
            some = [row for row in own if row["n"] == n]
            within = sum(row["gap"] <= 1.0 for row in some)
            errors.append((n, float(np.sqrt(np.mean([row["error"] ** 2 for row in some])))))
            new, longer, seconds = (np.mean([row[each] for row in some]) for each in ("new", "new, longer", "seconds"))
            worst, converged = max(row["gap"] for row in some), sum(row["converged"] for row in some)
            lines.append(
                f"{name} {network} N={n}: within 1 % {within} of {len(some)} (worst gap {worst:.2f} %), converged "
                f"{converged}, new {new:.3f} (longer {longer:.3f}), error {errors[-1][1]:.4f}, {seconds:.1f} s"
            )
        if len(errors) > 1:
            sizes, found = np.log(np.array(errors)).T
            slope = np.polyfit(sizes, found, 1)[0]
            lines.append(f"{name} {network}: slope of log error on log N {slope:.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--networks", nargs="+", default=["linear", "mlp"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 200, 800])
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(10)))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file of lines of JSON, added to as rows are finished")
    given = parser.parse_args()
    known: list[dict[str, Any]] = []
    if given.out is not None and given.out.exists():
        known = [json.loads(line) for line in given.out.read_text(encoding="utf-8").splitlines()]
    done = {(row["model"], row["network"], row["n"], row["seed"]) for row in known}
    tasks = [task for task in product(given.models, given.networks, given.sizes, given.seeds) if task not in done]
    with ProcessPoolExecutor(given.jobs) as pool:
        for row in pool.map(one, tasks):
            known.append(row)
            if given.out is not None:
                with given.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    print(told([row for row in known if row["model"] in given.models and row["network"] in given.networks]))
