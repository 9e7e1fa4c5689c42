"""Is what a model imputes as probable as it says? Writes docs/results/imputation.json.

python benchmarks/imputation.py [fa|categorical|circular|graph|hmm|gpfa|lds|lda …] [--seeds N] [--first SEED]

One factor of two is missing (of topics: a third of the parts). The true value's place among the atoms, by their imputed
probabilities, is uniform where these are right: how often it is in the central half, in the central nine tenths, and
how far its distribution is from the uniform one. Beside it, how many kinds of difference `diagnose` finds between the
data and draws of the model. Once for data that the fitted model draws itself, once for new data of the simulated world.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rpmodels as rp
from rpmodels.persistence import write_json

OUT = Path(__file__).parent.parent / "docs" / "results" / "imputation.json"
Data = Any
"""A dict of two factors, or one array."""
World = Callable[[np.random.Generator, int], Data]
TRIALS, LENGTH, ROWS = 60, 25, 400


def views(random: np.random.Generator) -> World:
    """Two linear-Gaussian views of two latents."""
    loadings = {name: random.normal(size=(2, 3)) for name in "ab"}

    def draw(random: np.random.Generator, n: int) -> Data:
        z = random.normal(size=(n, 2))
        return {name: z @ each + 0.7 * random.normal(size=(n, 3)) for name, each in loadings.items()}

    return draw


def headings(random: np.random.Generator) -> World:
    """Two linear views of an angle."""
    loadings = {name: random.normal(size=(2, 3)) for name in "ab"}

    def draw(random: np.random.Generator, n: int) -> Data:
        z = random.uniform(-np.pi, np.pi, n)
        points = np.stack([np.cos(z), np.sin(z)], -1)
        return {name: points @ each + 0.5 * random.normal(size=(n, 3)) for name, each in loadings.items()}

    return draw


def clusters(random: np.random.Generator) -> World:
    """Two views of one of four states."""
    centres = {name: random.normal(size=(4, 3)) for name in "ab"}

    def draw(random: np.random.Generator, n: int) -> Data:
        z = random.integers(4, size=n)
        return {name: each[z] + 0.6 * random.normal(size=(n, 3)) for name, each in centres.items()}

    return draw


def pairs(random: np.random.Generator) -> World:
    """One view of a latent, another of it and a second one that depends on it."""
    first, both = random.normal(size=(2, 3)), random.normal(size=(2, 2, 3))

    def draw(random: np.random.Generator, n: int) -> Data:
        u = random.integers(2, size=n)
        v = (random.random(n) < np.where(u == 1, 0.8, 0.3)).astype(int)
        noise = 0.6 * random.normal(size=(2, n, 3))
        return {"a": first[u] + noise[0], "b": both[u, v] + noise[1]}

    return draw


def chain(random: np.random.Generator) -> World:
    """Two views of three states that stay with probability 0.9."""
    centres = {name: random.normal(size=(3, 2)) for name in "ab"}

    def draw(random: np.random.Generator, n: int) -> Data:
        z = np.empty((n, LENGTH), int)
        z[:, 0] = random.integers(3, size=n)
        for t in range(1, LENGTH):
            z[:, t] = np.where(random.random(n) < 0.9, z[:, t - 1], random.integers(3, size=n))
        return {name: each[z] + 0.7 * random.normal(size=(*z.shape, 2)) for name, each in centres.items()}

    return draw


def rotation(random: np.random.Generator) -> World:
    """Two linear views of a slowly dying rotation."""
    loadings = {name: random.normal(size=(2, 3)) for name in "ab"}
    step = 0.95 * np.array([[np.cos(0.3), -np.sin(0.3)], [np.sin(0.3), np.cos(0.3)]])

    def draw(random: np.random.Generator, n: int) -> Data:
        z = np.empty((n, LENGTH, 2))
        z[:, 0] = random.normal(size=(n, 2))
        for t in range(1, LENGTH):
            z[:, t] = z[:, t - 1] @ step.T + np.sqrt(1 - 0.95**2) * random.normal(size=(n, 2))
        return {name: z @ each + 0.7 * random.normal(size=(n, LENGTH, 3)) for name, each in loadings.items()}

    return draw


def topics(random: np.random.Generator) -> World:
    """Parts around three centres, in proportions of every observation's own."""
    centres = 1.5 * random.normal(size=(3, 3))

    def draw(random: np.random.Generator, n: int) -> Data:
        shares = random.dirichlet([0.3] * 3, n)
        z = np.array([random.choice(3, 20, p=each) for each in shares])
        return centres[z] + 0.6 * random.normal(size=(*z.shape, 3))

    return draw


