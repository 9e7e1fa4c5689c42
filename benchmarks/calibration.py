"""Do intervals hold what they say, and probabilities? Models on new data of the worlds that they are right about.

python benchmarks/calibration.py [--kinds views smooth dynamics population categorical hmm graph impute-fa …]
    [--networks linear mlp] [--sizes 50 400] [--seeds 0 1 2] [--out FILE]
python benchmarks/calibration.py --table FILE         the table of rows that are there

Coverage is raw: latents are turned by the rotation (or sign) that is best on the data of the fit, and neither stretched
nor shifted. `bands` are the intervals that `posterior(X).bands` gives, `q` those of the covariance alone, `ahead` those
of `forecast`. Probabilities have an expected calibration error: |confidence − accuracy| of the most probable state, in
ten classes of confidence. Of what is imputed, the place of the true value among the atoms stands for the interval.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import imputation
import optimum
import populations
import rpmodels as rp
from graph_worlds import hierarchy

Array = NDArray[np.float64]
Row = dict[str, Any]
LEVELS = (0.5, 0.9, 0.95)
NEW = {"views": 4000, "categorical": 20_000, "graph": 8000, "hmm": 800, "imputed rows": 1500, "imputed trials": 100}
"""Observations that the fit has not seen; 200 of all others."""
SEEN, AHEAD = 15, 10
"""Steps before and in a forecast."""
CLASSES = 10
WITHIN, ERROR = 0.03, 0.02
"""The bars: distance of a coverage from its level, and an expected calibration error."""
CHANNELS, NOISE = 30, 2.0
"""Of populations; of views of objects, whose patterns have sds of 1.5."""


# ---- what is asked --------------------------------------------------------------------------------


def covered(mean: Any, covariance: Any, line: tuple[Array, Array], truth: Array) -> dict[str, float]:
    """The share of the truth in intervals of every level, and the mean square of what is off in their sds."""
    where, variance = rp.metrics.aligned(np.asarray(mean, float), np.asarray(covariance, float), *line)
    shares = {f"{level:g}": rp.metrics.coverage(where, variance, truth, level) for level in LEVELS}
    return {**shares, "z2": float(np.mean(np.square(truth - where) / variance))}


def trusted(found: Array, truth: NDArray[np.int64]) -> dict[str, float]:
    """How far confidence (…, K) is from accuracy on average over classes of confidence, and as a whole."""
    flat, right = found.reshape(-1, found.shape[-1]), truth.ravel()
    confidence = flat.max(1).astype(float)
    correct = (flat.argmax(1) == right).astype(float)
    place = np.minimum((confidence * CLASSES).astype(int), CLASSES - 1)
    gaps = np.bincount(place, confidence - correct, CLASSES)
    return {
        "ece": float(np.abs(gaps).sum() / len(right)),
        "confidence": float(confidence.mean()),
        "accuracy": float(correct.mean()),
    }


def some(x: Any, which: Any) -> Any:
    """Of every factor."""
    return {name: each[which] for name, each in x.items()} if isinstance(x, dict) else x[which]


# ---- kinds ----------------------------------------------------------------------------------------


def continuous(kind: str, network: str, n: int, seed: int) -> Row:
    """Latents of the worlds of optimum.py; of series also forecasts."""
    named = {"views": "fa", "smooth": "gp", "dynamics": "lds"}[kind]
    make, size, world = optimum.MODELS[named]
    truth = world(n + NEW.get(kind, 200), seed)
    old, new, z = some(truth.x, slice(n)), some(truth.x, slice(n, None)), truth.z
    model = make(size, network=network, random_state=seed).fit(old)
    line = rp.metrics.rotation(model.transform(old), z[:n])
    found = model.posterior(new)
    row = {
        "bands": covered(found.mean, found.uncertainty, line, z[n:]),
        "q": covered(found.mean, found.covariance, line, z[n:]),
    }
    if kind != "views":
        ahead = model.forecast(new[:, :SEEN], AHEAD)
        row["ahead"] = covered(ahead.mean, ahead.covariance, line, z[n:, SEEN : SEEN + AHEAD])
    return {**row, **fitted(model, old, new)}


def population(network: str, n: int, seed: int) -> Row:
    """Poisson counts of channels behind two smooth latents, by populations.py; every channel its own factor."""
    z = populations.latents(n + populations.NEW, np.random.default_rng(seed))
    x = populations.observed("poisson", z, CHANNELS, seed)
    model = rp.RPGPFA(populations.LATENTS, network=network, channels="separate", random_state=seed).fit(x[:n])
    line = rp.metrics.rotation(model.transform(x[:n]), z[:n])
    found = model.posterior(x[n:])
    row = {
        "bands": covered(found.mean, found.uncertainty, line, z[n:]),
        "q": covered(found.mean, found.covariance, line, z[n:]),
    }
    return {**row, **fitted(model, x[:n], x[n:]), "temperature": model.temperature_}


def categorical(network: str, n: int, seed: int) -> Row:
    """An object of graph_worlds.py, one of three, seen by two noisy views."""
    world = hierarchy(n + NEW["categorical"], seed, places=3, objects=3, kinds=1, noise=NOISE)
    model = rp.RPCategorical(3, network=network, random_state=seed).fit(some(world.x, slice(n)))
    return states(model, world.x, world.z[:, 1], n)


def dim(network: str, n: int, seed: int) -> Row:
    """States of the first step of optimum.py's chain, which four channels tell dimly: three factors of one and two."""
    truth = optimum.chain(n + NEW["categorical"], seed)
    first = truth.x[:, 0]
    x = {"a": first[:, :1], "b": first[:, 1:2], "c": first[:, 2:]}
    model = rp.RPCategorical(3, network=network, random_state=seed).fit(some(x, slice(n)))
    return states(model, x, truth.z[:, 0], n)


