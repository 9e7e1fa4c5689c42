"""Simulated graphs of discrete latents: what benchmarks/graph.py and its seeds are run on."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """Observations, the true states (N, A), and what the model is told."""

    x: dict[str, NDArray[Any]]
    z: NDArray[np.int64]
    told: dict[str, Any]
    tables: dict[str, Table] = field(default_factory=dict)
    """p(latent | parents), where they are simple."""


def hierarchy(n: int, seed: int, places: int = 4, objects: int = 6, kinds: int = 4, noise: float = 1.0) -> World:
    """place → several kinds of objects → two views of each: bright patterns in noise."""
    random = np.random.default_rng(seed)
    place = random.integers(places, size=n)
    columns, tables, x = [place], [], {}
    for kind in range(kinds):
        table = np.full((places, objects), 0.1 / (objects - 2))
        table[np.arange(places), random.permutation(objects)[:places]] = 0.8
        table[np.arange(places), (table.argmax(1) + 1) % objects] = 0.1
        table /= table.sum(1, keepdims=True)
        tables.append(table)
        here = (random.random(n)[:, None] > table[place].cumsum(1)).sum(1).clip(max=objects - 1)
        columns.append(here)
        for view in ("left", "right"):
            means = 1.5 * random.standard_normal((objects, 10))
            x[f"{view} {kind}"] = means[here] + noise * random.standard_normal((n, 10))
    names = [f"object {kind}" for kind in range(kinds)]
    told = {
        "states": {"place": places, **dict.fromkeys(names, objects)},
        "parents": {name: ["place"] for name in names},
        "targets": {f"{view} {kind}": [f"object {kind}"] for kind in range(kinds) for view in ("left", "right")},
    }
    return World(x, np.stack(columns, 1), told, dict(zip(names, tables, strict=True)))


def grid(n: int, seed: int, rows: int = 3, columns: int = 30, stay: float = 0.85, noise: float = 0.7) -> World:
    """Binary latents on a grid, each like its left and upper neighbours with some probability; one view of each."""
    random = np.random.default_rng(seed)
    z = np.zeros((n, rows, columns), np.int64)
    parents = {}
    for r in range(rows):
        for c in range(columns):
            near = [(r, c - 1)] * (c > 0) + [(r - 1, c)] * (r > 0)
            votes = sum((2 * z[:, i, j] - 1 for i, j in near), np.zeros(n))
            p = np.where(votes > 0, stay, np.where(votes < 0, 1 - stay, 0.5))
            z[:, r, c] = random.random(n) < p
            if near:
                parents[f"z{r},{c}"] = [f"z{i},{j}" for i, j in near]
    names = [f"z{r},{c}" for r in range(rows) for c in range(columns)]
    flat = z.reshape(n, -1)
    x = {}
    for a, name in enumerate(names):
        means = random.standard_normal((2, 3))
        x[f"x{name[1:]}"] = means[flat[:, a]] + noise * random.standard_normal((n, 3))
    told = {
        "states": dict.fromkeys(names, 2),
        "parents": parents,
        "targets": {f"x{name[1:]}": [name] for name in names},
    }
    return World(x, flat, told)
