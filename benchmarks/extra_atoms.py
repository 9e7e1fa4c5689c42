"""What a minibatch costs the mixture: bias of three kinds of atoms against F_j over all the data.

Along one training run, the free energy and its gradient of every minibatch are compared with those of the whole data
set at the same weights: means over steps, so that what is left is bias, not noise.
`python benchmarks/extra_atoms.py [--out docs/results/extra_atoms.json]`
"""

import argparse
import json
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

import rpmodels as rp
from rpmodels.carriers import Batch
from rpmodels.communicator import ALONE
from rpmodels.fitted import FittedRPM
from rpmodels.learning import RPMObjective
from rpmodels.learning.batch_reader import BatchReader
from rpmodels.learning.batches import Minibatches
from rpmodels.mixtures import ExtraAtoms, FreshAtoms, NoExtraAtoms, RememberedAtoms
from rpmodels.observations import Observations, read

N, EXTRA, STEPS, EVERY = 2000, 1000, 300, 3
NO_DROPOUT = rp.Recognition(dropout=0.0, input_dropout=0.0)
Make = Callable[[np.random.Generator], tuple[rp.estimators.RPMEstimator, Observations]]
KINDS: dict[str, Callable[[], ExtraAtoms]] = {
    "own": NoExtraAtoms,
    "remembered": lambda: RememberedAtoms(EXTRA),
    "fresh": lambda: FreshAtoms(EXTRA),
}


def discrete(random: np.random.Generator) -> tuple[rp.estimators.RPMEstimator, Observations]:
    """Ten classes seen twice."""
    z = random.integers(10, size=N)
    X = {name: random.normal(size=(10, 20))[z] + random.normal(size=(N, 20)) for name in "ab"}
    return rp.RPCategorical(10, recognition=NO_DROPOUT, random_state=0), read(X)


def continuous(random: np.random.Generator) -> tuple[rp.estimators.RPMEstimator, Observations]:
    """Two numbers seen through two curved surfaces, sharply."""
    z = random.normal(size=(N, 2))
    X = {name: np.tanh(z @ random.normal(size=(2, 20))) + 0.2 * random.normal(size=(N, 20)) for name in "ab"}
    return rp.RPFA(2, recognition=NO_DROPOUT, random_state=0), read(X)


def gradient(model: rp.RPM, objective: RPMObjective, batch: Batch) -> tuple[float, torch.Tensor]:
    """Free energy of a batch, and its derivative by all weights of the networks."""
    model.zero_grad(set_to_none=True)
    value = objective(batch)["free_energy"]
    torch.autograd.backward([-value])
    found = [each.grad for each in model.recognition.parameters()]
    return float(value.detach()), torch.cat([each.flatten() for each in found if each is not None])


def measured(make: Make, kind: str, size: int, rate: float) -> dict[str, float]:
    """Mean differences over the second half of a run, and how well the run did."""
    estimator, observations = make(np.random.default_rng(0))
    model, _ = estimator.build(observations)
    model.prepare(observations)
    objective = RPMObjective(model, observations, KINDS[kind]())
    objective.train()
    whole = observations.batch(np.arange(N), model.dtype, model.device)
    reader = BatchReader(observations, ALONE, objective.beside, 0, model.dtype, model.device)
    optimiser = torch.optim.AdamW(model.parameters(), rate)
    values, differences, norms, ages = [], [], [], []
    for step, (batch, seed) in enumerate(reader.batches(Minibatches(N, size, 0))):
        torch.manual_seed(seed)
        looked_at = step >= STEPS // 2 and step % EVERY == 0
        if looked_at:
            objective.eval()  # the atoms of all, none extra
            _, full = gradient(model, objective, whole)
            objective.train()
        value, partial = gradient(model, objective, batch)
        if looked_at:
            # The same observations, each against everybody's atoms.
            among = FittedRPM.collected(model, observations).free_energies(observations, in_training=True)
            values.append(value - float(among.total[batch.index].mean()))
            differences.append(partial - full)
            norms.append(float(full.norm()))
            if (bank := objective.bank) is not None:
                ages.append(float(bank.staleness((bank.written >= 0).nonzero()[:, 0]).mean()))
            objective.train()
        optimiser.step()
        if step + 1 == STEPS:
            break
    objective.eval()
    with torch.no_grad():
        final = float(objective(whole)["free_energy"])
    stacked = torch.stack(differences)
    # The squared mean of n noisy vectors exceeds the square of their mean by the variance over n.
    noise = float(stacked.var(0).sum()) / len(stacked)
    squared = float(stacked.mean(0).square().sum()) - noise
    return {
        "free_energy_bias": float(np.mean(values)),
        "gradient_bias": math.copysign(math.sqrt(abs(squared)), squared) / float(np.mean(norms)),
        "gradient_noise": math.sqrt(noise * len(stacked)) / float(np.mean(norms)),
        "staleness_steps": float(np.mean(ages)) if ages else 0.0,
        "final_free_energy": final,
    }


def main() -> None:
    """Every kind, two models, three batch sizes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for make in (discrete, continuous):
        for size in (20, 100, 500):
            for kind in KINDS:
                row = {"model": make.__name__, "batch": size, "atoms": kind, **measured(make, kind, size, 1e-3)}
                print(", ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{v}" for k, v in row.items()), flush=True)
                rows.append(row)
    if chosen.out:
        chosen.out.write_text(json.dumps({"n": N, "extra": EXTRA, "steps": STEPS, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
