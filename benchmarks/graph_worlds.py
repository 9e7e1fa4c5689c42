"""Simulated graphs of discrete latents: what benchmarks/graph.py and its seeds are run on."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from rpmodels.carriers import Sites
from rpmodels.priors import DiscreteGraph

Table = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """Observations, the true states (N, A), and what the model is told."""

    x: dict[str, NDArray[Any]]
    z: NDArray[np.int64]
    told: dict[str, Any]
    tables: dict[str, Table] = field(default_factory=dict)
    """p(latent | parents), where they are simple."""
    log_likelihood: Table | None = None
    """(N, A, K) of what is seen of every latent, where that is one view alone."""
    prior: DiscreteGraph | None = None
    """What latents were drawn from, where tables do not say it."""
    strengths: Table | None = None
    """Of couplings, as `cliques` are told."""


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
    x, said, tables = {}, [], {}
    for a, name in enumerate(names):
        means = random.standard_normal((2, 3))
        seen = means[flat[:, a]] + noise * random.standard_normal((n, 3))
        x[f"x{name[1:]}"] = seen
        said.append(-0.5 * np.square((seen[:, None] - means) / noise).sum(-1))
        tables[name] = _votes(len(parents.get(name, ())), stay)
    told = {
        "states": dict.fromkeys(names, 2),
        "parents": parents,
        "targets": {f"x{name[1:]}": [name] for name in names},
    }
    return World(x, flat, told, tables, np.stack(said, 1))


def _votes(parents: int, stay: float) -> Table:
    """p(1 | parents): `stay` where most of them are 1, one half where there is no majority."""
    table = np.zeros((2,) * (parents + 1))
    for given in np.ndindex(*(2,) * parents):
        votes = sum(2 * each - 1 for each in given)
        one = stay if votes > 0 else 1.0 - stay if votes < 0 else 0.5
        table[given] = 1.0 - one, one
    return table


def spins(n: int, seed: int, rows: int = 3, columns: int = 30, coupling: float = 0.5, noise: float = 0.7) -> World:
    """Binary latents on a grid, coupled to their neighbours by strengths around ± `coupling`; one view of each."""
    random = np.random.default_rng(seed)
    places = list(np.ndindex(rows, columns))
    names = [f"z{r},{c}" for r, c in places]
    near = [((r, c), other) for r, c in places for other in ((r, c + 1), (r + 1, c)) if other in places]
    cliques = [(f"z{a[0]},{a[1]}", f"z{b[0]},{b[1]}") for a, b in near]
    strengths = coupling * random.choice([-1.0, 1.0], len(near)) * random.uniform(0.5, 1.5, len(near))
    prior = DiscreteGraph.learned(dict.fromkeys(names, 2), cliques=cliques).double()
    for clique, psi, strength in zip(cliques, prior.log_potentials, strengths, strict=True):
        assert [prior.names[a] for a in prior.cliques[cliques.index(clique)]] == list(clique)
        psi.data = strength * torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    with torch.no_grad():
        z = prior.sample(Sites.single(n), torch.Generator().manual_seed(seed))[:, 0].numpy()
    x, said = {}, []
    for a, name in enumerate(names):
        means = random.standard_normal((2, 3))
        x[f"x{name[1:]}"] = means[z[:, a]] + noise * random.standard_normal((n, 3))
        said.append(-0.5 * np.square((x[f"x{name[1:]}"][:, None] - means) / noise).sum(-1))
    told = {
        "states": dict.fromkeys(names, 2),
        "cliques": cliques,
        "targets": {f"x{name[1:]}": [name] for name in names},
    }
    return World(x, z, told, {}, np.stack(said, 1), prior, strengths)


@dataclass(frozen=True)
class Clusters:
    """Two views (N, D) of points that come from clusters, these, and how well the truth itself tells them."""

    x: dict[str, NDArray[Any]]
    z: NDArray[np.int64]
    known: float


def clusters(n: int, seed: int, k: int = 4, noise: float = 0.7) -> Clusters:
    """Clusters of a plane of unequal size and form, behind two linear views."""
    random = np.random.default_rng(seed)
    centres = 2.0 * np.stack([(np.cos(a), np.sin(a)) for a in 2 * np.pi * np.arange(k) / k])
    shares = random.dirichlet(5.0 * np.ones(k))
    roots = 0.4 * (np.eye(2) + 0.5 * random.standard_normal((k, 2, 2)))
    z = random.choice(k, n, p=shares)
    points = centres[z] + np.einsum("nij,nj->ni", roots[z], random.standard_normal((n, 2)))
    maps = random.standard_normal((2, 2, 8))
    x = {name: points @ m + noise * random.standard_normal((n, 8)) for name, m in zip("ab", maps, strict=True)}
    wide, both = np.concatenate(list(x.values()), 1), np.concatenate(list(maps), 1)
    logs = []
    for share, centre, root in zip(shares, centres, roots, strict=True):
        covariance = both.T @ root @ root.T @ both + noise**2 * np.eye(16)
        apart = wide - centre @ both
        form = (apart * np.linalg.solve(covariance, apart.T).T).sum(1)
        logs.append(np.log(share) - 0.5 * form - 0.5 * np.linalg.slogdet(covariance)[1])
    return Clusters(x, z, float((np.argmax(logs, 0) == z).mean()))


@dataclass(frozen=True)
class Trials:
    """One factor along time (N, T, *event), and the true states (N, T, A)."""

    x: NDArray[Any]
    z: NDArray[np.int64]


def semi_markov(trials: int, length: int, seed: int) -> Trials:
    """Three states that last 3 – 6, 6 – 9 and 2 – 3 steps, behind vectors."""
    random = np.random.default_rng(seed)
    lasts = [np.arange(3, 7), np.arange(6, 10), np.arange(2, 4)]
    z = np.zeros((trials, length + 20), np.int64)
    for row in z:
        t, state = 0, int(random.integers(3))
        while t < len(row):
            steps = int(random.choice(lasts[state]))
            row[t : t + steps] = state
            t, state = t + steps, int(random.choice([k for k in range(3) if k != state]))
    z = z[:, 20:]  # trials begin at any age
    means = 1.5 * random.standard_normal((3, 6))
    return Trials(means[z] + random.standard_normal((*z.shape, 6)), z[..., None])


def superposed(trials: int, length: int, seed: int, k: int = 3) -> Trials:
    """Two chains of digits, images of both added up: 0, 1, 2 and 3, 4, 5, each going round with a habit of staying."""
    random = np.random.default_rng(seed)
    digits = load_digits()
    z = np.zeros((trials, length, 2), np.int64)
    for t in range(length):
        if t == 0:
            z[:, 0] = random.integers(k, size=(trials, 2))
            continue
        move = random.random((trials, 2)) < [0.2, 0.4]
        z[:, t] = np.where(move, (z[:, t - 1] + 1) % k, z[:, t - 1])
    images = np.zeros((trials, length, 8, 8))
    for chain in range(2):
        for state in range(k):
            known = np.flatnonzero(digits.target == state + chain * k)
            here = z[..., chain] == state
            images[here] += digits.images[random.choice(known, int(here.sum()))]
    return Trials(images / 16.0, z)


def runs_of(states: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """State and length of every run that begins and ends within its trial."""
    of, lengths = [], []
    for row in states:
        ends = np.flatnonzero(np.diff(row)) + 1
        of.append(row[ends[:-1]])
        lengths.append(np.diff(ends))
    return np.concatenate(of), np.concatenate(lengths)
