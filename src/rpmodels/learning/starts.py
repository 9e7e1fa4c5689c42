"""Where a run starts: random weights, or weights taught to agree with k-means."""

from abc import ABC, abstractmethod
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rpmodels.families import FiniteSupport
from rpmodels.learning.spectra import are_images, spectral_features
from rpmodels.learning.teaching import MANY, compact_features, k_means, teach
from rpmodels.learning.trainable import Trainable
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors import GaussianProcessPrior
from rpmodels.recognition import reinitialise
from rpmodels.seeding import seeded


class Start(ABC):
    """Brings a prepared model to where training begins."""

    name: str

    @abstractmethod
    def __call__(self, model: Any, observations: Observations, seed: int) -> None:
        """Change the model's weights in place."""


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
        if isinstance(model.prior, GaussianProcessPrior):
            model.prior.stretch(self.times)


class KMeansStart(Start):
    """Fresh weights, then a short supervised lesson: every factor learns the k-means cluster of its observation.

    Factors that share one network are averaged before clustering (the sum of their squared distances to
    a common centre is that of their mean); others are put side by side.
    """

    name = "k-means"

    def __call__(self, model: RPM, observations: Observations, seed: int) -> None:
        """Cluster, then teach."""
        with seeded(seed):
            reinitialise(model.recognition)
        observations = observations.some(MANY)
        _teach_clusters(model, observations, compact_features(model, observations, seed), seed)


class SpectralStart(Start):
    """The same for textures, by clusters of power spectra. Fresh weights alone where observations are no images.

    Clusters of pixels are shades of grey; spectra tell textures apart (docs/results/lda.md). Many starts of k-means:
    its own poor optima shall not decide where a fit begins.
    """

    name = "spectra"
    n_init = 20

    def __call__(self, model: RPM, observations: Observations, seed: int) -> None:
        """Cluster, then teach."""
        with seeded(seed):
            reinitialise(model.recognition)
        observations = observations.some(MANY)
        if are_images(observations):
            features = spectral_features(model, observations, seed)
            _teach_clusters(model, observations, features, seed, self.n_init)


def _teach_clusters(model: RPM, observations: Observations, features: NDArray[Any], seed: int, n_init: int = 3) -> None:
    """The clusters of the sites that exist; nothing where they are fewer than states."""
    n_states = cast(FiniteSupport, model.prior.family).n_states
    there = observations.exists
    if there.sum() >= n_states:
        states = np.zeros(there.shape, np.int64)
        states[there] = k_means(features[there.ravel()], n_states, seed, n_init)
        teach(model, observations, states, seed)
