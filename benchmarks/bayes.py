"""Variational Bayes over parameters: over-confidence at small N, before and after.

python benchmarks/bayes.py forecasts [--worlds turning …] [--trials 20 50 200] [--seeds 0 1 2] [--network linear]
                                     [--n-init 1] [--max-iter …] [--out FILE]
python benchmarks/bayes.py tables [--seeds 0 1 2]

`forecasts`: linear latents behind noisy linear measurements, 30 steps a trial. RPLDS by point estimates
(`dynamics="learned"`) and by variational Bayes (`dynamics=1.0`) is fitted to N trials, sees 30 steps of 1000 new ones
and forecasts 10 more. Coverage is that of 90 % bands, raw: latents are turned by the rotation (or reflection) that is
best on the training trials, and by nothing else. `truth` is what the true model, which knows all parameters, covers on
the same trials: how far chance alone takes it from 0.90.

`tables`: states that are known but for a little; how much the learned table of a chain, or of a graph, loses in nats
per new draw against the true one (0 is best; where it says 0 of what then happens, the loss is that of e⁻³⁰).
"""

import argparse
import json
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes, solve_discrete_lyapunov

import rpmodels as rp
from rpmodels.carriers import Sites
from rpmodels.priors import DiscreteGraph, MarkovChainPrior, Prior

Array = NDArray[np.float64]
STEPS, AHEAD, NEW = 30, 10, 1000
BAR = (0.88, 0.92)
KINDS = {"point": "learned", "bayes": 1.0}


def world(name: str) -> tuple[Array, Array, float]:
    """A with stationary covariance I, loadings (K, D), sd of the noise."""
    if name == "wandering":
        return np.array([[0.9]]), np.array([[1.0, -0.5, 0.3, 0.8]]), 0.7
    if name == "turning":
        cos, sin = 0.95 * np.cos(0.4), 0.95 * np.sin(0.4)
        return np.array([[cos, -sin], [sin, cos]]), np.random.default_rng(7).standard_normal((2, 6)), 0.7
    A = np.array([[0.95, 0.1], [0.0, 0.7]])
    root = np.linalg.cholesky(solve_discrete_lyapunov(A, np.eye(2)))
    return np.linalg.solve(root, A @ root), np.random.default_rng(8).standard_normal((2, 12)), 1.0


def simulated(name: str, trials: int, steps: int, seed: int) -> tuple[Array, Array]:
    """Observations (N, T, D) and latents (N, T, K)."""
    (A, loadings, noise), random = world(name), np.random.default_rng(seed)
    size = len(A)
    root = np.linalg.cholesky(np.eye(size) - A @ A.T)
    z = random.standard_normal((trials, steps, size))
    for t in range(1, steps):
        z[:, t] = z[:, t - 1] @ A.T + z[:, t] @ root.T
    return z @ loadings + noise * random.standard_normal((trials, steps, loadings.shape[1])), z


def true_forecast(name: str, x: Array) -> tuple[Array, Array]:
    """By the Kalman filter with all parameters known."""
    A, loadings, noise = world(name)
    eye: Any = np.eye(len(A))
    Q, W, h = eye - A @ A.T, loadings @ loadings.T / noise**2, x @ loadings.T / noise**2
    mean, S, means, spreads = np.zeros((len(x), len(A))), eye, [], []
    for t in range(STEPS + AHEAD):
        if t:
            mean, S = mean @ A.T, A @ S @ A.T + Q
        if t < STEPS:
            P = np.linalg.inv(S)
            S = np.linalg.inv(P + W)
            mean = (mean @ P + h[:, t]) @ S
        else:
            means.append(mean)
            spreads.append(np.broadcast_to(S, (len(x), *S.shape)))
    return np.stack(means, 1), np.stack(spreads, 1)