def hmm(network: str, n: int, seed: int) -> Row:
    """States of optimum.py's chain."""
    truth = optimum.chain(n + NEW["hmm"], seed)
    model = rp.RPHMM(3, network=network, random_state=seed).fit(truth.x[:n])
    return states(model, truth.x, truth.z, n)


def states(model: Any, x: Any, z: NDArray[np.int64], n: int) -> Row:
    """Probabilities of states, in the order that fits the data of the fit best."""
    old, new = some(x, slice(n)), some(x, slice(n, None))
    found = np.asarray(model.predict_proba(new), float)
    order = rp.metrics.match_states(z[:n].ravel(), np.asarray(model.predict(old)).ravel(), found.shape[-1])
    return {"probabilities": trusted(found[..., np.argsort(order)], z[n : n + len(found)]), **fitted(model, old, new)}


def graph(network: str, n: int, seed: int) -> Row:
    """A place with three objects of three kinds each, seen by two noisy views: all latents together."""
    world = hierarchy(n + NEW["graph"], seed, places=3, objects=3, kinds=3, noise=NOISE)
    old, new = some(world.x, slice(n)), some(world.x, slice(n, None))
    model = rp.RPGraph(**world.told, network=network, random_state=seed).fit(old)
    parts, before, after = [], model.predict(old), model.predict_proba(new)
    for a, found in enumerate(after):
        order = rp.metrics.match_states(world.z[:n, a], before[:, a], found.shape[-1])
        parts.append(np.asarray(found, float)[:, np.argsort(order)])
    return {"probabilities": trusted(np.stack(parts, 1), world.z[n:]), **fitted(model, old, new)}


def imputed(kind: str, network: str, n: int, seed: int) -> Row:
    """What is missing in new data of the worlds of imputation.py, given what is there."""
    make_world, make, count = imputation.KINDS[kind]
    random = np.random.default_rng(seed)
    world = make_world(random)
    old, new = world(random, n), world(random, NEW["imputed rows" if count == imputation.ROWS else "imputed trials"])
    model = make(seed).set_params(network=network).fit(old)
    places = imputation.imputed(model, new, old, random)
    row = {"imputed": {f"{level:g}": float((np.abs(places - 0.5) < level / 2).mean()) for level in LEVELS}}
    return {**row, **fitted(model, old, new)}


