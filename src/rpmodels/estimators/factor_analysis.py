"""RPFA: continuous latents behind several observations, one site each (RP-FA)."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from rpmodels.checks import Flag
from rpmodels.estimators import tables
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.continuous import ContinuousEstimator
from rpmodels.estimators.description import Coordinates, Description
from rpmodels.estimators.layout import Layout, Rows
from rpmodels.families import Family
from rpmodels.learning import SharedStart, Start, TrainingSettings
from rpmodels.mixtures import AtomPolicy, PerSite
from rpmodels.observations import Observations, adapters, read
from rpmodels.priors import GaussianPrior, Prior

INTERVAL = 0.1
"""Share of max_iter between two halvings of the starts."""


class RPFA(ContinuousEstimator):
    """Recognition-parametrised factor analysis: z ~ N(0, I) in K dimensions, a factor for every kind of observation.

    Attributes:
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    description = Description("fa", Coordinates(), "n_latents")
    usual: ClassVar[Mapping[str, Any]] = {"training.batch_size": 500}
    refused: ClassVar[Mapping[str, str]] = {
        "inference.atoms": "every observation is one site, with a mixture of its own kind"
    }

    learned_prior: bool = argument(Flag(), "mean and covariance of the prior learned instead of N(0, I)", default=False)
    learning_rate = 5e-3

    def _prior(self, family: Family, observations: Observations) -> Prior:
        return GaussianPrior(family, self.learned_prior)

    def _atoms(self, observations: Observations) -> AtomPolicy:
        return PerSite()

    def _read(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        X, _ = adapters.to_trials(X, series=False)
        factors = None if isinstance(X, Mapping) else tables.columns(self)
        return read(tables.checked(self, X, reset=False), factors=factors, gaps=self.gaps, **options), Rows()

    def _taught(self) -> Sequence[Start]:
        return [SharedStart(self.max_iter)]

    def _interval(self, training: TrainingSettings) -> int:
        return max(1, round(INTERVAL * training.max_iter))
