"""From plain values (an estimator's arguments) to objects, once, at the start of `fit`."""

import copy
import math
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from rpmodels import checks, errors
from rpmodels.checks import Instance, Word
from rpmodels.families import DiagonalGaussian, Family, FullGaussian
from rpmodels.inference import Amortised, EStep, FreeInducing, FreePotentials, NaturalGradient
from rpmodels.mixtures import (
    Empirical,
    ExpectedLogMixture,
    FreeInteriorBound,
    GaussianMarginal,
    InteriorBound,
    KernelDensity,
    Marginal,
    MonteCarlo,
    OptimalInteriorBound,
    SecondOrder,
    quadrature,
)
from rpmodels.observations import FactorSpec, Observations, suggested_scaling
from rpmodels.priors import CategoricalPrior, MarkovChainPrior, stationary
from rpmodels.recognition import MLP, AbsoluteHead, ConvolutionalNetwork, Head, Linear, LookupTable, RelativeHead

LABEL_GAIN = 10.0
"""Of tables of labels (docs/results/missing.md)."""
NETWORKS = ("auto", "linear", "mlp", "cnn", "lookup")
NETWORK = Word(*NETWORKS) | Instance(nn.Module, called="an nn.Module")
"""What stands for the network of a factor."""
HEADS: dict[str, type[Head]] = {"relative": RelativeHead, "absolute": AbsoluteHead}


@dataclass(frozen=True)
class Regularisation:
    """How hard to regularise, and how large an MLP to build: more and smaller as data shrink."""

    dropout: float
    input_dropout: float
    weight_decay: float
    hidden: tuple[int, ...]


def regularisation(n_rows: int) -> Regularisation:
    """The default for this many training rows (measured: docs/results/peer-supervision.md)."""
    if n_rows < 2_000:
        return Regularisation(dropout=0.2, input_dropout=0.1, weight_decay=0.1, hidden=(50,))
    if n_rows < 10_000:
        return Regularisation(dropout=0.1, input_dropout=0.05, weight_decay=0.03, hidden=(50, 50))
    return Regularisation(dropout=0.0, input_dropout=0.0, weight_decay=0.01, hidden=(50, 50))


ROWS_PER_CHANNEL = 50
"""Fewer training rows for every input channel call for a linear network (docs/results/lorenz.md)."""


def continuous_regularisation(observations: Observations) -> Regularisation:
    """The same for continuous latents; no hidden layer makes the network linear.

    Dropout ends their over-confidence and improves recovery as well (docs/results/textured-ball.md). Images are not
    linear in what they show, so that few of them call for more of it (docs/results/dynamics.md); a convolution has
    fewer weights than pixels.
    """
    n_rows, specs = int(observations.exists.sum()), observations.specs.values()
    channels = max(spec.event_shape[0] if len(spec.event_shape) == 1 else 1 for spec in specs)
    pixels = max(math.prod(spec.event_shape) if _is_small_image(spec) else 1 for spec in specs)
    if ROWS_PER_CHANNEL * channels <= n_rows < ROWS_PER_CHANNEL * pixels:
        return Regularisation(dropout=0.3, input_dropout=0.4, weight_decay=0.03, hidden=(50, 50))
    if n_rows < ROWS_PER_CHANNEL * channels:
        return Regularisation(dropout=0.0, input_dropout=0.3, weight_decay=0.1, hidden=())
    if n_rows < 10_000:
        return Regularisation(dropout=0.1, input_dropout=0.0, weight_decay=0.03, hidden=(50, 50))
    return Regularisation(dropout=0.05, input_dropout=0.0, weight_decay=0.01, hidden=(50, 50))


LARGE_EVENT = 32 * 32
"""Numbers in an observation from which on it is a large image."""