def one(name: str, trials: int, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Coverage of the forecasts and of the smoothed latents, by both kinds of dynamics."""
    x, z = simulated(name, trials, STEPS, seed)
    new, truth = simulated(name, NEW, STEPS + AHEAD, 5000 + seed)
    size = z.shape[-1]
    row: dict[str, Any] = {"world": name, "trials": trials, "seed": seed}
    row["truth"] = rp.metrics.coverage(*variances(*true_forecast(name, new[:, :STEPS])), truth[:, STEPS:])
    for kind, dynamics in KINDS.items():
        began = time.process_time()
        model = rp.RPLDS(size, dynamics=dynamics, random_state=seed, **options).fit(x)
        seconds = time.process_time() - began
        turn, _ = orthogonal_procrustes(np.asarray(model.transform(x), float).reshape(-1, size), z.reshape(-1, size))
        found, ahead = model.posterior(new[:, :STEPS]), model.forecast(new[:, :STEPS], AHEAD)
        row[kind] = {
            "forecast": covered(ahead.mean, ahead.covariance, turn, truth[:, STEPS:]),
            "first step": covered(ahead.mean[:, :1], ahead.covariance[:, :1], turn, truth[:, STEPS : STEPS + 1]),
            "posterior": covered(found.mean, found.covariance, turn, truth[:, :STEPS]),
            "memory": float(np.abs(model.eigenvalues_[0])),
            "score": float(model.score(x)), "score, new": float(model.score(new[:, :STEPS])), "seconds": seconds,
        }  # fmt: skip
    return row


def variances(mean: Array, covariance: Array) -> tuple[Array, Array]:
    return mean, np.diagonal(covariance, axis1=-2, axis2=-1)


def covered(mean: Any, covariance: Any, turn: Array, truth: Array) -> float:
    """Share of the truth inside 90 % bands."""
    turned = turn.T @ np.asarray(covariance, float) @ turn
    return rp.metrics.coverage(*variances(np.asarray(mean, float) @ turn, turned), truth)


def forecasts(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    options: dict[str, Any] = {}
    if arguments.network:
        options["network"] = arguments.network
    if arguments.n_init:
        options |= {"n_init": arguments.n_init, "search": rp.Search(retries=0)}
    if arguments.max_iter:
        options["max_iter"] = arguments.max_iter
    rows = []
    for trials in arguments.trials:
        for seed in arguments.seeds:
            for name in arguments.worlds:
                rows.append(one(name, trials, seed, options))
                print(json.dumps(rows[-1]), flush=True)
                if arguments.out:
                    arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    for trials in arguments.trials:
        here = [row for row in rows if row["trials"] == trials]
        told = f"{trials} trials: truth {np.mean([row['truth'] for row in here]):.3f}"
        for kind in KINDS:
            each = np.array([row[kind]["forecast"] for row in here])
            told += f", {kind} {each.mean():.3f} ({each.min():.3f} – {each.max():.3f}; {inside(each.mean())})"
        print(told)
    return rows


def inside(value: float) -> str:
    return "met" if BAR[0] <= value <= BAR[1] else "missed"


# ---- tables -------------------------------------------------------------------------------------


def losses(seed: int, count: int) -> dict[str, float]:
    """Nats per new draw beyond those of the true tables."""
    random = np.random.default_rng(seed)
    steps = random.dirichlet(0.5 * np.ones(5), 5)
    chain = np.empty((count, 4), int)
    chain[:, 0] = random.integers(5, size=count)
    for t in range(1, 4):
        chain[:, t] = [random.choice(5, p=steps[k]) for k in chain[:, t - 1]]
    tables = random.dirichlet(0.5 * np.ones(4), (3, 3))
    parents = random.integers(3, size=(count, 2))
    child = np.array([random.choice(4, p=tables[tuple(each)]) for each in parents])
    found = {}
    for kind in KINDS:
        learned = kind == "point"
        prior = MarkovChainPrior.learned(5) if learned else MarkovChainPrior.dirichlet(5, 1.0)
        found[f"chain, {kind}"] = divergence(steps, learnt(prior, sharp(chain, 5)).transitions.double().numpy())
        states, arrows = {"a": 3, "b": 3, "c": 4}, {"c": ["a", "b"]}
        graph = DiscreteGraph.learned(states, arrows) if learned else DiscreteGraph.dirichlet(states, arrows, 1.0)
        places = np.ravel_multi_index((parents[:, 0], parents[:, 1], child), (3, 3, 4))
        said = torch.zeros(count, 1, graph.family.natural_size, dtype=torch.float64)
        start = graph.family.places[graph.family.scopes.index((0, 1, 2))].start
        said[torch.arange(count), 0, start + torch.as_tensor(places)] = 20.0
        found[f"graph, {kind}"] = divergence(tables, learnt(graph, said).table("c").double().numpy())
    return found


def sharp(states: NDArray[np.int64], size: int) -> torch.Tensor:
    return 20.0 * torch.nn.functional.one_hot(torch.as_tensor(states), size).double()


def learnt(prior: Any, potentials: torch.Tensor) -> Any:
    """By full-batch updates."""
    sites = Sites(
        torch.arange(potentials.shape[1]).double().expand(len(potentials), -1),
        torch.ones(potentials.shape[:2], dtype=torch.bool),
    )
    chosen: Prior[Any] = prior.double()
    for _ in range(20):
        chosen.update(chosen.sums(chosen.condition(potentials, sites), torch.ones(len(potentials)).double()), 1.0)
    return chosen


def divergence(truth: Array, found: Array) -> float:
    ratio = np.log(np.maximum(truth, 1e-300)) - np.log(np.maximum(found, np.exp(-30.0)))
    return float((truth * ratio).sum(-1).mean())


def compare_tables(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    rows = []
    for count in arguments.trials:
        each = [losses(seed, count) for seed in arguments.seeds]
        rows.append({"trials": count, **{name: float(np.mean([one[name] for one in each])) for name in each[0]}})
        print(
            ", ".join(
                f"{name} {value:.3f}" if name != "trials" else f"{value} trials" for name, value in rows[-1].items()
            )
        )
    return rows


def main(given: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("forecasts", "tables"))
    parser.add_argument("--worlds", nargs="+", default=["turning", "wandering", "mixed"])
    parser.add_argument("--trials", nargs="+", type=int, default=[20, 50, 200])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--network")
    parser.add_argument("--n-init", type=int)
    parser.add_argument("--max-iter", type=int)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args(given)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    (forecasts if arguments.what == "forecasts" else compare_tables)(arguments)


if __name__ == "__main__":
    main()
