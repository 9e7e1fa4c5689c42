"""Which rate for every row of table 1, which settings for its baselines? By training criteria: no label is looked at.

.venv/bin/python benchmarks/learning_rates.py rates       # writes docs/results/peer-supervision/rates.json
.venv/bin/python benchmarks/learning_rates.py settings    # writes docs/results/learning-rates-peer.json

MNIST pairs of seed 1000, one start a fit. `rates` is one procedure for all rows, the RPM and the network with labels
among them: a quarter of the steps of a default fit, flat and then along a cosine as there, at 1e-3, 3e-3 and 1e-2, and
further where the lowest or the highest of these is the best. The best has the highest criterion over the last epoch
(free energy, evidence lower bound, contrast, sum of correlations; for the network with labels, their log-likelihood);
where others are within a hundredth of it, the lowest of these is taken. `settings` came first: seeds 1000 and 1001, a
third of the steps, a rate of 1e-3 and 100 pairs a step. Fits that are in a file already are not made again.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rpmodels as rp
from rpmodels.errors import NumericalError
from rpmodels.paper.experiments.experiment import Row
from rpmodels.paper.experiments.peer_baselines import AUTOENCODERS, EMBEDDINGS, Budget
from rpmodels.paper.experiments.peer_supervision import EXPERIMENT, peer_data, trained
from rpmodels.persistence import write_json
from rpmodels.versions import versions

RESULTS = Path(__file__).parent.parent / "docs" / "results"
OUT = {"rates": RESULTS / "peer-supervision" / "rates.json", "settings": RESULTS / "learning-rates-peer.json"}
SEEDS = {"rates": (1000,), "settings": (1000, 1001)}
CLOSE = {"rates": 0.01, "settings": 0.0}
"""Share of the best criterion by which a choice must be better than those before it."""
RATES = (1e-3, 3e-3, 1e-2)
BEYOND = {1e-3: 3e-4, 1e-2: 3e-2}
"""Tried where one of these is the best."""
STEPS = {"rates": rp.RPCategorical().max_iter // 4, "settings": rp.RPCategorical().max_iter // 3}
SMALL: dict[str, Any] = {"batch_size": 100, "learning_rate": 1e-3}
SETTINGS: Mapping[str, tuple[str, tuple[float | None, ...]]] = {
    "VQ-VAE": ("commitment", (0.25, 1.0, 4.0, 16.0)),
    "GS-VAE": ("first_temperature", (None, 2.0, 4.0, 8.0, 16.0)),
    "GS-soft-VQ-VAE": ("first_temperature", (None, 2.0, 4.0, 8.0, 16.0)),
    "InfoNCE": ("temperature", (0.05, 0.1, 0.2, 0.5)),
}
PAPER = EXPERIMENT.presets["paper"]
LAST = 54
"""Steps that are averaged: an epoch of a default fit."""

Fit = Callable[[int], Any]
"""A fitted model, by the seed."""


def choices(study: str) -> dict[str, dict[str, Fit]]:
    """Row → what is compared there, by name."""
    if study == "rates":
        rows = [row for row in EXPERIMENT.rows(PAPER) if row.model != "k-means"]
        return {row.slug: {f"{rate:g}": at_rate(row, rate) for rate in RATES} for row in rows}
    return {
        name: {label({key: value, **SMALL}): with_setting(name, {key: value}) for value in values}
        for name, (key, values) in SETTINGS.items()
    }


def at_rate(row: Row, rate: float) -> Fit:
    """Short fits of a row of the table."""
    budget = Budget(PAPER.n_states, 1, STEPS["rates"], rate)
    return lambda seed: trained(row, peer_data(PAPER, seed), budget, seed)


def with_setting(name: str, setting: Mapping[str, Any]) -> Fit:
    """Short fits of a baseline with a setting of its own."""
    kind: Any = {**AUTOENCODERS, **EMBEDDINGS}[name]
    fixed = {"n_init": 1, "max_iter": STEPS["settings"], **SMALL, **setting}
    return lambda seed: kind(10, random_state=seed, **fixed).fit(peer_data(PAPER, seed).pairs)


def label(options: Mapping[str, Any]) -> str:
    """What a choice is called in the file."""
    return ", ".join(f"{key}={value:g}" if value is not None else f"{key}=None" for key, value in options.items())


def criterion(fit: Fit, seed: int) -> float | None:
    """What is maximised, over the last steps; None of a fit that broke."""
    try:
        found = float(np.mean(fit(seed).history_["free_energy"][-LAST:]))
    except NumericalError as failure:
        print(failure, flush=True)
        return None
    return round(found, 4) if np.isfinite(found) else None


def over_seeds(values: list[float | None]) -> float:
    """The mean; a rate that broke a fit is never the best."""
    return -np.inf if None in values else float(np.mean(np.array(values, float)))


def main() -> None:
    for study in sys.argv[1:] or OUT:
        out = OUT[study]
        results = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
        results |= {"seeds": list(SEEDS[study]), "steps": STEPS[study], "n_init": 1, "versions": versions()}
        for row, compared in choices(study).items():
            entry = results.setdefault(study, {}).setdefault(row, {"values": {}})
            for name, fit in compared.items():
                judge(entry, name, fit, study)
                write_json(out, results)
            further = BEYOND.get(float(entry["best"])) if study == "rates" else None
            if further is not None:
                judge(entry, f"{further:g}", at_rate(named(row), further), study)
                write_json(out, results)
            print(study, row, entry, flush=True)


def named(slug: str) -> Row:
    """The row of the table."""
    return next(row for row in EXPERIMENT.rows(PAPER) if row.slug == slug)


def judge(entry: dict[str, Any], name: str, fit: Fit, study: str) -> None:
    """The seeds that are not there yet; then the best so far, by the mean over seeds."""
    values = entry["values"].setdefault(name, [])
    for seed in SEEDS[study][len(values) :]:
        started = time.process_time()
        values.append(criterion(fit, seed))
        print(name, seed, values[-1], f"{time.process_time() - started:.0f} s", flush=True)
    means = {each: over_seeds(found) for each, found in entry["values"].items()}
    enough = max(means.values()) - CLOSE[study] * abs(max(means.values()))
    good = [each for each, mean in means.items() if mean >= enough]
    entry["best"] = min(good, key=float) if study == "rates" else good[0]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
