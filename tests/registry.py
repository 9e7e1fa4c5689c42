"""Every part of the library, and tiny models: one line here brings a new part every property test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import gpytorch
import numpy as np
import torch

import data
import rpmodels as rp
from rpmodels.carriers import Sites
from rpmodels.estimators.arguments import every_argument
from rpmodels.estimators.names import nested
from rpmodels.families import Categorical, DiagonalGaussian, Family, FullGaussian, JointStates, VonMises
from rpmodels.fitted import FittedRPM
from rpmodels.inference import Amortised, EStep, FreeInducing, FreePotentials, NaturalGradient
from rpmodels.mixtures import (
    AtomPolicy,
    ExpectedLogMixture,
    FreeInteriorBound,
    GaussHermite,
    InteriorBound,
    MonteCarlo,
    OptimalInteriorBound,
    PerSite,
    Pooled,
    SecondOrder,
    SharedGrid,
    ThresholdedInteriorBound,
)
from rpmodels.priors import (
    CategoricalPrior,
    CircularPrior,
    DirichletPrior,
    DiscreteGraph,
    GaussianMixturePrior,
    GaussianPrior,
    GaussianProcessPrior,
    JointChain,
    LinearDynamicsPrior,
    MarkovChainPrior,
    MarkovianProcessPrior,
    Posterior,
    Prior,
    SwitchingDynamicsPrior,
)
from rpmodels.recognition import AbsoluteHead, Head, RelativeHead
from rpmodels.seeding import seeded

# ---- parts --------------------------------------------------------------------------------------------

FAMILIES: dict[str, Family] = {
    "categorical": Categorical(4),
    "diagonal-1": DiagonalGaussian(1),
    "diagonal-2": DiagonalGaussian(2),
    "diagonal-3": DiagonalGaussian(3),
    "full-1": FullGaussian(1),
    "full-2": FullGaussian(2),
    "full-3": FullGaussian(3),
    "von-mises": VonMises(),
    "joint-states": JointStates(("a", "b", "c"), (2, 3, 2), ((0,), (0, 1), (1, 2))),
}
PROBABILITIES = torch.tensor([0.5, 0.3, 0.2])
STEPS = torch.tensor([[0.8, 0.1, 0.1], [0.3, 0.3, 0.4], [0.2, 0.7, 0.1]])
INDEPENDENT_STATES: dict[str, Callable[[], Prior]] = {
    "uniform": lambda: CategoricalPrior.uniform(3),
    "fixed": lambda: CategoricalPrior.fixed(PROBABILITIES),
    "learned": lambda: CategoricalPrior.learned(3),
    "dirichlet": lambda: CategoricalPrior.dirichlet(3, 0.7),
}
"""Priors under which a model has a closed form."""
PRIORS: dict[str, Callable[[], Prior]] = {
    **INDEPENDENT_STATES,
    "chain, fixed": lambda: MarkovChainPrior.fixed(PROBABILITIES, STEPS),
    "chain, learned": lambda: MarkovChainPrior.learned(3),
    "chain, dirichlet": lambda: MarkovChainPrior.dirichlet(3, 0.7),
    "graph, learned": lambda: graph_prior(DiscreteGraph.learned),
    "graph, dirichlet": lambda: graph_prior(DiscreteGraph.dirichlet),
    "graph, field": lambda: graph_prior(partial(DiscreteGraph.learned, cliques=[("a", "b")])),
    "chains": lambda: JointChain.factorial({"a": 2, "b": 3}),
    "ages": lambda: JointChain.durations(2, 3),
    "topics": lambda: DirichletPrior.fixed(3, [0.7, 1.0, 2.0]),
    "gaussian": lambda: GaussianPrior(DiagonalGaussian(2)),
    "gaussian, full": lambda: GaussianPrior(FullGaussian(2), learned=True),
    "mixture": lambda: mixture_prior(DiagonalGaussian(2)),
    "mixture, full": lambda: mixture_prior(FullGaussian(2)),
    "process": lambda: process_prior(DiagonalGaussian(2)),
    "process, full": lambda: process_prior(FullGaussian(2)),
    "markovian process": lambda: markovian_prior(DiagonalGaussian(2)),
    "markovian process, full": lambda: markovian_prior(FullGaussian(2), nu=1.5),
    "circular": CircularPrior,
    "circular, learned": lambda: CircularPrior(learned=True),
    "dynamics": lambda: LinearDynamicsPrior(FullGaussian(2)),
    "dynamics, bayes": lambda: LinearDynamicsPrior(FullGaussian(2), counts=3.0),
    "switching": lambda: SwitchingDynamicsPrior(FullGaussian(2), MarkovChainPrior.learned(3), rotation=0.5),
}
APPROXIMATIONS: dict[str, ExpectedLogMixture] = {
    "quadrature": GaussHermite(6),
    "grid": SharedGrid(),
    "interior": InteriorBound(),
    "interior_optimal": OptimalInteriorBound(),
    "interior_free": FreeInteriorBound(),
    "interior_thresholded": ThresholdedInteriorBound(),
    "second_order": SecondOrder(),
    "monte_carlo": MonteCarlo(10, fresh=False),
}
"""Of continuous latents, by the names users know them by; quadrature of one latent is the grid."""
E_STEPS: dict[str, EStep] = {
    "amortised": Amortised(),
    "natural_gradient": NaturalGradient(2),
    "free": FreePotentials(),
    "free_inducing": FreeInducing(),
}
HEADS: dict[str, Head] = {"relative": RelativeHead(), "absolute": AbsoluteHead()}
ATOMS: dict[str, AtomPolicy] = {"per_time": PerSite(), "pooled": Pooled()}


def process_prior(family: Any, n_inducing: int = 5, length: float = 2.0, end: float = 7.0) -> GaussianProcessPrior:
    """With a squared-exponential kernel."""
    kernel = gpytorch.kernels.RBFKernel(batch_shape=torch.Size([family.latents]))
    kernel.lengthscale = length
    return GaussianProcessPrior(family, kernel, torch.linspace(0, end, n_inducing, dtype=torch.float64))


def markovian_prior(family: Any, nu: float = 2.5, lengths: Sequence[float] = (2.0, 0.7)) -> MarkovianProcessPrior:
    """With a Matérn kernel."""
    kernel = gpytorch.kernels.MaternKernel(nu=nu, batch_shape=torch.Size([family.latents]))
    kernel.lengthscale = torch.tensor(lengths)[:, None, None]
    return MarkovianProcessPrior(family, kernel)


def mixture_prior(family: Any) -> GaussianMixturePrior:
    """Three components of their own shapes."""
    with seeded(0):
        prior = GaussianMixturePrior(family, 3)
        prior.roots.data += 0.3 * torch.randn_like(prior.roots)
        prior.logits.data += torch.randn(3)
    return prior


def graph_prior(make: Callable[..., DiscreteGraph]) -> DiscreteGraph:
    """Three latents, one of them with two parents, and a factor's scope beside the tables'."""
    with seeded(0):
        return make({"a": 2, "b": 3, "c": 2}, {"c": ["b", "a"]}, scopes=[("a",)])


def random_eta(family: Family, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return family.to_valid(torch.randn(*shape, family.raw_size, generator=generator, dtype=torch.float64))


def valid_potentials(family: Family, *shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return family.to_potential(torch.randn(*shape, family.raw_size, generator=generator, dtype=torch.float64))


def sites_of(lengths: Sequence[int], longest: int | None = None, *, start: float = 0.0, step: float = 1.0) -> Sites:
    """Observations of these lengths at equal steps, padded."""
    every = torch.arange(longest or max(lengths))
    exists = every < torch.tensor(list(lengths))[:, None]
    times = (start + step * every.double()).expand(len(lengths), -1)
    return Sites(torch.where(exists, times, 0.0), exists)


def bound(posterior: Posterior, potentials: torch.Tensor, sites: Sites) -> torch.Tensor:
    """Σ⟨g·t⟩ − KL of every observation: what the posterior is the best q for."""
    return torch.where(sites.exists, (potentials * posterior.mu).sum(-1), 0.0).sum(-1) - posterior.kl


# ---- models -------------------------------------------------------------------------------------------


def tiny_data(n: int = 5, n_factors: int = 2, sites: int = 1, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    return {f"x{j}": random.standard_normal((n, sites, 3)) for j in range(n_factors)}


def tiny_model(
    prior: Prior,
    data: Mapping[str, np.ndarray],
    *,
    head: str = "relative",
    atoms: str = "per_time",
    sharpness: float = 3.0,
    seed: int = 0,
    **read_options: Any,
) -> tuple[FittedRPM, rp.Observations]:
    """A fitted model with random linear factors, in float64."""
    observations = rp.read(dict(data), series=True, **read_options)
    with seeded(seed):
        networks = {name: rp.recognition.Linear((3,), prior.family.raw_size) for name in data}
    model = rp.RPM(prior, networks, head=HEADS[head], atoms=ATOMS[atoms], scaling="none", dtype=torch.float64)
    with torch.no_grad():
        for parameter in model.recognition.parameters():
            parameter.mul_(sharpness)
    model.prepare(observations)
    return FittedRPM.collected(model, observations), observations


def log_w(model: FittedRPM, observations: rp.Observations, in_training: bool = True) -> torch.Tensor:
    return model.free_energies(observations, in_training=in_training).total


# ---- estimators ---------------------------------------------------------------------------------------


def made(kind: type, *size: int, **options: Any) -> Any:
    """An estimator from short names of arguments (dtype, retries, …), each put into the group that has it.

    Of two groups that have it (atoms, precision), into the one that says what is computed, not how.
    """
    short: dict[str, str] = {}
    for full in every_argument(kind):
        short.setdefault(full.rpartition(".")[2], full)
    return kind(*size, **nested(kind, {short.get(name, name): each for name, each in options.items()}))


@dataclass(frozen=True)
class TinyEstimator:
    """An estimator with data small enough for it."""

    kind: type
    data: Callable[[int], Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    tables: bool = False
    """Whether it takes a table whose columns are the factors'."""

    @property
    def size(self) -> str | None:
        """The argument that says how many latents, or states of them, there are; None where there is always one."""
        return self.kind.description.size

    @property
    def width(self) -> int:
        """Columns of its latents, by `make()`."""
        named = self.options.get(self.size, 2)
        return sum(named.values()) if isinstance(named, Mapping) else 2

    def make(self, size: int | None = None, **settings: Any) -> Any:
        """Of this size, by default 2 or what its options name; with few steps. Settings by short names, as in `made`.

        Without the end that fits have by default, which is most of the time of so small a fit (test_finish.py).
        """
        brief = {"max_iter": 4, "n_init": 1, "random_state": 0, "finish": "none"}
        counted = {} if self.size is None else {self.size: 2 if size is None else size}
        options = {name: each for name, each in self.options.items() if size is None or name not in OF_NAMES}
        return made(self.kind, **{**counted, **brief, **options, **settings})

    def fitted(self, **settings: Any) -> tuple[Any, Any]:
        """With the data it was fitted to."""
        x = self.data(0)
        return self.make(**settings).fit(x), x

    def latents_of(self, model: Any, x: Any) -> list[np.ndarray]:
        """One array for every observation."""
        return list(model.latents(x).values)


