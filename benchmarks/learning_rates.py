"""Which settings for the baselines of peer supervision? By their training criteria alone; no label is looked at.

.venv/bin/python benchmarks/learning_rates.py             # writes docs/results/learning-rates-peer.json
.venv/bin/python benchmarks/learning_rates.py settings    # or rates: one of the two studies

MNIST pairs of seeds 1000 and 1001, one start a fit, a third of the steps of a default fit. First `settings`, at a rate
of 1e-3 and 100 pairs a step; then `rates` with the winners (the defaults) and 500 pairs a step, as in a default fit.
Fits that are in the file already are not made again.
"""

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rpmodels as rp
from rpmodels.paper.experiments.peer_baselines import AUTOENCODERS, EMBEDDINGS
from rpmodels.persistence import write_json
from rpmodels.versions import versions

OUT = Path(__file__).parent.parent / "docs" / "results" / "learning-rates-peer.json"
SEEDS = (1000, 1001)
RATES = (3e-4, 1e-3, 3e-3)
FURTHER = 1e-2
"""Tried where the highest of the rates wins."""
THIRD: dict[str, Any] = {"n_init": 1, "max_iter": rp.RPCategorical().max_iter // 3}
SMALL: dict[str, Any] = {"batch_size": 100, "learning_rate": 1e-3}
SETTINGS: Mapping[str, tuple[str, tuple[float | None, ...]]] = {
    "VQ-VAE": ("commitment", (0.25, 1.0, 4.0, 16.0)),
    "GS-VAE": ("first_temperature", (None, 2.0, 4.0, 8.0, 16.0)),
    "GS-soft-VQ-VAE": ("first_temperature", (None, 2.0, 4.0, 8.0, 16.0)),
    "InfoNCE": ("temperature", (0.05, 0.1, 0.2, 0.5)),
}
STUDIES = ("settings", "rates")
LAST = 54
"""Steps that are averaged: an epoch of a default fit."""

Grid = dict[str, tuple[str, list[dict[str, Any]]]]
"""Row → its model, and the options to compare."""


def grid(study: str) -> Grid:
    """All that a study compares."""
    if study == "settings":
        return {name: (name, [{key: value, **SMALL} for value in values]) for name, (key, values) in SETTINGS.items()}
    rates = [{"learning_rate": rate} for rate in RATES]
    rows = {f"{name}, target={target}": (name, target) for name in AUTOENCODERS for target in ("same", "peer")}
    found: Grid = {row: (name, [{"target": target, **each} for each in rates]) for row, (name, target) in rows.items()}
    return found | {name: (name, rates) for name in EMBEDDINGS}


def criterion(name: str, options: Mapping[str, Any], seed: int) -> float:
    """What is maximised, over the last steps: a bound in nats, or the sum of canonical correlations."""
    images = rp.datasets.load_mnist()
    pairs, _ = rp.datasets.make_pairs(images.train_images, images.train_labels, random_state=seed)
    kind: Any = {**AUTOENCODERS, **EMBEDDINGS}[name]
    model = kind(10, random_state=seed, **THIRD, **options).fit(pairs)
    return float(np.mean(model.history_["free_energy"][-LAST:]))


def main() -> None:
    results = json.loads(OUT.read_text()) if OUT.exists() else {}
    results |= {"seeds": list(SEEDS), "steps": THIRD["max_iter"], "n_init": THIRD["n_init"], "versions": versions()}
    for study in sys.argv[1:] or STUDIES:
        for row, (name, choices) in grid(study).items():
            entry = results.setdefault(study, {}).setdefault(row, {"values": {}})
            for options in choices:
                judge(entry, name, options)
                write_json(OUT, results)
            if study == "rates" and entry["best"] == label(choices[-1]):
                judge(entry, name, {**choices[-1], "learning_rate": FURTHER})
            write_json(OUT, results)
            print(study, row, entry, flush=True)


def judge(entry: dict[str, Any], name: str, options: Mapping[str, Any]) -> None:
    """The seeds that are not there yet; then the best so far, by the mean over seeds."""
    values = entry["values"].setdefault(label(options), [])
    for seed in SEEDS[len(values) :]:
        started = time.perf_counter()
        values.append(round(criterion(name, options, seed), 4))
        print(name, options, seed, values[-1], f"{time.perf_counter() - started:.0f} s", flush=True)
    entry["best"] = max(entry["values"], key=lambda each: float(np.mean(entry["values"][each])))


def label(options: Mapping[str, Any]) -> str:
    """What differs within a row."""
    shown = {key: value for key, value in options.items() if key != "target"}
    return ", ".join(f"{key}={value:g}" if value is not None else f"{key}=None" for key, value in shown.items())


if __name__ == "__main__":
    main()