KINDS: dict[str, tuple[Callable[[np.random.Generator], World], Callable[[int], Any], int]] = {
    "fa": (views, lambda seed: rp.RPFA(2, random_state=seed), ROWS),
    "categorical": (clusters, lambda seed: rp.RPCategorical(4, random_state=seed), ROWS),
    "circular": (headings, lambda seed: rp.RPCircular(random_state=seed), ROWS),
    "graph": (
        pairs,
        lambda seed: rp.RPGraph(
            {"u": 2, "v": 2}, parents={"v": ["u"]}, targets={"a": ["u"], "b": ["u", "v"]}, random_state=seed
        ),
        ROWS,
    ),
    "hmm": (chain, lambda seed: rp.RPHMM(3, random_state=seed), TRIALS),
    "gpfa": (rotation, lambda seed: rp.RPGPFA(2, random_state=seed), TRIALS),
    "lds": (rotation, lambda seed: rp.RPLDS(2, random_state=seed), TRIALS),
    "lda": (topics, lambda seed: rp.RPLDA(3, random_state=seed), 2 * TRIALS),
}


def places(weights: np.ndarray, rows: np.ndarray, true: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Where true values (M, D) stand among rows (A, D) of these probabilities (M, A), in [0, 1]; ties at random."""
    found = []
    for d in range(rows.shape[1]):
        order = np.argsort(rows[:, d], kind="stable")
        sums = np.concatenate([np.zeros((len(weights), 1)), np.cumsum(weights[:, order], 1)], 1)
        low, high = (np.searchsorted(rows[order, d], true[:, d], side) for side in ("left", "right"))
        each = np.arange(len(weights))
        below, upto = sums[each, low], sums[each, high]
        found.append(below + random.random(len(weights)) * (upto - below))
    return np.stack(found, 1)


def imputed(model: Any, seen: Data, training: Data, random: np.random.Generator) -> np.ndarray:
    """The places of what is missing."""
    if isinstance(seen, dict):
        values, rows, gone = (
            model.impute({"a": seen["a"]}, "b").values,
            training["b"],
            np.ones(seen["b"].shape[:-1], bool),
        )
        true = seen["b"]
    else:
        gone = random.random(seen.shape[:2]) < 1 / 3
        values, rows, true = model.impute(seen, presence=~gone).values, training, seen
    if values.ndim == 3 and values.shape[-1] == len(rows):  # every time has its own atoms
        parts = [places(values[:, t], rows[:, t], true[:, t], random) for t in range(values.shape[1])]
        return np.concatenate(parts)
    return places(values[gone], rows.reshape(-1, rows.shape[-1]), true[gone], random)


def calibration(places: np.ndarray) -> dict[str, float]:
    """Coverage of the central half and nine tenths, and the largest distance from the uniform distribution."""
    ordered = np.sort(places.ravel())
    uniform = (np.arange(len(ordered)) + 0.5) / len(ordered)
    return {
        "half": float((np.abs(places - 0.5) < 0.25).mean()),
        "nine_tenths": float((np.abs(places - 0.5) < 0.45).mean()),
        "distance": float(np.abs(ordered - uniform).max()),
    }


def one(kind: str, seed: int) -> dict[str, float]:
    """A world, a fit, and both kinds of new data."""
    make_world, make, count = KINDS[kind]
    random = np.random.default_rng(seed)
    world = make_world(random)
    training = world(random, count)
    model = make(seed).fit(training)
    drawn, _ = model.sample(count, rows=training, random_state=seed)
    own = drawn if isinstance(training, dict) else next(iter(drawn.values()))
    found = {}
    for name, new in (("model", own), ("world", world(random, count))):
        found[name] = calibration(imputed(model, new, training, random))
        findings = rp.evaluation.diagnose(model, new).findings
        found[name]["alarms"] = sum(each.name == "unlike its draws" for each in findings)
    return {f"{name}_{what}": value for what, each in found.items() for name, value in each.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    known = json.loads(OUT.read_text()) if OUT.exists() else {}
    for kind in chosen.kinds or KINDS:
        rows = [one(kind, seed) for seed in range(chosen.first, chosen.first + chosen.seeds)]
        table = {name: [row[name] for row in rows] for name in rows[0]}
        for name, values in table.items():
            print(kind, name, ", ".join(f"{value:.3f}" for value in values), flush=True)
        if chosen.first == 0:
            known[kind] = table
            write_json(OUT, known)


if __name__ == "__main__":
    main()
