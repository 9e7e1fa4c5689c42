"""Every family, and tiny models: one line here brings a new part every property test."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

import rpmodels as rp
from rpmodels.families import Categorical, DiagonalGaussian, Family, FullGaussian
from rpmodels.mixtures import AtomPolicy, PerSite, Pooled
from rpmodels.priors import CategoricalPrior, Prior
from rpmodels.recognition import AbsoluteHead, Head, RelativeHead
from rpmodels.seeding import seeded

FAMILIES: dict[str, Family] = {
    "categorical": Categorical(4),
    "diagonal-1": DiagonalGaussian(1),
    "diagonal-2": DiagonalGaussian(2),
    "full-1": FullGaussian(1),
    "full-2": FullGaussian(2),
    "full-3": FullGaussian(3),
}
PRIORS: dict[str, Any] = {
    "uniform": lambda: CategoricalPrior.uniform(3),
    "fixed": lambda: CategoricalPrior.fixed(torch.tensor([0.5, 0.3, 0.2])),
    "learned": lambda: CategoricalPrior.learned(3),
    "dirichlet": lambda: CategoricalPrior.dirichlet(3, 0.7),
}
HEADS: dict[str, Head] = {"relative": RelativeHead(), "absolute": AbsoluteHead()}
POLICIES: dict[str, AtomPolicy] = {"per site": PerSite(), "pooled": Pooled()}


def random_eta(family: Family, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return family.to_valid(torch.randn(*shape, family.raw_size, generator=generator, dtype=torch.float64))


def tiny_data(n: int = 5, n_factors: int = 2, sites: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {f"x{j}": random.standard_normal((n, sites, 3)) for j in range(n_factors)}


def tiny_model(
    prior: Prior,
    data: Mapping[str, np.ndarray],
    *,
    head: str = "relative",
    policy: str = "per site",
    sharpness: float = 3.0,
    seed: int = 0,
    **read_options: Any,
) -> tuple[rp.RPM, rp.Observations]:
    """A fitted model with random linear factors, in float64."""
    observations = rp.read(dict(data), series=True, **read_options)
    with seeded(seed):
        networks = {name: rp.recognition.Linear((3,), prior.family.raw_size) for name in data}
    model = rp.RPM(prior, networks, head=HEADS[head], atoms=POLICIES[policy], scaling="none", dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.recognition.parameters():
            parameter.mul_(sharpness)
    model.prepare(observations)
    model.collect(observations)
    return model, observations


def log_w(model: rp.RPM, observations: rp.Observations, own: bool = False) -> torch.Tensor:
    return torch.cat([inferred.energy.total for inferred in model.infer(observations, own=own)])
