"""Populations whose latents are known: how well they are found, beside linear GPFA, and whether intervals hold.

python benchmarks/populations.py [--kinds poisson bell …] [--channels 30 150] [--trials 50 400] [--seeds 0] [--out FILE]

Two smooth latents behind channels of five kinds, 30 bins a trial. R² is that of the true latents of 100 new trials, by
a linear map that is fitted on the training trials; coverage is that of 90 % intervals as the model states them, after a
rotation alone.
"""

import argparse
import json
import time
import warnings
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


def covered(posterior: Any, truth: Array, level: float = 0.9) -> float:
    """Share of the truth inside the intervals, after the best rotation."""
    mean = np.asarray(posterior.mean, np.float64).reshape(-1, LATENTS)
    covariance = np.asarray(posterior.covariance, np.float64).reshape(-1, LATENTS, LATENTS)
    flat = truth.reshape(-1, LATENTS)
    turn, _ = orthogonal_procrustes(mean, flat)
    sd = np.sqrt(np.einsum("ki,nkl,li->ni", turn, covariance, turn))
    return float((np.abs(mean @ turn - flat) <= norm.ppf(0.5 + level / 2) * sd).mean())


def one(kind: str, channels: int, trials: int, seed: int) -> dict[str, Any]:
    """A cell of the table."""
    z = latents(trials + NEW, np.random.default_rng(seed))
    x = observed(kind, z, channels, seed)
    choice = "auto" if kind != "gaussian" else "separate"
    began = time.process_time()
    model = rp.RPGPFA(LATENTS, channels=choice, random_state=seed).fit(x[:trials])
    seconds = time.process_time() - began
    found = np.asarray(model.transform(x), np.float64)
    bins = scaled_bins(rp.read({"x": x}, series=True), np.arange(trials))
    began = time.process_time()
    linear = GPFA(LATENTS, random_state=seed).fit(bins[:trials])
    linear_seconds = time.process_time() - began
    rival = np.stack(linear.transform(bins))
    return {
        "kind": kind, "channels": channels, "trials": trials, "seed": seed,
        "r2": explained(found[:trials], z[:trials], found[trials:], z[trials:]),
        "r2 GPFA": explained(rival[:trials], z[:trials], rival[trials:], z[trials:]),
        "coverage": covered(model.posterior(x[trials:]), z[trials:]),
        "coverage, training": covered(model.posterior(x[:trials]), z[:trials]),
        "seconds": seconds, "seconds GPFA": linear_seconds, "length scales": model.length_scales_.tolist(),
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--channels", type=int, nargs="+", default=[30, 150])
    parser.add_argument("--trials", type=int, nargs="+", default=[50, 400])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--out", type=Path, help="a file of lines of JSON, added to as cells are finished")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for kind, channels, trials, seed in product(given.kinds, given.channels, given.trials, given.seeds):
        row = one(kind, channels, trials, seed)
        print({name: round(each, 3) if isinstance(each, float) else each for name, each in row.items()}, flush=True)
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