def _trials(seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return data.waves((7, 5, 7, 6, 4, 7), 3, period=2.0, noise=0.3, random=random)


def _parts(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(8, 6, 3))


SINGLE = {"retries": 0}
OF_NAMES = ("states", "parents", "targets", "n_states", "durations", "n_components")
"""What names the latents of a graph or of several chains, their ages and components: a plain latent has none."""
GRAPH = {
    "states": {"place": 2, "object": 3},
    "parents": {"object": ["place"]},
    "targets": {"a": ["object"], "b": ["object", "place"]},
}
ESTIMATORS: dict[str, TinyEstimator] = {
    "categorical": TinyEstimator(rp.RPCategorical, lambda seed: data.clusters(30, seed=seed)[0], tables=True),
    "circular": TinyEstimator(rp.RPCircular, lambda seed: data.headings(30, seed=seed)[0], SINGLE, tables=True),
    "fa": TinyEstimator(rp.RPFA, lambda seed: data.views(30, seed=seed)[0], SINGLE, tables=True),
    "gpfa": TinyEstimator(rp.RPGPFA, _trials, {**SINGLE, "n_inducing": 4}),
    "graph": TinyEstimator(rp.RPGraph, lambda seed: data.clusters(30, seed=seed)[0], GRAPH, tables=True),
    "hmm": TinyEstimator(rp.RPHMM, _trials),
    "lds": TinyEstimator(rp.RPLDS, _trials, SINGLE),
    "lda": TinyEstimator(rp.RPLDA, _parts),
    "slds": TinyEstimator(rp.RPSLDS, _trials, SINGLE),
}
