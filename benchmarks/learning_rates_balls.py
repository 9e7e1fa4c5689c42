"""Which learning rate and first noise for the sparse GP-VAE on each ball? By its training ELBO alone.

.venv/bin/python benchmarks/learning_rates_balls.py   # seeds 1000, 1001; writes docs/results/learning-rates-balls.json

First the grid, one start a fit, a third of the steps of a default fit. Then the settings that lose least on their worst
ball, in whole fits (all steps, restarts): the one that loses least there is the default. The truth is not looked at.
"""

import argparse
import itertools
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rpmodels import datasets
from rpmodels.baselines import SparseGPVAE
from rpmodels.learning.parallel import parallel_map
from rpmodels.persistence import write_json
from rpmodels.versions import versions

OUT = Path(__file__).parent.parent / "docs" / "results" / "learning-rates-balls.json"
BALLS: dict[str, Callable[..., Any]] = {
    "plain-ball": datasets.plain_ball,
    "textured-ball": datasets.textured_ball,
    "structured-ball": datasets.structured_ball,
}
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
NOISES = (1.0, 0.3, 0.1)
LATENTS = (1, 2)
SEEDS = (1000, 1001)
WHOLE: dict[str, Any] = {}
THIRD = {"n_init": 1, "max_iter": SparseGPVAE().max_iter // 3}
FINALISTS = 3


class Setting(NamedTuple):
    """One point of the grid."""

    rate: float
    noise: float

    def __str__(self) -> str:
        return f"rate {self.rate:g}, noise {self.noise:g}"


Task = tuple[str, int, Setting, int]
Means = dict[str, dict[Setting, float]]


def elbo(task: Task, length: Mapping[str, Any]) -> float:
    """Nats a trial, of the training data."""
    ball, latents, (rate, noise), seed = task
    model = SparseGPVAE(latents, n_inducing=20, learning_rate=rate, start_noise=noise, random_state=seed, **length)
    return model.fit(BALLS[ball](random_state=seed).x).score_


def stage(settings: Iterable[Setting], length: Mapping[str, Any], jobs: int) -> tuple[Means, list[dict[str, Any]]]:
    """The mean ELBO of every setting on every ball, and every fit."""
    tasks = list(itertools.product(BALLS, LATENTS, settings, SEEDS))
    values = list(parallel_map(elbo, tasks, jobs, length))
    gathered: dict[str, dict[Setting, list[float]]] = {ball: {} for ball in BALLS}
    for (ball, _, setting, _), value in zip(tasks, values, strict=True):
        gathered[ball].setdefault(setting, []).append(value)
    means = {ball: {s: float(np.mean(v)) for s, v in each.items()} for ball, each in gathered.items()}
    fits = [
        {"ball": ball, "K": latents, "setting": str(setting), "seed": seed, "elbo": round(value, 3)}
        for (ball, latents, setting, seed), value in zip(tasks, values, strict=True)
    ]
    return means, fits


def behind(means: Means) -> dict[Setting, float]:
    """How far every setting is behind the best one, on the ball where it is worst; the least first."""
    best = {ball: max(each.values()) for ball, each in means.items()}
    settings = next(iter(means.values()))
    lost = {setting: max(best[ball] - means[ball][setting] for ball in means) for setting in settings}
    return dict(sorted(lost.items(), key=lambda item: item[1]))


def told(means: Means, fits: list[dict[str, Any]], length: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "length": dict(length) or "as a default fit",
        "means": {ball: {str(s): round(v, 3) for s, v in each.items()} for ball, each in means.items()},
        "best": {ball: str(max(each, key=each.__getitem__)) for ball, each in means.items()},
        "behind_at_worst": {str(s): round(v, 3) for s, v in behind(means).items()},
        "fits": fits,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a few steps, nothing written")
    options = parser.parse_args()
    lengths = ({"n_init": 1, "max_iter": 3},) * 2 if options.quick else (THIRD, WHOLE)
    started = time.perf_counter()
    result: dict[str, Any] = {
        "criterion": "training ELBO, nats a trial, mean over seeds and numbers of latents",
        "grid": {"learning_rate": RATES, "start_noise": NOISES}, "seeds": SEEDS, "latents": LATENTS,
    }  # fmt: skip
    settings = [Setting(*each) for each in itertools.product(RATES, NOISES)]
    for name, length in zip(("grid_search", "finals"), lengths, strict=True):
        means, fits = stage(settings, length, options.jobs)
        result[name] = told(means, fits, length)
        settings = list(behind(means))[:FINALISTS]
        print(name, result[name]["means"], "behind at worst:", result[name]["behind_at_worst"], flush=True)
    result |= {"chosen": str(settings[0]), "seconds": round(time.perf_counter() - started, 1), "versions": versions()}
    print("chosen:", result["chosen"])
    if not options.quick:
        write_json(OUT, result)


if __name__ == "__main__":
    main()