def batch_size(given: int | str | None, observations: Observations, sites: int, least: int) -> int | None:
    """Observations a step: a number, None for all, or "auto": as many as have so many sites, but some at least.

    Of large images a tenth: their networks are most of a step, and steps are worth more than their size
    (docs/results/arena.md).
    """
    if not isinstance(given, str):
        return given
    if given != "auto":
        raise errors.bad_value("batch_size", "an integer, None or 'auto'", repr(given))
    if any(math.prod(spec.event_shape) >= LARGE_EVENT for spec in observations.specs.values()):
        sites, least = sites // 10, max(1, least // 4)
    fitting = max(least, sites // max(1, round(float(observations.exists.sum(1).mean()))))
    return None if fitting >= len(observations) else fitting


def either(given: float | str, default: float, name: str, below: float = math.inf) -> float:
    """A number the user gave, or the default for "auto"."""
    if isinstance(given, str):
        if given != "auto":
            raise errors.bad_value(name, "a number or 'auto'", repr(given))
        return default
    return checks.number(name, given, least=0.0, below=below)


def networks(
    choice: Any,
    tied: bool,
    observations: Observations,
    n_out: Mapping[str, int],
    dropout: float,
    hidden: tuple[int, ...],
) -> dict[str, nn.Module]:
    """One network per factor; `tied` shares one among factors with the same kind of observation."""
    choice = copy.deepcopy(choice)  # fit never changes what the user handed in; a module used twice stays one
    if isinstance(choice, Mapping):
        choice = {str(name): each for name, each in choice.items()}
        for name in choice:
            if name not in observations.specs:
                raise errors.unknown_factor(name, list(observations.specs))
    named = isinstance(choice, Mapping)
    made: dict[str, nn.Module] = {}
    shared: dict[tuple[FactorSpec, int, Any], nn.Module] = {}
    for name, spec in observations.specs.items():
        wanted = choice.get(name, "auto") if named else choice
        key = (spec, n_out[name], id(wanted))
        if tied and key in shared:
            made[name] = shared[key]
        elif isinstance(wanted, nn.Module):
            # Named for this factor it is meant; given for all, each factor has a copy of its own.
            made[name] = shared[key] = wanted if named or tied else copy.deepcopy(wanted)
        else:
            made[name] = shared[key] = _network(name, wanted, spec, n_out[name], dropout, hidden)
    return made


def linear_for_counts(choice: Any, observations: Observations) -> Any:
    """The same choice, with a linear network wherever "auto" meets vectors of counts.

    The posterior given Poisson counts with log-linear or bell-shaped tuning has natural parameters linear in the
    counts, and counts are noisy enough that an MLP learns them by heart (docs/results/hippocampus.md).
    """
    named = {str(name): each for name, each in choice.items()} if isinstance(choice, Mapping) else {}
    if not named and choice != "auto":
        return choice
    counts = [name for name, spec in observations.specs.items() if _is_counts(spec, observations.present_rows(name))]
    return named | {name: "linear" for name in counts if named.get(name, "auto") == "auto"} or choice


def _is_counts(spec: FactorSpec, rows: NDArray[Any]) -> bool:
    return not spec.is_label and len(spec.event_shape) == 1 and suggested_scaling(rows) == "sqrt"


def _network(
    name: str, wanted: Any, spec: FactorSpec, n_out: int, dropout: float, hidden: tuple[int, ...]
) -> nn.Module:
    if wanted not in NETWORKS:
        raise errors.bad_choice(f"the network of factor '{name}'", (*NETWORKS, "an nn.Module"), wanted)
    kind = _suited(spec) if wanted == "auto" else wanted
    if kind == "lookup":
        if spec.vocabulary is None:
            raise errors.network_needs_labels(name)
        return LookupTable(len(spec.vocabulary), n_out, LABEL_GAIN)
    if spec.is_label:
        raise errors.bad_choice(f"the network of factor '{name}', which holds labels", ("auto", "lookup"), wanted)
    if kind == "cnn":
        return ConvolutionalNetwork(spec.event_shape, n_out, dropout=dropout)
    return Linear(spec.event_shape, n_out) if kind == "linear" else MLP(spec.event_shape, n_out, hidden, dropout)


def _is_small_image(spec: FactorSpec) -> bool:
    return len(spec.event_shape) > 1 and _suited(spec) == "mlp"


def _suited(spec: FactorSpec) -> str:
    if spec.is_label:
        return "lookup"
    shape = spec.event_shape
    is_image = len(shape) in (2, 3) and min(shape[-2:]) >= ConvolutionalNetwork.minimum
    return "cnn" if is_image else "mlp"


def head(choice: str) -> Head:
    """Factors relative to the prior, or absolute."""
    if choice not in HEADS:
        raise errors.bad_choice("head", HEADS, choice)
    return HEADS[choice]()


def markov_chain_prior(choice: Any, n_states: int) -> MarkovChainPrior:
    """By name ("learned"), by (K, K) transition probabilities, or by a number: the concentration of Dirichlets."""
    if isinstance(choice, str):
        if choice != "learned":
            raise errors.bad_choice("transitions", ("learned", "a (K, K) matrix", "a Dirichlet concentration"), choice)
        return MarkovChainPrior.learned(n_states)
    if isinstance(choice, numbers.Real):
        return MarkovChainPrior.dirichlet(n_states, float(choice))
    try:
        rows = np.asarray(choice, float)
    except (TypeError, ValueError) as failure:
        raise errors.bad_value("transitions", "a name, probabilities or a number", repr(choice)) from failure
    if rows.shape != (n_states, n_states):
        raise errors.bad_value("transitions", f"shape ({n_states}, {n_states})", f"shape {rows.shape}")
    return MarkovChainPrior.fixed(stationary(torch.as_tensor(rows)), torch.as_tensor(rows))


def categorical_prior(choice: Any, n_states: int) -> CategoricalPrior:
    """By name ("uniform", "learned"), by K probabilities, or by a number: the concentration of a Dirichlet."""
    if isinstance(choice, str):
        made = {"uniform": CategoricalPrior.uniform, "learned": CategoricalPrior.learned}
        if choice not in made:
            raise errors.bad_choice("prior", (*made, "probabilities", "a Dirichlet concentration"), choice)
        return made[choice](n_states)
    if isinstance(choice, numbers.Real):
        return CategoricalPrior.dirichlet(n_states, float(choice))
    try:
        probabilities = np.asarray(choice, float)
    except (TypeError, ValueError) as failure:
        raise errors.bad_value("prior", "a name, probabilities or a number", repr(choice)) from failure
    if probabilities.shape != (n_states,):
        raise errors.bad_value("prior", f"{n_states} probabilities", f"shape {probabilities.shape}")
    return CategoricalPrior.fixed(torch.as_tensor(probabilities))


APPROXIMATIONS: dict[str, Callable[[int], ExpectedLogMixture]] = {
    "interior": lambda _: InteriorBound(),
    "interior_optimal": lambda _: OptimalInteriorBound(),
    "interior_free": lambda _: FreeInteriorBound(),
    "second_order": lambda _: SecondOrder(),
    "monte_carlo": lambda _: MonteCarlo(),
    "quadrature": quadrature,
}
E_STEPS: dict[str, Callable[[], EStep]] = {
    "amortised": Amortised,
    "natural_gradient": NaturalGradient,
    "free": FreePotentials,
    "free_inducing": FreeInducing,
}
PRECISIONS = ("network", "constant")
FAMILIES: dict[str, Callable[[int], Family]] = {"diagonal": DiagonalGaussian, "full": FullGaussian}
MARGINALS: dict[str, Callable[[], Marginal]] = {
    "empirical": Empirical,
    "kernel_density": KernelDensity,
    "gaussian": GaussianMarginal,
}


def named(what: str, choice: Any, known: Mapping[str, Callable[..., Any]], kind: type, *arguments: Any) -> Any:
    """An object the user made, or the one that a name stands for."""
    if isinstance(choice, kind):
        return choice
    if not isinstance(choice, str) or choice not in known:
        raise errors.bad_choice(what, (*known, f"a {kind.__name__}"), choice)
    return known[choice](*arguments)


def family(choice: str, latents: int) -> Family:
    """Diagonal or full Gaussian over K latents."""
    checks.integer("n_latents", latents, 1)
    made: Family = named("covariance", choice, FAMILIES, Family, latents)
    return made
