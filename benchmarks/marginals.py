"""p₀ as a kernel density: its width against N and d, and how far log W is from that of the empirical model.

Widths are those that observations are moved by, in sds of all the data: by batches of 50 and of all. log W is that of
new observations under the same recognition networks, F_j over N training observations of each p₀; and of networks
trained with each p₀ from the same start.
`python benchmarks/marginals.py [--out docs/results/marginals.json]`
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import rpmodels as rp
from rpmodels.fitted import FittedRPM
from rpmodels.mixtures import GaussianMarginal, KernelDensity, Marginal, SharedGrid
from rpmodels.observations import Observations, read

SIZES = (100, 1000, 10_000, 100_000)
TRAINED = (100, 300, 1000, 3000)
DIMENSIONS = (1, 2, 5)
NEW = 200
SEEDS = (0, 1, 2)
KINDS: dict[str, Marginal | None] = {
    "kernel density": KernelDensity(),
    "kernel density, not adaptive": KernelDensity(adaptive=False),
    "Gaussian": GaussianMarginal(),
}


def views(n: int, seed: int, d: int = 2) -> Observations:
    """Two tables of one skewed latent: their marginals are no normals."""
    loadings = np.random.default_rng(1).normal(size=(2, 1, d))
    random = np.random.default_rng([seed, n])
    z = random.gamma(2.0, 1.0, (n, 1)) - 2.0
    return read({name: z @ each + 0.6 * random.normal(size=(n, d)) for name, each in zip("ab", loadings, strict=True)})


def width(observations: Observations, size: int) -> float:
    """Geometric mean of how far observations are moved, in sds and in units of a standard normal draw."""
    density = KernelDensity().of("a", observations, per_site=False)
    rows = np.array_split(np.arange(len(observations)), max(1, len(observations) // size))
    batches = (observations.batch(each, torch.float64, torch.device("cpu")) for each in rows)
    parts = [density.widths(each.inputs["a"].double().transpose(0, 1))[0].log() for each in batches]
    return float(torch.cat(parts).mean().exp())


def estimator(n: int, marginal: Marginal | None) -> rp.RPFA:
    """The same network and start for every p₀."""
    inference = rp.Inference(marginal=marginal or "empirical", expected_log_mixture="quadrature")
    training = rp.Training(batch_size=min(n, 250), finish="none", validation_fraction=0.0)
    return rp.RPFA(
        1, network="linear", max_iter=300, n_init=1, random_state=0, inference=inference, training=training,
        search=rp.Search(retries=0), engine=rp.Engine(dtype="float64"),
    )  # fmt: skip


def log_w(model: FittedRPM, new: Observations) -> NDArray[np.float64]:
    """Free energies of new observations, by quadrature."""
    return model.free_energies(new, SharedGrid()).values


def apart(n: int, fitted: dict[str, FittedRPM], new: Observations) -> dict[str, Any]:
    """Distances from the empirical model, of single observations and of their mean."""
    base = log_w(fitted["empirical"], new)
    found = {name: log_w(model, new) - base for name, model in fitted.items() if name != "empirical"}
    return {"N": n, "empirical": float(base.mean())} | {
        name: {"mean |difference|": float(np.abs(each).mean()), "difference of means": float(each.mean())}
        for name, each in found.items()
    }


def with_the_same_networks(seed: int) -> list[dict[str, Any]]:
    """F_j over ever more observations; only p₀ differs."""
    trained = estimator(1000, None).fit({k: v[:, 0] for k, v in views(1000, seed).values.items()}).model_
    new, rows = views(NEW, seed + 100), []
    for n in SIZES:
        observations, models = views(n, seed), {"empirical": FittedRPM.collected(trained.pattern, views(n, seed))}
        for name, kind in KINDS.items():
            assert kind is not None
            trained.pattern.marginal = kind
            models[name] = FittedRPM.collected(trained.pattern, observations)
            models[name].summary("a"), models[name].summary("b")  # while the pattern says what atoms are
        rows.append(apart(n, models, new))
        trained.pattern.marginal = rp.mixtures.Empirical()
    return rows


def trained_with_each(seed: int) -> list[dict[str, Any]]:
    """Every p₀ with networks of its own."""
    new, rows = views(NEW, seed + 100), []
    for n in TRAINED:
        X = {name: each[:, 0] for name, each in views(n, seed).values.items()}
        models = {"empirical": estimator(n, None).fit(X).model_}
        models |= {name: estimator(n, kind).fit(X).model_ for name, kind in KINDS.items()}
        rows.append(apart(n, models, new))
    return rows


def main() -> None:
    """Print the tables, and write them if asked."""
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    out = parser.parse_args().out
    found: dict[str, Any] = {"widths": []}
    for d in DIMENSIONS:
        data = [(n, views(n, 0, d)) for n in SIZES]
        rows = [(n, width(each, 50), width(each, n), n ** (-1.0 / (d + 4))) for n, each in data]
        logs = np.log(np.array([row[:2] for row in rows]))
        slope = float(np.polyfit(logs[:, 0], logs[:, 1], 1)[0])
        found["widths"].append(
            {"d": d, "N, by batches of 50, of all, N^(-1/(d+4))": rows, "slope": slope, "-1/(d+4)": -1 / (d + 4)}
        )
        print(json.dumps(found["widths"][-1], ensure_ascii=False))
    for title, table in (("same networks", with_the_same_networks), ("trained with each", trained_with_each)):
        found[title] = {}
        for seed in SEEDS:
            found[title][seed] = table(seed)
            for row in found[title][seed]:
                print(title, seed, json.dumps(row, ensure_ascii=False))
    if out is not None:
        out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
