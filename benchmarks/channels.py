"""Channels one by one, or one network for all of them? Seven populations with known latents, both ways.

python benchmarks/channels.py [--kinds poisson bell …] [--models gpfa fa] [--seeds 1000 1001] [--out FILE]

Two latents, smooth ones behind 50 trials of 30 bins for RPGPFA, without time behind 1 500 rows for RPFA (one table, and
its columns as two tables). The number is R² of the true latents of 100 trials (3 000 rows) never seen, by a linear map
that is fitted on the training data: scores of the two ways are of different models, and say nothing here. Beside them
linear GPFA, or factor analysis, of the same scaled numbers.
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
from sklearn.decomposition import FactorAnalysis

import rpmodels as rp
from populations import BINS, LATENTS, explained, latents, observed
from rpmodels.baselines import GPFA
from rpmodels.evaluation.comparison import scaled_bins

Array = NDArray[np.float64]
TRIALS, NEW = 50, 100
KINDS = ("poisson", "bell", "array", "weak array", "correlated", "embedding", "coupled")
WEAK = 3.0
"""Noise (sd) of sensors that show little each."""
COMMON = 0.9
"""Share of the noise of sensors that they have in common, where it is correlated."""


def shown(kind: str, z: Array, seed: int) -> Array:
    """What channels of one kind show of latents (N, T, K)."""
    if kind in ("poisson", "bell"):
        return observed(kind, z, 30, seed)
    world, random = np.random.default_rng(10_000 + seed), np.random.default_rng(20_000 + seed)
    shape = z.shape[:2]
    if kind == "embedding":
        hidden = np.tanh(z @ world.standard_normal((LATENTS, 50)) + world.standard_normal(50))
        clear = hidden @ world.standard_normal((50, 16)) / np.sqrt(50)
        return np.asarray(clear + 0.1 * clear.std((0, 1)) * random.standard_normal((*shape, 16)))
    channels, sources = {"array": (40, 0), "weak array": (40, 0), "correlated": (40, 6), "coupled": (4, 1)}[kind]
    clear = z @ world.standard_normal((LATENTS, channels)) / np.sqrt(LATENTS)
    noise = random.standard_normal((*shape, channels))
    if not sources:
        return np.asarray(clear + (WEAK if kind == "weak array" else 1.0) * noise)
    spread = world.standard_normal((sources, channels)) / np.sqrt(sources)
    common = random.standard_normal((*shape, sources)) @ spread
    return np.asarray(clear + np.sqrt(COMMON) * common + np.sqrt(1.0 - COMMON) * noise)


def over_time(kind: str, seed: int) -> dict[str, Any]:
    """RPGPFA."""
    z = latents(TRIALS + NEW, np.random.default_rng(seed))
    x = shown(kind, z, seed)
    row: dict[str, Any] = {"kind": kind, "model": "gpfa", "seed": seed}
    for choice in ("separate", "together"):
        began = time.process_time()
        model = rp.RPGPFA(LATENTS, channels=choice, random_state=seed).fit(x[:TRIALS])
        row[f"seconds {choice}"] = round(time.process_time() - began, 1)
        found = np.asarray(model.transform(x), np.float64)
        row[choice] = explained(found[:TRIALS], z[:TRIALS], found[TRIALS:], z[TRIALS:])
    bins = scaled_bins(rp.read({"x": x}, series=True), np.arange(TRIALS))
    rival = np.stack(GPFA(LATENTS, random_state=seed).fit(bins[:TRIALS]).transform(bins))
    return {**row, "linear": explained(rival[:TRIALS], z[:TRIALS], rival[TRIALS:], z[TRIALS:])}


def without_time(kind: str, seed: int) -> dict[str, Any]:
    """RPFA: of one table, which has channels one by one or nothing to share, and of its columns as two tables."""
    seen, every = TRIALS * BINS, (TRIALS + NEW) * BINS
    z = np.random.default_rng(seed).standard_normal((every, LATENTS))
    x = shown(kind, z[:, None], seed)[:, 0]
    order = np.random.default_rng(30_000 + seed).permutation(x.shape[1])
    halves = {name: x[:, columns] for name, columns in zip("ab", np.array_split(order, 2), strict=True)}
    row: dict[str, Any] = {"kind": kind, "model": "fa", "seed": seed}
    ways: dict[str, tuple[Any, str]] = {
        "one table, separate": (x, "separate"),
        "two tables, separate": (halves, "separate"),
        "two tables, together": (halves, "together"),
    }
    for name, (given, choice) in ways.items():
        model = rp.RPFA(LATENTS, channels=choice, random_state=seed)
        model.fit(_first(given, seen))
        found = np.asarray(model.transform(given), np.float64)
        row[name] = explained(found[:seen], z[:seen], found[seen:], z[seen:])
    scaled = scaled_bins(rp.read({"x": x}), np.arange(seen))
    flat = np.concatenate(scaled)
    rival = FactorAnalysis(LATENTS, random_state=seed).fit(flat[:seen]).transform(flat)
    return {**row, "linear": explained(rival[:seen], z[:seen], rival[seen:], z[seen:])}


def _first(given: Any, count: int) -> Any:
    return {name: each[:count] for name, each in given.items()} if isinstance(given, dict) else given[:count]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--models", nargs="+", default=["gpfa", "fa"], choices=["gpfa", "fa"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1000, 1001])
    parser.add_argument("--out", type=Path, help="a file of lines of JSON, added to as rows are finished")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for model, kind, seed in product(given.models, given.kinds, given.seeds):
        row = (over_time if model == "gpfa" else without_time)(kind, seed)
        print({name: round(each, 3) if isinstance(each, float) else each for name, each in row.items()}, flush=True)
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
