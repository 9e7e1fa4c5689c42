"""Recognition networks from an estimator's plain arguments: by name, by kind of observation, or the user's own."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from rpmodels import errors
from rpmodels.checks import Instance, Word
from rpmodels.observations import FactorSpec, Observations, suggested_scaling
from rpmodels.observations.observations import SAMPLE
from rpmodels.recognition import (
    MLP,
    ChannelCurves,
    ConstantPrecision,
    ConvolutionalNetwork,
    Linear,
    LookupTable,
    WithLinear,
)

NETWORKS = ("auto", "linear", "mlp", "cnn", "lookup")
NETWORK = Word(*NETWORKS) | Instance(nn.Module, called="an nn.Module")
"""What stands for the network of a factor."""


@dataclass(frozen=True)
class Layers:
    """What an MLP has by default."""

    hidden: tuple[int, ...]
    dropout: float
    straight: bool
    """Whether a linear map stands beside it, where events are vectors."""


def networks(
    choice: Any, tied: bool, observations: Observations, n_out: Mapping[str, int], layers: Layers
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
            made[name] = shared[key] = _network(name, wanted, spec, n_out[name], layers)
    return made


def channel_curves(observations: Observations, name: str, n_latents: int) -> ChannelCurves:
    """A population, with p₀ and the scores of these observations."""
    some = observations.some(max(1, SAMPLE // observations.n_sites))
    weights = np.broadcast_to(some.weights[:, None], some.exists.shape)[some.present[name]]
    return ChannelCurves.of(some.present_rows(name), weights, n_latents)


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


def _network(name: str, wanted: Any, spec: FactorSpec, n_out: int, layers: Layers) -> nn.Module:
    if wanted not in NETWORKS:
        raise errors.bad_choice(f"the network of factor '{name}'", (*NETWORKS, "an nn.Module"), wanted)
    kind = _suited(spec) if wanted == "auto" else wanted
    if kind == "lookup":
        if spec.vocabulary is None:
            raise errors.network_needs_labels(name)
        return LookupTable(len(spec.vocabulary), n_out)
    if spec.is_label:
        raise errors.bad_choice(f"the network of factor '{name}', which holds labels", ("auto", "lookup"), wanted)
    if kind == "cnn":
        return ConvolutionalNetwork(spec.event_shape, n_out, dropout=layers.dropout)
    if kind == "linear":
        return Linear(spec.event_shape, n_out)
    network = MLP(spec.event_shape, n_out, layers.hidden, layers.dropout)
    if layers.straight and layers.hidden and len(spec.event_shape) == 1:
        return WithLinear(network, Linear(spec.event_shape, n_out))
    return network


def is_small_image(spec: FactorSpec) -> bool:
    """Whether a network without convolutions sees it as pixels."""
    return len(spec.event_shape) > 1 and _suited(spec) == "mlp"


def _suited(spec: FactorSpec) -> str:
    if spec.is_label:
        return "lookup"
    shape = spec.event_shape
    is_image = len(shape) in (2, 3) and min(shape[-2:]) >= ConvolutionalNetwork.minimum
    return "cnn" if is_image else "mlp"


def with_constant_precision(
    networks: Mapping[str, nn.Module], first: Mapping[str, int], raw: Mapping[str, int]
) -> dict[str, nn.Module]:
    """Networks that factors share stay shared, their constant with them."""
    wrapped = {id(network): ConstantPrecision(network, first[name], raw[name]) for name, network in networks.items()}
    return {name: wrapped[id(network)] for name, network in networks.items()}
