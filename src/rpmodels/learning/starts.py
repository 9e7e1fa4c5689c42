"""Where a run starts: random weights, or weights taught what a simpler method finds, or what the user knows."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels.families import FiniteSupport, Gaussian
from rpmodels.learning.clusters import Clusters, named
from rpmodels.learning.own_latents import mixed_scales, rotation
from rpmodels.learning.teaching import MANY, compact, features, teach
from rpmodels.learning.trainable import Trainable
from rpmodels.linear import shared_components, smooth_latents
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors.process import ProcessPrior
from rpmodels.recognition import reinitialise
from rpmodels.seeding import seeded


class Start(ABC):
    """Brings a prepared model to where training begins."""

    name: str
    taught: ClassVar[bool] = False
    """Whether it has had a lesson, which lets it lead at first: taught starts are compared with each other.

    A lesson takes a share of the `longest` steps that the fit is to have.
    """

    @abstractmethod
    def __call__(self, model: Any, observations: Observations, seed: int) -> int | None:
        """Change the model's weights in place; the steps of its lesson, where it had one, are counted in `max_iter`."""

    def settle(self, model: Any, observations: Observations) -> None:  # noqa: B027 - most starts have nothing to do
        """What to do with all the observations where held-out ones have found nothing better than this start."""


class AsGiven(Start):
    """The weights the networks came with."""

    name = "as given"

    def __call__(self, model: Trainable, observations: Observations, seed: int) -> None:
        """Nothing to do."""


class RandomStart(Start):
    """Fresh weights."""

    name = "random"

    def __call__(self, model: Trainable, observations: Observations, seed: int) -> None:
        """Draw the networks anew."""
        with seeded(seed):
            reinitialise(model.recognition)


class LongStart(Start):
    """Fresh weights, and length scales several times as long: for latents that are slower than they look.

    From long scales a model more often memorises trials, from short ones it may miss slow latents: which of them
    was right is told by the free energy.
    """

    name = "long length scale"
    times = 4.0

    def __call__(self, model: RPM, observations: Observations, seed: int) -> None:
        """Draw the networks anew and stretch the prior."""
        with seeded(seed):
            reinitialise(model.recognition)
        if isinstance(model.prior, ProcessPrior):
            model.prior.stretch(self.times)


@dataclass(frozen=True)
class Lesson:
    """Latents (N, T) or (N, T, K) of these observations, to be taught in a share of the `longest` steps of a fit."""

    observations: Observations
    latents: NDArray[Any]
    longest: int | None
    length_scales: NDArray[np.float64] | None = None
    """(K,), for a prior that has some."""

    def __call__(self, model: RPM, seed: int) -> int:
        """Every factor learns them, whatever it knew; the steps that it took."""
        with seeded(seed):
            reinitialise(model.recognition)
        if self.length_scales is not None and isinstance(model.prior, ProcessPrior):
            model.prior.set_length_scales(torch.as_tensor(self.length_scales))
        return teach(model, self.observations, self.latents, seed, self.longest)


class TaughtStart(Start, ABC):
    """Fresh weights, then a lesson in what is found in the observations; without a lesson fresh weights alone."""

    taught = True

    def __init__(self, longest: int | None = None) -> None:
        self.longest = longest

    @abstractmethod
    def find(self, model: RPM, observations: Observations, seed: int) -> Lesson | None:
        """What to teach, whatever the weights are; None where there is nothing."""

    def __call__(self, model: RPM, observations: Observations, seed: int) -> int | None:
        """Find, then teach."""
        return self.begin(model, self.find(model, observations, seed), seed)

    def begin(self, model: RPM, lesson: Lesson | None, seed: int) -> int | None:
        """Teach what was found; the steps of the lesson."""
        if lesson is not None:
            return lesson(model, seed)
        with seeded(seed):
            reinitialise(model.recognition)
        return None


class StatesStart(TaughtStart):
    """Every factor learns the cluster of its observation, found by this method."""

    def __init__(self, clusters: Clusters, longest: int | None = None) -> None:
        super().__init__(longest)
        self.clusters = clusters
        self.name = clusters.name

    def find(self, model: RPM, observations: Observations, seed: int) -> Lesson | None:
        """Clusters of the sites that exist; nothing where they are fewer than states."""
        observations = observations.some(MANY)
        there = observations.exists
        n_states = cast(FiniteSupport, model.prior.family).n_states
        found = self.clusters(model, observations, n_states, seed) if there.sum() >= n_states else None
        if found is None:
            return None
        states = np.zeros(there.shape, np.int64)
        states[there] = named(found, model, observations, n_states)[there.ravel()]
        return Lesson(observations, states, self.longest)


class SharedStart(TaughtStart):
    """Every factor learns what it shares with the others by a linear analysis (CCA)."""

    name = "CCA"

    def find(self, model: RPM, observations: Observations, seed: int) -> Lesson | None:
        """Shared components."""
        observations = observations.some(MANY)
        tables, present = zip(*features(model, observations), strict=True)
        found = shared_components(tables, present, cast(Gaussian, model.prior.family).latents)
        return Lesson(observations, found.reshape(*observations.exists.shape, -1), self.longest)


class SmoothStart(TaughtStart):
    """Every factor learns the latents of linear GPFA, whose time scales the prior takes.

    Of vectors of channels: pixels are not linear in what they show, and where there is nothing else weights are random.
    """

    name = "GPFA"

    def find(self, model: RPM, observations: Observations, seed: int) -> Lesson | None:
        """Smooth latents and their time scales."""
        observations = observations.some(MANY)
        vectors = [name for name, spec in observations.specs.items() if len(spec.event_shape) == 1]
        if not vectors:
            return None
        shape = observations.exists.shape
        wide = np.concatenate([table for table, _ in features(model, observations, vectors)], 1)
        rows = compact(wide, seed).reshape(*shape, -1)
        found = smooth_latents(rows, observations.exists, cast(Gaussian, model.prior.family).latents)
        latents, scales = found.latents, found.time_scales
        turned = self._turned(model, observations, vectors, latents) if model.private_latents() else None
        if turned is not None:
            latents, scales = latents @ turned, mixed_scales(scales, turned)
        return Lesson(observations, latents, self.longest, scales * usual_step(observations))

    def _turned(
        self, model: RPM, observations: Observations, vectors: list[str], latents: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """To where factors look for them, where some have latents of their own."""
        there = observations.exists.reshape(-1)
        tables = {name: np.asarray(features(model, observations, [name])[0][0], np.float64)[there] for name in vectors}
        return rotation(latents[observations.exists], tables, model.private_latents())


class GivenStart(TaughtStart):
    """Every factor learns the latents that the user gave, states or numbers."""

    name = "given latents"

    def __init__(self, latents: NDArray[Any], longest: int | None = None) -> None:
        super().__init__(longest)
        self.latents = latents

    def find(self, model: RPM, observations: Observations, seed: int) -> Lesson | None:
        """They are there."""
        return Lesson(observations, self.latents, self.longest)


def usual_step(observations: Observations) -> float:
    """Between two sites, in units of time."""
    both = observations.exists[:, 1:] & observations.exists[:, :-1]
    steps = np.diff(observations.times, axis=1)[both]
    return float(np.median(steps)) if steps.size else 1.0
