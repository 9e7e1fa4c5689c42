"""Populations whose latents are known: how well they are found, beside linear GPFA, and whether intervals hold.

python benchmarks/populations.py [--kinds poisson bell …] [--channels 30 150] [--trials 50 400] [--seeds 0] [--out FILE]
                                 [--max-iter …] [--e-step amortised]
python benchmarks/populations.py --costs        seconds of a step by K, and of fits to MC_Maze beside rivals

Two smooth latents behind channels of five kinds, 30 bins a trial. R² is that of the true latents of 100 new trials, by
a linear map that is fitted on the training trials; coverage is that of 90 % intervals as the model states them
(`posterior(X).uncertainty`, and by q alone), after a rotation alone.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.stats import norm

import rpmodels as rp
from rpmodels.baselines import GPFA
from rpmodels.evaluation.comparison import scaled_bins
from rpmodels.paper.experiments.real_recordings import Barriers

Array = NDArray[np.float64]
BINS, SCALE, LATENTS, NEW = 30, 5.0, 2, 100
KINDS = ("poisson", "bell", "saturating", "dispersed", "gaussian")


def latents(count: int, random: np.random.Generator) -> Array:
    """Smooth, of variance one."""
    t = np.arange(BINS)
    root = np.linalg.cholesky(np.exp(-0.5 * np.square((t[:, None] - t) / SCALE)) + 1e-8 * np.eye(BINS))
    drawn: Array = np.einsum("ts,nsk->ntk", root, random.standard_normal((count, BINS, LATENTS)))
    return drawn


def observed(kind: str, z: Array, channels: int, seed: int) -> Array:
    """What channels of one kind show of the latents."""
    world, random = np.random.default_rng(10_000 + seed), np.random.default_rng(20_000 + seed)
    w = world.standard_normal((LATENTS, channels)) / np.sqrt(LATENTS)
    base = world.uniform(-2.0, 0.0, channels)
    if kind == "gaussian":
        return np.asarray(z @ w + random.standard_normal((*z.shape[:2], channels)))
    rate = np.exp(base + z @ w)
    if kind == "bell":
        centres = world.uniform(-1.5, 1.5, (channels, LATENTS))
        rate = 0.05 + 2.0 * np.exp(-0.5 * np.square(z[:, :, None] - centres).sum(-1) / 0.8**2)
    elif kind == "saturating":
        rate = 2.0 / (1.0 + np.exp(-3.0 * (z @ w) - base))
    elif kind == "dispersed":
        rate = rate * random.gamma(2.0, 0.5, rate.shape)
    return np.asarray(random.poisson(rate), np.float64)


def explained(found: Array, truth: Array, new: Array, new_truth: Array) -> float:
    """R² of new latents by a linear map of those found."""

    def rows(each: Array) -> Array:
        flat = each.reshape(-1, each.shape[-1])
        return np.concatenate([flat, np.ones((len(flat), 1))], 1)

    y, target = truth.reshape(-1, LATENTS), new_truth.reshape(-1, LATENTS)
    map_ = np.linalg.lstsq(rows(found), y, rcond=None)[0]
    return float(1.0 - np.square(rows(new) @ map_ - target).sum() / np.square(target - target.mean(0)).sum())


def covered(mean: Any, covariance: Any, truth: Array, level: float = 0.9) -> float:
    """Share of the truth inside the intervals, after the best rotation."""
    mean = np.asarray(mean, np.float64).reshape(-1, LATENTS)
    covariance = np.asarray(covariance, np.float64).reshape(-1, LATENTS, LATENTS)
    flat = truth.reshape(-1, LATENTS)
    turn, _ = orthogonal_procrustes(mean, flat)
    sd = np.sqrt(np.einsum("ki,nkl,li->ni", turn, covariance, turn))
    return float((np.abs(mean @ turn - flat) <= norm.ppf(0.5 + level / 2) * sd).mean())


def errors(posterior: Any, truth: Array) -> dict[str, float]:
    """Of the means after the best rotation and after the best linear map, and the variance that is stated."""
    mean, flat = np.asarray(posterior.mean, np.float64).reshape(-1, LATENTS), truth.reshape(-1, LATENTS)
    turn, _ = orthogonal_procrustes(mean, flat)
    wide = np.concatenate([mean, np.ones((len(mean), 1))], 1)
    straight = wide @ np.linalg.lstsq(wide, flat, rcond=None)[0]
    stated = np.trace(np.asarray(posterior.covariance, np.float64).reshape(-1, LATENTS, LATENTS), axis1=1, axis2=2)
    return {
        "error": float(np.square(mean @ turn - flat).mean()),
        "error, linear map": float(np.square(straight - flat).mean()),
        "variance": float(stated.mean() / LATENTS),
    }


def one(kind: str, channels: int, trials: int, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """A cell of the table."""
    z = latents(trials + NEW, np.random.default_rng(seed))
    x = observed(kind, z, channels, seed)
    choice = "auto" if kind != "gaussian" else "separate"
    began = time.process_time()
    model = rp.RPGPFA(LATENTS, channels=choice, random_state=seed, **options).fit(x[:trials])
    seconds = time.process_time() - began
    found = np.asarray(model.transform(x), np.float64)
    bins = scaled_bins(rp.read({"x": x}, series=True), np.arange(trials))
    began = time.process_time()
    linear = GPFA(LATENTS, random_state=seed).fit(bins[:trials])
    linear_seconds = time.process_time() - began
    rival, posterior = np.stack(linear.transform(bins)), model.posterior(x[trials:])
    return {
        "kind": kind, "channels": channels, "trials": trials, "seed": seed,
        "r2": explained(found[:trials], z[:trials], found[trials:], z[trials:]),
        "r2 GPFA": explained(rival[:trials], z[:trials], rival[trials:], z[trials:]),
        "nats, new": float(model.score(x[trials:])), "nats, own": float(model.score(x[:trials])),
        **errors(posterior, z[trials:]), "temperature": model.temperature_,
        "coverage": covered(posterior.mean, posterior.uncertainty, z[trials:]),
        "coverage, q alone": covered(posterior.mean, posterior.covariance, z[trials:]),
        "seconds": seconds, "seconds GPFA": linear_seconds, "length scales": model.length_scales_.tolist(),
    }  # fmt: skip


class Clock:
    """Processor seconds at every step of a fit."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def __call__(self, state: Any) -> None:
        """One more step has been made."""
        self.seen.append(time.process_time())

    @property
    def step(self) -> float:
        """Of the steps after the first."""
        return float(np.median(np.diff(self.seen)))


