"""Where several chains, and states with an age, begin: every factor at clusters, over time, of what it speaks of."""

from typing import cast

import numpy as np
from numpy.typing import NDArray

from rpmodels.families import JointStates
from rpmodels.learning.series_clusters import KMeansOverTime
from rpmodels.learning.starts import Lesson, TaughtStart
from rpmodels.learning.teaching import MANY
from rpmodels.model import RPM
from rpmodels.observations import Observations


class ChainsStart(TaughtStart):
    """Latents that some factor speaks of alone; where a factor speaks of several there is no lesson, chance decides."""

    name = "k-means over time"

    def find(self, model: RPM, observations: Observations, seed: int) -> Lesson | None:
        """States of these latents at every site, zero for those that no factor speaks of."""
        family = cast(JointStates, model.prior.family)
        observations = observations.some(MANY)
        spoken = {name: model.speaks_of(name) for name in model.names}
        if any(len(each) > 1 for each in spoken.values()) or observations.exists.sum() < max(family.states):
            return None
        found = np.zeros((*observations.exists.shape, family.latents), np.int64)
        for latent in sorted({each for (each,) in spoken.values()}):
            names = [name for name in model.names if spoken[name] == (latent,)]
            found[..., latent] = _clusters(model, observations, names, family.states[latent], seed)
        return Lesson(observations, found, self.longest)


def _clusters(model: RPM, observations: Observations, names: list[str], n_states: int, seed: int) -> NDArray[np.int64]:
    found = KMeansOverTime()(model, observations, n_states, seed, names)
    return found.reshape(observations.exists.shape)
