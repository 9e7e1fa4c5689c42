"""What populations change in a plan: which factors they are, where they begin, and how large a step is."""

from abc import ABC
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from rpmodels import errors
from rpmodels.estimators.arguments import AUTO, argument
from rpmodels.estimators.common import WithFactors
from rpmodels.estimators.description import Description
from rpmodels.estimators.going_on import given_latents
from rpmodels.estimators.plan import Planning
from rpmodels.estimators.populations import CHANNELS, populations
from rpmodels.estimators.regularisation import batch_size
from rpmodels.learning import Start, TrainingSettings
from rpmodels.learning.batches import Divided
from rpmodels.learning.population_start import PopulationStart
from rpmodels.observations import Observations

STEP, FEWEST_TRIALS = 2**16, 16
"""Channels of all sites, and trials at least, that a step has: the noise of small batches leads fits of different seeds
to different maxima, large ones cost time."""


class PlanningPopulations(WithFactors, Planning, ABC):
    """For estimators of continuous latents."""

    description: ClassVar[Description]

    channels: Any = argument(
        CHANNELS,
        "of factors that are vectors: recognised one by one, as a population, or by one network for all; auto: counts "
        "one by one",
        default="auto",
    )

    def _populations(self, observations: Observations) -> frozenset[str]:
        """The factors whose channels are recognised one by one."""
        alone = not self.description.in_time
        found = populations(observations, self.channels, self.factors, self.network, alone)
        if found and self.recognition is not None and self.recognition.covariance == "diagonal":
            raise errors.population_needs_full("a diagonal one")
        return found

    def _training(self, observations: Observations) -> TrainingSettings:
        settings = super()._training(observations)
        names = self._populations(observations)
        if self._chosen().training.batch_size != AUTO or not names:
            return settings
        channels = sum(observations.specs[name].event_shape[0] for name in names)
        return replace(settings, batch_size=batch_size(AUTO, observations, STEP // channels, FEWEST_TRIALS))

    def _all_starts(self, data: Divided, training: TrainingSettings) -> Sequence[Start]:
        """Populations begin at a linear model, which is the same for every seed: one start, whatever `n_init` is."""
        if not self._populations(data.everything):
            return super()._all_starts(data, training)
        given = self._chosen().search.start
        own = None if given is None else given_latents(self, given, data.everything)[data.index]
        return [PopulationStart(self.max_iter, own)]