def step_seconds(x: Sequence[Array], latents: int) -> float:
    """A step of a default fit, the start not included."""
    clock = Clock()
    rp.RPGPFA(latents, max_iter=12, random_state=0, training=rp.Training(callbacks=[clock])).fit(x)
    return clock.step


def costs() -> dict[str, float]:
    """Processor seconds, one thread, on three quarters of the trials of MC_Maze."""
    data = Barriers().trials(0, 4)
    x = [data.counts[i] for i in data.folds[0][0]]
    found = {f"step, K = {k}": step_seconds(x, k) for k in (4, 8, 16)}
    print(found, flush=True)
    bins = scaled_bins(rp.read({"x": x}, series=True), np.arange(len(x)))
    fits: dict[str, Callable[[], Any]] = {
        "GPFA": lambda: GPFA(8, random_state=0).fit(bins),
        "one by one": lambda: rp.RPGPFA(8, random_state=0).fit(x),
        "together": lambda: rp.RPGPFA(8, channels="together", random_state=0).fit(x),
    }
    for name, fit in fits.items():
        began = time.process_time()
        fit()
        found[f"fit, K = 8, {name}"] = time.process_time() - began
        print({each: round(seconds, 3) for each, seconds in found.items()}, flush=True)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--channels", type=int, nargs="+", default=[30, 150])
    parser.add_argument("--trials", type=int, nargs="+", default=[50, 400])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, help="a file of lines of JSON, added to as cells are finished")
    parser.add_argument("--max-iter", type=int, help="of RPGPFA; its default")
    parser.add_argument("--e-step", help="of RPGPFA; its default")
    parser.add_argument("--costs", action="store_true", help="seconds instead of latents")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    if given.costs:
        costs()
        raise SystemExit
    options: dict[str, Any] = {} if given.max_iter is None else {"max_iter": given.max_iter}
    if given.e_step is not None:
        options["inference"] = rp.Inference(e_step=given.e_step)
    for kind, channels, trials, seed in product(given.kinds, given.channels, given.trials, given.seeds):
        row = one(kind, channels, trials, seed, options)
        print({name: round(each, 3) if isinstance(each, float) else each for name, each in row.items()}, flush=True)
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
