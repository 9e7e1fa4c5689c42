"""Graphs of discrete latents: what a step costs beside the bare network, and whether the true states are found.

    python benchmarks/graph.py step
    python benchmarks/graph.py hierarchy --seeds 0 1 2
    python benchmarks/graph.py grid --seeds 0 1 2
    python benchmarks/graph.py field --seeds 0 1 2
    python benchmarks/graph.py mixture --seeds 0 1 2
    python benchmarks/graph.py durations --seeds 0 1 2
    python benchmarks/graph.py superposed --seeds 0 1 2

One thread. `step`: six latents of four states, tree width 2, 10 000 observations in a step, processor time.
`hierarchy`: place → objects → views. `grid`: 3 × 30 binary latents, each with its right and lower neighbour.
`field`: the same grid by potentials of neighbours. `mixture`: latents from four normals, behind two linear views.
`durations`: a semi-Markov chain. `superposed`: two chains of digits in one image. Both are `RPHMM` by its defaults.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import rpmodels as rp
from graph_worlds import World, clusters, grid, hierarchy, runs_of, semi_markov, spins, superposed
from rpmodels import metrics
from rpmodels.carriers import Sites
from rpmodels.families import JointStates
from rpmodels.learning.loop import GOAL
from rpmodels.learning.objective import RPMObjective
from rpmodels.priors import DiscreteGraph

OBSERVATIONS, STATES, ROUNDS = 10_000, 4, 9


def step() -> None:
    names = [f"z{a}" for a in range(6)]
    parents = {name: names[max(0, a - 2) : a] for a, name in enumerate(names) if a}
    random = np.random.default_rng(0)
    x = rp.read({f"x{a}": random.standard_normal((OBSERVATIONS, 10)) for a in range(6)})
    targets = {f"x{a}": [name] for a, name in enumerate(names)}
    model, _ = rp.RPGraph(dict.fromkeys(names, STATES), parents=parents, targets=targets, random_state=0).build(x)
    model.prepare(x)
    objective = RPMObjective(model, x).train()
    batch = x.batch(np.arange(OBSERVATIONS), model.dtype, model.device)
    optimiser = torch.optim.AdamW(model.parameters())

    def whole() -> None:
        optimiser.zero_grad()
        torch.autograd.backward(-objective(batch)[GOAL])
        optimiser.step()

    def bare() -> None:
        optimiser.zero_grad()
        torch.autograd.backward([each.g.square().sum() for each in model.recognise(batch).values()])
        optimiser.step()

    one, other = _milliseconds(whole), _milliseconds(bare)
    print(f"step {one:.0f} ms, bare network {other:.0f} ms: {one / other:.2f} times")


def _milliseconds(work: Callable[[], None]) -> float:
    """Processor time, the least of some rounds."""
    work()
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1e3 * min(times)


def accuracy(world: World, found: np.ndarray) -> list[float]:
    """Of every latent, up to the order of its states."""
    values = []
    for a, size in enumerate(world.told["states"].values()):
        order = metrics.match_states(world.z[:, a], found[:, a], size)
        values.append(float((order[found[:, a]] == world.z[:, a]).mean()))
    return values


@torch.no_grad()
def oracle(world: World) -> np.ndarray:
    """The most probable configurations under the tables and views that made the data."""
    assert world.log_likelihood is not None
    states = world.told["states"]
    tables = {name: torch.as_tensor(each) for name, each in world.tables.items()}
    prior = world.prior or DiscreteGraph.fixed(states, world.told["parents"], tables).double()
    said = torch.as_tensor(world.log_likelihood)
    ways = [prior.family.targets([a])[1] for a in range(len(states))]
    potentials = torch.stack([way.embed(said[:, None, a]) for a, way in enumerate(ways)]).sum(0)
    posterior = prior.condition(potentials, Sites.single(len(said)))
    return posterior.most_probable()[:, 0].numpy()


def recovery(make: Callable[[int], World], seed: int, **settings: Any) -> None:
    world = make(seed)
    start = time.process_time()
    model = rp.RPGraph(**world.told, random_state=seed, **settings).fit(world.x)
    taken = time.process_time() - start
    values = accuracy(world, model.predict(world.x))
    family = model.model_.prior.family
    assert isinstance(family, JointStates)
    widest = max(len(node.latents) for node in family.tree.nodes)
    best = "" if world.log_likelihood is None else f" (by the true model {np.mean(accuracy(world, oracle(world))):.4f})"
    if world.strengths is not None:
        best += f", couplings r = {np.corrcoef(world.strengths, _couplings(model, world))[0, 1]:.3f}"
    shown = np.round(values, 4).tolist() if len(values) < 8 else ""
    print(
        f"seed {seed}: mean {np.mean(values):.4f}{best}, least {min(values):.4f} {shown}; "
        f"score {float(model.score_):.3f}, "
        f"largest clique {widest} latents, {model.n_iter_} steps, {taken:.0f} s of CPU",
        flush=True,
    )


def _couplings(model: rp.RPGraph, world: World) -> list[float]:
    """Of every clique of two spins, in the order of the states of the truth."""
    found, names = model.predict(world.x), list(world.told["states"])
    sign = {name: 1 if (found[:, a] == world.z[:, a]).mean() > 0.5 else -1 for a, name in enumerate(names)}
    tables = model.potentials_
    return [
        0.25 * sign[a] * sign[b] * float(psi[0, 0] + psi[1, 1] - psi[0, 1] - psi[1, 0])
        for (a, b), psi in tables.items()
    ]


def mixture(seed: int) -> None:
    world, k = clusters(1_000, seed), 4
    start = time.process_time()
    full = rp.Recognition(covariance="full")
    model = rp.RPFA(2, n_components=k, network="linear", recognition=full, random_state=seed).fit(world.x)
    taken = time.process_time() - start
    states = rp.RPCategorical(k, prior="learned", random_state=seed).fit(world.x).predict(world.x)
    right = []
    for found in (model.predict(world.x), states):
        order = metrics.match_states(world.z, found, k)
        right.append(float((order[found] == world.z).mean()))
    print(
        f"seed {seed}: components {right[0]:.4f}, RPCategorical {right[1]:.4f}, the true model {world.known:.4f}; "
        f"score {float(model.score_):.3f}, {model.n_iter_} steps, {taken:.0f} s of CPU",
        flush=True,
    )


def semi_markov_durations(seed: int) -> None:
    world = semi_markov(200, 60, seed)
    start = time.process_time()
    model = rp.RPHMM(3, durations=10, random_state=seed).fit(world.x)
    taken = time.process_time() - start
    found = model.predict(world.x)
    order = metrics.match_states(world.z.ravel(), found.ravel(), 3)
    of, lengths = runs_of(world.z[..., 0])
    distances = []
    for state, learned in enumerate(model.durations_):
        own = lengths[of == order[state]].clip(max=10)
        distances.append(0.5 * float(np.abs(np.bincount(own, minlength=11)[1:] / len(own) - learned).sum()))
    right = float((order[found] == world.z[..., 0]).mean())
    print(
        f"seed {seed}: states {right:.4f}, total variation of durations {np.round(distances, 4).tolist()}; "
        f"score {float(model.score_):.3f}, {model.n_iter_} steps, {taken:.0f} s of CPU",
        flush=True,
    )


def superposed_digits(seed: int) -> None:
    world = superposed(100, 50, seed)
    start = time.process_time()
    model = rp.RPHMM({"a": 3, "b": 3}, random_state=seed).fit(world.x)
    taken = time.process_time() - start
    found = model.predict(world.x)
    right = []
    for pair in ((0, 1), (1, 0)):  # which chain is which is free
        orders = [metrics.match_states(world.z[..., c].ravel(), found[..., d].ravel(), 3) for c, d in enumerate(pair)]
        each = [
            (order[found[..., d]] == world.z[..., c]).mean()
            for c, (d, order) in enumerate(zip(pair, orders, strict=True))
        ]
        right.append([float(value) for value in each])
    print(
        f"seed {seed}: both chains {np.round(max(right, key=min), 4).tolist()}; score {float(model.score_):.3f}, "
        f"{model.n_iter_} steps, {taken:.0f} s of CPU",
        flush=True,
    )


def main() -> None:
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("step", "hierarchy", "grid", "field", "durations", "superposed", "mixture"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    if given.what == "step":
        step()
        return
    for seed in given.seeds:
        if given.what == "hierarchy":
            recovery(lambda s: hierarchy(2_000, s), seed)
        elif given.what == "durations":
            semi_markov_durations(seed)
        elif given.what == "superposed":
            superposed_digits(seed)
        elif given.what == "mixture":
            mixture(seed)
        elif given.what == "field":
            recovery(lambda s: spins(500, s), seed, max_iter=200, n_init=2)
        else:
            recovery(lambda s: grid(500, s), seed, max_iter=200, n_init=2)


if __name__ == "__main__":
    main()
