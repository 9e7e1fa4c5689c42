"""What an estimator is, for everybody above it: the form of its data, what its latents are, and what it found."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rpmodels import alignment, errors

Arrays = Mapping[str, NDArray[Any]]
SHARES, STATE = " probabilities", " state"
"""What follows the name of one of several latents in files."""
COMPONENTS, COMPONENT = "component probabilities", "component"
"""What latents that come from a mixture have in files."""


@dataclass(frozen=True)
class Latents:
    """What a model says of data, in their form: arrays, or lists of them; None where the latents have no such thing."""

    values: Any
    """(…, K): means of coordinates, probabilities of states, proportions, mean angles."""
    spread: Any = None
    """(…, K): variances of coordinates."""
    probabilities: Any = None
    """(…, K): of the states, of the topics of every part, or (…, C) of the components that coordinates come from."""
    states: Any = None
    """(…): the most probable ones: states, topics of every part, components."""
    resultant: Any = None
    """(…, K): resultant lengths of angles, 1 when they are certain and 0 when nothing is known."""
    times: Any = None
    """When they are."""
    sizes: Mapping[str, int] | None = None
    """Of several discrete latents the numbers of states, by their names, in the order of `values` and `states`."""


class LatentKind(ABC):
    """What latents are: how files call them, and what two fits of the same data may differ in."""

    counted: ClassVar[str]
    """What the size of the model counts: "latents" or "states"."""
    finite: ClassVar[bool] = False
    """Whether a latent has one of K values, each with a probability."""
    linear: ClassVar[bool] = False
    """Whether latents are points of a space with means, variances and rotations."""

    @abstractmethod
    def arrays(self, found: Latents) -> dict[str, Any]:
        """Results by their names in files, the main one first, each as it was found."""

    @abstractmethod
    def columns(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """The columns of a table, from the same arrays with trials one after the other."""

    @abstractmethod
    def align(self, found: Latents, reference: Latents) -> Any:
        """The values of one fit, as near to those of another as what is free in the model allows."""

    @abstractmethod
    def agreement(self, one: Latents, other: Latents) -> float:
        """How well one fit tells what another found: 1 when they are the same up to what is free."""

    def points(self, found: Latents) -> Any:
        """Values for regressions: (…, D) in which what is near is alike."""
        return found.values


@dataclass(frozen=True)
class Coordinates(LatentKind):
    """K real numbers with a mean and a variance, up to rotations and reflections."""

    counted = "latents"
    linear = True

    def arrays(self, found: Latents) -> dict[str, Any]:
        """Means and variances; of several components their probabilities, and the most probable one."""
        parts = {"mean": found.values, "variance": found.spread}
        several = {} if found.probabilities is None else {COMPONENTS: found.probabilities, COMPONENT: found.states}
        return parts | several

    def columns(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """All means, then all variances, then what is known of components."""
        parts = {**_numbered("latent", arrays["mean"]), **_numbered("variance", arrays["variance"])}
        if COMPONENTS not in arrays:
            return parts
        return parts | {COMPONENT: arrays[COMPONENT].ravel(), **_numbered("p", arrays[COMPONENTS])}

    def align(self, found: Latents, reference: Latents) -> Any:
        """Rotated."""
        return alignment.align_latents(found.values, reference.values)

    def agreement(self, one: Latents, other: Latents) -> float:
        """R² of the other's latents from these."""
        return alignment.explained(one.values, other.values)


