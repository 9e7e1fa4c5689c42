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


def hierarchy(n: int, seed: int, places: int = 4, objects: int = 6, kinds: int = 3, noise: float = 1.0) -> World:
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