def fitted(model: Any, old: Any, new: Any) -> Row:
    """What a fit was like: over-fitting is the gap between the two scores."""
    scores = {"score": float(model.score(old)), "score, new": float(model.score(new))}
    return {**scores, "converged": bool(model.converged_), "stopped": model.stop_reason_}


KINDS: dict[str, Callable[[str, int, int], Row]] = {
    "views": partial(continuous, "views"),
    "categorical": categorical,
    "dim": dim,
    "impute-fa": partial(imputed, "fa"),
    "impute-categorical": partial(imputed, "categorical"),
    "dynamics": partial(continuous, "dynamics"),
    "hmm": hmm,
    "graph": graph,
    "smooth": partial(continuous, "smooth"),
    "impute-lds": partial(imputed, "lds"),
    "impute-gpfa": partial(imputed, "gpfa"),
    "population": population,
}
"""Cheapest first."""


# ---- rows and their table -------------------------------------------------------------------------


def one(kind: str, network: str, n: int, seed: int) -> Row:
    """A row."""
    began = time.process_time()
    found = KINDS[kind](network, n, seed)
    seconds = round(time.process_time() - began, 1)
    return {"kind": kind, "network": network, "n": n, "seed": seed, **_rounded(found), "seconds": seconds}


def _rounded(found: Any) -> Any:
    if isinstance(found, dict):
        return {name: _rounded(each) for name, each in found.items()}
    return round(found, 4) if isinstance(found, float) else found


def told(rows: Sequence[Row]) -> str:
    """A line for every kind, network and size: means over seeds, and where they are off their bars."""
    lines = [
        "| kind | network | N | what | seeds | 50 % | 90 % | 95 % | z² | bar |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    order = list(KINDS)
    cells = sorted({(order.index(row["kind"]), row["network"], row["n"]) for row in rows})
    for place, network, n in cells:
        own = [row for row in rows if (row["kind"], row["network"], row["n"]) == (order[place], network, n)]
        for what in ("bands", "q", "ahead", "imputed", "probabilities"):
            parts = [row[what] for row in own if what in row]
            if parts:
                lines.append(f"| {order[place]} | {network} | {n} | {what} | {len(parts)} | {_cell(what, parts)} |")
    return "\n".join(lines)


def _cell(what: str, parts: Sequence[dict[str, float]]) -> str:
    mean = {name: float(np.mean([each[name] for each in parts])) for name in parts[0]}
    if what == "probabilities":
        spread = f"{min(each['ece'] for each in parts):.3f} – {max(each['ece'] for each in parts):.3f}"
        text = f"ECE {mean['ece']:.3f} ({spread}) | confidence {mean['confidence']:.3f} | accuracy"
        return f"{text} {mean['accuracy']:.3f} |  | {'met' if mean['ece'] <= ERROR else 'missed'}"
    within = all(abs(mean[f"{level:g}"] - level) <= WITHIN for level in LEVELS)
    columns = []
    for level in LEVELS:
        each = [part[f"{level:g}"] for part in parts]
        columns.append(f"{mean[f'{level:g}']:.3f} ({min(each):.3f} – {max(each):.3f})")
    squares = f"{mean['z2']:.2f}" if "z2" in mean else ""
    return " | ".join([*columns, squares, "met" if within else "missed"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--networks", nargs="+", default=["linear", "mlp"])
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 400])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, help="lines of JSON, added to as rows are finished; what is there is kept")
    parser.add_argument("--table", type=Path, help="no fits: the table of these rows")
    given = parser.parse_args()
    if given.table is not None:
        print(told([json.loads(line) for line in given.table.read_text(encoding="utf-8").splitlines()]))
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    known: list[Row] = []
    if given.out is not None and given.out.exists():
        known = [json.loads(line) for line in given.out.read_text(encoding="utf-8").splitlines()]
    done = {(row["kind"], row["network"], row["n"], row["seed"]) for row in known}
    for n, kind, network, seed in product(given.sizes, given.kinds, given.networks, given.seeds):
        if (kind, network, n, seed) in done:
            continue
        known.append(one(kind, network, n, seed))
        print(json.dumps(known[-1]), flush=True)
        if given.out is not None:
            with given.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(known[-1]) + "\n")
    print(told(known))


if __name__ == "__main__":
    main()