@dataclass(frozen=True)
class States(LatentKind):
    """One of K states, up to their order."""

    counted = "states"
    finite = True

    def arrays(self, found: Latents) -> dict[str, Any]:
        """Probabilities, and the most probable states."""
        return {"probabilities": found.probabilities, "states": found.states}

    def columns(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """The state, then the probabilities."""
        return {"state": arrays["states"].ravel(), **_numbered("p", arrays["probabilities"])}

    def align(self, found: Latents, reference: Latents) -> Any:
        """Put in order, by the states at all sites."""
        return _in_order_of(found, reference)

    def agreement(self, one: Latents, other: Latents) -> float:
        """Share of equal states."""
        return alignment.equal_states(one.states, other.states, _size(one))


@dataclass(frozen=True)
class SeveralStates(LatentKind):
    """Several latents with names, each one of its own states, up to the order of these.

    Values are the probabilities of all latents side by side, states have one column for every latent.
    """

    counted = "states"

    def arrays(self, found: Latents) -> dict[str, Any]:
        """Probabilities of the states of every latent, and its most probable state."""
        named = list(found.sizes or {})
        parts = {f"{name}{SHARES}": each for name, each in zip(named, _by_latent(found), strict=True)}
        return parts | {f"{name}{STATE}": _column(found.states, a) for a, name in enumerate(named)}

    def columns(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """The states, then the probabilities."""
        states = {name: each.ravel() for name, each in arrays.items() if name.endswith(STATE)}
        return states | {
            column: values
            for name, each in arrays.items()
            if name not in states
            for column, values in _numbered(f"{name.removesuffix(SHARES)} p", each).items()
        }

    def align(self, found: Latents, reference: Latents) -> Any:
        """Every latent put in order."""
        parts = [
            alignment.in_order(each, order)
            for each, order in zip(_by_latent(found), self._orders(found, reference), strict=True)
        ]
        return _side_by_side(parts)

    def agreement(self, one: Latents, other: Latents) -> float:
        """Share of equal states, averaged over the latents."""
        equal = [
            alignment.equal_states(_column(one.states, a), _column(other.states, a), size)
            for a, size in enumerate((one.sizes or {}).values())
        ]
        return float(np.mean(equal))

    @staticmethod
    def _orders(found: Latents, reference: Latents) -> list[NDArray[np.int64]]:
        sizes = (found.sizes or {}).values()
        return [
            alignment.order_of(_column(found.states, a), _column(reference.states, a), size)
            for a, size in enumerate(sizes)
        ]


@dataclass(frozen=True)
class Proportions(LatentKind):
    """Shares of K topics, which sum to one, behind a topic for every part; up to the order of topics."""

    counted = "states"
    finite = True

    def arrays(self, found: Latents) -> dict[str, Any]:
        """Proportions of the observations, then probabilities and topics of the parts."""
        return {"proportions": found.values, "probabilities": found.probabilities, "topics": found.states}

    def columns(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """The proportions alone: a row an observation."""
        return _numbered("topic", arrays["proportions"])

    def align(self, found: Latents, reference: Latents) -> Any:
        """Put in order, by the topics of all parts."""
        return _in_order_of(found, reference)

    def agreement(self, one: Latents, other: Latents) -> float:
        """Share of parts of equal topics."""
        return alignment.equal_states(one.states, other.states, _size(one))


@dataclass(frozen=True)
class Circle(LatentKind):
    """K angles, each with a resultant length, up to where they begin and which way round they run."""

    counted = "latents"

    def arrays(self, found: Latents) -> dict[str, Any]:
        """Mean angles and resultant lengths."""
        return {"angle": found.values, "resultant": found.resultant}

    def columns(self, arrays: Arrays) -> dict[str, NDArray[Any]]:
        """All angles, then all lengths."""
        return {**_numbered("angle", arrays["angle"]), **_numbered("resultant", arrays["resultant"])}

    def align(self, found: Latents, reference: Latents) -> Any:
        """Turned, or run through backwards."""
        return alignment.align_angles(found.values, reference.values)

    def agreement(self, one: Latents, other: Latents) -> float:
        """Mean cosine of what is left between them."""
        return alignment.equal_angles(one.values, other.values)

    def points(self, found: Latents) -> Any:
        """On the circle: cosines, then sines."""
        if isinstance(found.values, list):
            return [np.concatenate([np.cos(each), np.sin(each)], -1) for each in found.values]
        return np.concatenate([np.cos(found.values), np.sin(found.values)], -1)


@dataclass(frozen=True)
class Description:
    """One estimator as evaluation, plots, pages and commands know it; they ask for no class."""

    name: str
    """On the command line."""
    latent: LatentKind
    size: str | None = None
    """The argument that says how many latents, states or topics there are; None where there is always one."""
    in_trials: bool = False
    """Whether an observation has several rows."""
    in_time: bool = False
    """Whether these follow each other in time."""
    one_factor: bool = False
    """Whether data are one array or list, never a dict of factors."""
    takes: tuple[str, ...] = ()
    """What `fit` and all verbs take beside the data and their presence: "times", "inputs"."""

    def check_options(self, options: Mapping[str, Any]) -> None:
        """Refuse what no verb takes beside the data."""
        for name in options:
            if name not in ("presence", *self.takes):
                raise errors.unknown_option(self.name, name, ("presence", *self.takes))

    @property
    def takes_times(self) -> bool:
        """Whether the model is told when its rows were; if not, it counts them."""
        return "times" in self.takes


def _numbered(name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """(…, K) as K columns."""
    return {f"{name}{k}": each for k, each in enumerate(values.reshape(-1, values.shape[-1]).T)}


def _by_latent(found: Latents) -> list[Any]:
    """Probabilities of every latent by itself, in the form of the data."""
    ends = np.cumsum(list((found.sizes or {}).values()))
    if isinstance(found.values, list):
        return [list(each) for each in zip(*(np.split(one, ends[:-1], -1) for one in found.values), strict=True)]
    return list(np.split(found.values, ends[:-1], -1))


def _side_by_side(parts: list[Any]) -> Any:
    """The inverse."""
    if isinstance(parts[0], list):
        return [np.concatenate(each, -1) for each in zip(*parts, strict=True)]
    return np.concatenate(parts, -1)


def _column(states: Any, a: int) -> Any:
    """States of one latent, in the form of the data."""
    return [each[..., a] for each in states] if isinstance(states, list) else states[..., a]


def _size(found: Latents) -> int:
    """K."""
    first = found.values[0] if isinstance(found.values, list) else found.values
    return int(np.shape(first)[-1])


def _in_order_of(found: Latents, reference: Latents) -> Any:
    return alignment.in_order(found.values, alignment.order_of(found.states, reference.states, _size(found)))
