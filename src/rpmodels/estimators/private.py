"""Latents that all factors share and those that are one factor's own: from counts to the targets of every factor."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.checks import LARGEST, Integer
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.common import CommonArguments
from rpmodels.estimators.groups import Recognition
from rpmodels.estimators.tables import names_of_latents
from rpmodels.fitted import FittedRPM

Index = NDArray[np.int64]
Targets = Mapping[str, Sequence[int]]
SHARED = "K: those that all factors share"
"""What `n_latents` counts."""


def n_private(recognition: Recognition | None) -> int:
    """How many latents come after those that `n_latents` counts."""
    return sum(_counts(recognition).values())


def targets_of(
    recognition: Recognition, n_latents: int, factors: Collection[str], alone: Collection[str] = ()
) -> Targets | None:
    """The latents that every factor speaks of; None where all speak of all.

    Those that are shared come first, then those of every factor of `private` in turn. `alone`: factors at whose sites
    nothing but one network speaks, which private latents would only repeat.
    """
    private = _counts(recognition)
    if not private:
        return recognition.targets
    if recognition.targets is not None:
        raise errors.private_and_targets()
    for name in private:
        if name not in factors:
            raise errors.unknown_factor(name, list(factors))
        if name in alone:
            raise errors.nothing_private(name)
    if len(factors) < 2:
        raise errors.private_of_the_only_factor(next(iter(private)))
    shared, places = tuple(range(n_latents)), private_places(recognition, n_latents)
    return {name: (*shared, *places.get(name, ())) for name in factors}


def private_places(recognition: Recognition | None, n_latents: int) -> dict[str, range]:
    """Where the private latents of every factor stand."""
    places, begun = {}, n_latents
    for name, count in _counts(recognition).items():
        places[name] = range(begun, begun + count)
        begun += count
    return places


def _counts(recognition: Recognition | None) -> dict[str, int]:
    given = None if recognition is None else recognition.private
    return {str(name): count for name, count in (given or {}).items()}


class WithPrivate(CommonArguments, ABC):
    """For estimators of continuous latents."""

    n_latents: int = argument(Integer(1, LARGEST), SHARED, default=2, kw_only=False)

    @property
    def _all_latents(self) -> int:
        """K, and those that one factor has to itself."""
        return self.n_latents + n_private(self.recognition)

    @abstractmethod
    def _fitted(self) -> FittedRPM:
        """The fitted model."""

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the latents, for data frames: shared ones by number, private ones by their factor and number."""
        places = private_places(self.recognition, self.n_latents)
        return np.asarray(names_of_latents(self, self.n_latents, places))

    @property
    def shared_(self) -> Index:
        """Which latents no factor has to itself: `transform(X)[..., model.shared_]`."""
        model, own = self._fitted().pattern, self.private_
        spoken = {k for name in model.names for k in model.speaks_of(name)}
        return np.array(sorted(spoken.difference(*own.values())), np.int64)

    @property
    def private_(self) -> Mapping[str, Index]:
        """{factor: the latents that it alone speaks of}, of those that have some."""
        found = self._fitted().pattern.private_latents()
        return {name: np.array(each, np.int64) for name, each in found.items()}
