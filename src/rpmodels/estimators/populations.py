"""Which factors are populations: vectors of channels that are independent of each other given the latents."""

from collections.abc import Mapping
from typing import Any

from rpmodels import errors
from rpmodels.checks import ByFactor, Word
from rpmodels.estimators import labelled
from rpmodels.observations import FEWEST, SAID_OF_FACTORS, FactorSpec, Observations, Population, are_counts

CHOICES = ("auto", "separate", "together")
CHANNELS = Word(*CHOICES) | ByFactor(Word(*CHOICES))
"""What may be said of the channels of factors."""


def columns(factors: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """`factors` as columns of one array; None where it only says which of them are populations."""
    if factors is None:
        return None
    plain = {name: each.columns if isinstance(each, SAID_OF_FACTORS) else each for name, each in factors.items()}
    if all(each is None for each in plain.values()):
        return None
    for name, each in plain.items():
        if each is None:
            raise errors.bad_value(
                f"factors['{name}']",
                "columns, as others have some",
                f"a {type(factors[name]).__name__} without columns",
            )
    return plain


def populations(
    observations: Observations, channels: Any, factors: Mapping[str, Any] | None, network: Any, alone: bool
) -> frozenset[str]:
    """The factors whose channels are recognised one by one.

    By "auto" those of counts, for which no network was asked: units are independent given what drives them, and a
    network for all of them only knows what makes times depend on each other. `alone`: only where there is no other
    factor, as of several tables what they share with each other is sought, not what their own columns share.
    """
    labelled.refuse(factors, "numbers")
    chosen = {name: _choice(name, channels, factors, observations.specs) for name in observations.specs}
    for name, choice in chosen.items():
        if choice == "separate" and not _is_vector(observations.specs[name]):
            raise errors.no_channels(name, observations.specs[name].event_shape)
    found = {name for name, choice in chosen.items() if choice == "separate"}
    if alone and len(observations.specs) > 1:
        return frozenset(found)
    free = [name for name, choice in chosen.items() if choice == "auto" and _network_of(name, network) == "auto"]
    return frozenset(found | {name for name in free if _looks_like_units(observations, name)})


def _choice(name: str, channels: Any, factors: Mapping[str, Any] | None, specs: Mapping[str, FactorSpec]) -> str:
    if isinstance(channels, Mapping):
        named = {str(key): each for key, each in channels.items()}
        for key in named:
            if key not in specs:
                raise errors.unknown_factor(key, list(specs))
        asked = named.get(name, "auto")
    else:
        asked = channels
    told = {str(key): each for key, each in (factors or {}).items()}
    return "separate" if isinstance(told.get(name), Population) else str(asked)


def _network_of(name: str, network: Any) -> Any:
    if isinstance(network, Mapping):
        return {str(key): each for key, each in network.items()}.get(name, "auto")
    return network


def _is_vector(spec: FactorSpec) -> bool:
    return not spec.is_label and len(spec.event_shape) == 1


def _looks_like_units(observations: Observations, name: str) -> bool:
    """Whether a factor is a vector of enough counts, binary ones among them."""
    spec = observations.specs[name]
    return _is_vector(spec) and spec.event_shape[0] >= FEWEST and are_counts(observations.present_rows(name))
