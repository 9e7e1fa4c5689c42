"""What moves along time in `RPHMM`: one state, several chains of them, or one with its age; and how it is shown."""

import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import errors, learning
from rpmodels.estimators import parts
from rpmodels.estimators.description import Description, SeveralStates, States
from rpmodels.learning.chain_starts import ChainsStart
from rpmodels.learning.series_clusters import KMeansOverTime
from rpmodels.learning.starts import TaughtStart
from rpmodels.priors import JointChain, JointChainPosterior, MarkovChainPosterior, MarkovChainPrior, stationary

ChainPrior = MarkovChainPrior | JointChain
ChainPosterior = MarkovChainPosterior | JointChainPosterior
Form = Callable[[NDArray[Any]], Any]
Targets = Mapping[str, Sequence[str]]


class Moving(ABC):
    """Results are probabilities of (joint) states in the last axis, and states."""

    @staticmethod
    def known(transitions: Any) -> bool:
        """Then they tell the states apart, and what proposes states in any order is of no use."""
        each = transitions.values() if isinstance(transitions, Mapping) else [transitions]
        return any(not isinstance(one, str | numbers.Real) for one in each)

    @abstractmethod
    def prior(self, transitions: Any) -> ChainPrior:
        """From the argument of the estimator."""

    def targets(self, given: Mapping[str, Sequence[str]] | None, factors: Sequence[str]) -> Targets | None:
        """The latents that factors speak of; one state is spoken of by all."""
        if given is not None:
            raise errors.bad_value("targets", "None: there is one chain, of which every factor speaks", dict(given))
        return None

    def move(self, longest: int) -> learning.Move | None:
        """A way out of poor optima, if there is one."""
        return None

    @abstractmethod
    def starts(self, longest: int) -> list[TaughtStart]:
        """The most trusted first."""

    @property
    def sizes(self) -> dict[str, int] | None:
        """Of several latents the numbers of states."""
        return None

    @abstractmethod
    def apart(self, found: NDArray[Any]) -> Any:
        """(…, K) of joint states as what the user is told."""

    def shown(self, found: NDArray[Any], form: Form) -> Any:
        """The same in the form of the data."""
        return form(self.apart(found))

    def side_by_side(self, found: NDArray[Any]) -> NDArray[Any]:
        """The same in one array."""
        return np.asarray(self.apart(found))

    def states(self, found: Tensor) -> Tensor:
        """Of draws and most probable sequences."""
        return found

    @abstractmethod
    def transitions(self, prior: Any) -> Any:
        """Of the states that the user knows."""

    def initial(self, prior: Any) -> Any:
        """Probabilities of the first state."""
        return self.apart(_array(_chain(prior).probabilities))

    def in_the_long_run(self, prior: Any) -> Any:
        """Where transitions lead."""
        return self.apart(np.asarray(stationary(_chain(prior).transitions.double().cpu()).numpy()))

    def durations(self, prior: Any) -> NDArray[Any]:
        """Only of states with an age."""
        raise AttributeError("durations_: of a model with durations=… alone")


class OneState(Moving):
    """A state that has no memory of how long it has been there."""

    def __init__(self, n_states: int) -> None:
        self.n_states = n_states

    def prior(self, transitions: Any) -> MarkovChainPrior:
        """A Markov chain."""
        return parts.markov_chain_prior(transitions, self.n_states)

    def starts(self, longest: int) -> list[TaughtStart]:
        """Clusters over time, and those of a mixture."""
        return [learning.StatesStart(each, longest) for each in (KMeansOverTime(), learning.Mixture())]

    def move(self, longest: int) -> learning.Move:
        """Split and merge."""
        return learning.SplitMergeSites(longest)

    def apart(self, found: NDArray[Any]) -> NDArray[Any]:
        """As it is."""
        return found

    def transitions(self, prior: Any) -> NDArray[Any]:
        """A."""
        return _array(prior.transitions)


