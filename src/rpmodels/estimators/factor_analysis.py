"""RPFA: continuous latents behind several observations, one site each (RP-FA)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray

from rpmodels.checks import LARGEST, Flag, Integer
from rpmodels.estimators import tables
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.continuous import ContinuousEstimator
from rpmodels.estimators.description import Coordinates, Description, Latents
from rpmodels.estimators.layout import Layout, Rows
from rpmodels.estimators.scikit import available_if
from rpmodels.families import Family
from rpmodels.learning import SharedStart, Start, TrainingSettings
from rpmodels.learning.mixture_starts import MixedStart, RandomMixture
from rpmodels.mixtures import AtomPolicy, PerSite
from rpmodels.observations import Observations, adapters, read
from rpmodels.priors import GaussianMixturePosterior, GaussianMixturePrior, GaussianPrior, Prior

INTERVAL = 0.1
"""Share of max_iter between two halvings of the starts."""


def _has_components(model: "RPFA") -> bool:
    return Integer(2).fits(model.n_components)


class RPFA(ContinuousEstimator):
    """Recognition-parametrised factor analysis: z ~ N(0, I) in K dimensions, a factor for every kind of observation.

    With several components latents come from a mixture of normals, z ~ Σ_c π_c N(m_c, S_c): `predict` and
    `predict_proba` tell the component of every observation.

    Attributes:
        weights_, means_, covariances_: of the components, (C,), (C, K) and (C, K, K), where there are several
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    description = Description("fa", Coordinates(), "n_latents")
    usual: ClassVar[Mapping[str, Any]] = {"training.batch_size": 500}
    refused: ClassVar[Mapping[str, str]] = {
        "inference.atoms": "every observation is one site, with a mixture of its own kind"
    }

    learned_prior: bool = argument(Flag(), "mean and covariance of the prior learned instead of N(0, I)", default=False)
    n_components: int = argument(
        Integer(1, LARGEST),
        "normals that the latents come from; of several weights, means and covariances are learned",
        default=1,
    )
    learning_rate = 5e-3

    # ---- building ---------------------------------------------------------------------------

    def _prior(self, family: Family, observations: Observations) -> Prior:
        if self.n_components > 1:
            return GaussianMixturePrior(family, self.n_components)
        return GaussianPrior(family, self.learned_prior)

    def _atoms(self, observations: Observations) -> AtomPolicy:
        return PerSite()

    def _read(self, X: Any, **options: Any) -> tuple[Observations, Layout]:
        X, _ = adapters.to_trials(X, series=False)
        factors = None if isinstance(X, Mapping) else tables.columns(self)
        return read(tables.checked(self, X, reset=False), factors=factors, gaps=self.gaps, **options), Rows()

    def _taught(self) -> Sequence[Start]:
        return [(MixedStart if self.n_components > 1 else SharedStart)(self.max_iter)]

    def _free(self, number: int) -> Start:
        return RandomMixture() if self.n_components > 1 else super()._free(number)

    def _interval(self, training: TrainingSettings) -> int:
        return max(1, round(INTERVAL * training.max_iter))

    # ---- components -------------------------------------------------------------------------

    def latents(self, X: Any, **options: Any) -> Latents:
        """Means and variances (N, K), and of several components probabilities (N, C) and the most probable one."""
        found = super().latents(X, **options)
        if self.n_components == 1:
            return found
        shares = self.predict_proba(X, **options)
        return replace(found, probabilities=shares, states=shares.argmax(-1))

    @available_if(_has_components)
    def predict_proba(self, X: Any, **options: Any) -> NDArray[Any]:
        """Probabilities of the components given all factors that are present: (N, C)."""
        observations, _ = self._new(X, **options)
        found = [cast(GaussianMixturePosterior, each.posterior) for each in self._fitted().posterior(observations)]
        return np.concatenate([each.shares[:, 0].detach().cpu().numpy() for each in found])

    @available_if(_has_components)
    def predict(self, X: Any, **options: Any) -> NDArray[np.int64]:
        """The most probable component of every observation: (N,)."""
        return np.asarray(self.predict_proba(X, **options).argmax(-1))

    @property
    def _mixture(self) -> GaussianMixturePrior:
        prior = self._fitted().prior
        if not isinstance(prior, GaussianMixturePrior):
            raise AttributeError("components: there is one, N(0, I), where n_components is 1")
        return prior

    @property
    def weights_(self) -> NDArray[Any]:
        """π, (C,)."""
        return np.asarray(self._mixture.log_weights().exp().detach().cpu().numpy())

    @property
    def means_(self) -> NDArray[Any]:
        """m_c, (C, K)."""
        return np.asarray(self._mixture.means.detach().cpu().numpy())

    @property
    def covariances_(self) -> NDArray[Any]:
        """S_c, (C, K, K)."""
        return np.asarray(self._mixture.covariances().detach().cpu().numpy())