class SeveralChains(Moving):
    """States with names that move independently."""

    def __init__(self, states: Mapping[str, int]) -> None:
        self._states = {str(name): int(each) for name, each in states.items()}

    @property
    def sizes(self) -> dict[str, int]:
        """By name."""
        return self._states

    def prior(self, transitions: Any) -> JointChain:
        """The chains by the same choice, or each by its own."""
        return parts.chains_prior(transitions, self._states)

    def targets(self, given: Targets | None, factors: Sequence[str]) -> Targets | None:
        """As they are given; others speak of all chains."""
        named = {str(name): [str(each) for each in chains] for name, chains in (given or {}).items()}
        for name in named:
            if name not in factors:
                raise errors.unknown_factor(name, list(factors))
        return named or None

    def starts(self, longest: int) -> list[TaughtStart]:
        """Clusters of each chain, where factors tell them apart."""
        return [ChainsStart(longest)]

    def apart(self, found: NDArray[Any]) -> dict[str, NDArray[Any]]:
        """By the name of the chain."""
        sizes = list(self._states.values())
        table = found.reshape(*found.shape[:-1], *sizes)
        ahead = found.ndim - 1
        others = {name: tuple(ahead + b for b in range(len(sizes)) if b != a) for a, name in enumerate(self._states)}
        return {name: table.sum(each) for name, each in others.items()}

    def side_by_side(self, found: NDArray[Any]) -> NDArray[Any]:
        """Chain after chain."""
        return np.concatenate(list(self.apart(found).values()), -1)

    def shown(self, found: NDArray[Any], form: Form) -> dict[str, Any]:
        """Each in the form of the data."""
        return {name: form(each) for name, each in self.apart(found).items()}

    def transitions(self, prior: Any) -> dict[str, NDArray[Any]]:
        """A of every chain."""
        return {name: _array(prior.table(name)) for name in self._states}


class StateWithAge(Moving):
    """A state that goes on or ends by how long it has been there (semi-Markov)."""

    def __init__(self, n_states: int, longest: int) -> None:
        self.n_states, self.longest = n_states, longest

    def prior(self, transitions: Any) -> JointChain:
        """Joint states of state and age."""
        return parts.durations_prior(transitions, self.n_states, self.longest)

    def targets(self, given: Targets | None, factors: Sequence[str]) -> Targets:
        """The state, never the age."""
        super().targets(given, factors)
        return {name: ["state"] for name in factors}

    def starts(self, longest: int) -> list[TaughtStart]:
        """Clusters over time: factors speak of the state alone."""
        return [ChainsStart(longest)]

    def apart(self, found: NDArray[Any]) -> NDArray[Any]:
        """Whatever the age."""
        return np.asarray(found.reshape(*found.shape[:-1], self.n_states, self.longest).sum(-1))

    def states(self, found: Tensor) -> Tensor:
        """Without ages."""
        return found[..., 0]

    def transitions(self, prior: Any) -> NDArray[Any]:
        """Which state follows when one ends: zero on the diagonal."""
        return _array(prior.jumps())

    def durations(self, prior: Any) -> NDArray[Any]:
        """p(1, 2, …, longest or more steps) of every state."""
        return _array(prior.durations_of_states())


class DescriptionByArguments:
    """Of a class that of one chain; of an estimator that of its own chains."""

    one = Description("hmm", States(), "n_states", in_trials=True, in_time=True)
    several = replace(one, latent=SeveralStates())

    def __get__(self, model: Any, kind: type) -> Description:
        return self.several if model is not None and isinstance(model.n_states, Mapping) else self.one


def moving(n_states: Any, durations: int | None) -> Moving:
    """What the arguments of `RPHMM` ask for."""
    if not isinstance(n_states, Mapping):
        return OneState(int(n_states)) if durations is None else StateWithAge(int(n_states), durations)
    if durations is not None:
        raise errors.bad_value("durations", "None beside several chains, whose states have no age", durations)
    if not n_states:
        raise errors.bad_value("n_states", "one chain or more, {name: number of states}", dict(n_states))
    return SeveralChains(n_states)


def _chain(prior: ChainPrior) -> MarkovChainPrior:
    return prior.chain if isinstance(prior, JointChain) else prior


@torch.no_grad()
def _array(tensor: Tensor) -> NDArray[Any]:
    return np.asarray(tensor.cpu().numpy())
