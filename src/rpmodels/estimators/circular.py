"""RPCircular: one angle behind several observations, one site each: a heading, a phase, the time of day."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import checks, learning, log_weight
from rpmodels.estimators import labelled
from rpmodels.estimators.angles import AnglePosterior
from rpmodels.estimators.arguments import GroupOf, argument
from rpmodels.estimators.base import RPMEstimator
from rpmodels.estimators.building import model_of_angles
from rpmodels.estimators.common import OF_STATES, WithFactors
from rpmodels.estimators.description import Circle, Description, Latents
from rpmodels.estimators.groups import Inference
from rpmodels.estimators.regularisation import Regularisation, circular_regularisation
from rpmodels.estimators.scikit import TransformerMixin
from rpmodels.estimators.tables import names_of_latents
from rpmodels.families import VonMises
from rpmodels.mixtures import PerSite
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors import CircularPrior
from rpmodels.seeding import spawn

INTERVAL = 0.1
"""Share of max_iter between two halvings of the starts."""
ONE_ANGLE = "its latent is one angle"


class RPCircular(TransformerMixin, WithFactors, RPMEstimator):
    """A recognition-parametrised model with one angle: uniform a priori, a factor for every kind of observation.

    Angles are found up to a rotation and a reflection (`rp.metrics.aligned_angles`).

    Attributes:
        model_, history_, restarts_, score_, clipped_, n_iter_, stop_reason_, validation_curve_: as in `RPCategorical`

    """

    description = Description("circular", Circle())
    usual: ClassVar[Mapping[str, Any]] = {
        "training.batch_size": 500,
        "training.max_gradient_norm": 1.0,
        "search.retries": 3,
        "inference.expected_log_mixture": "quadrature",
    }
    refused: ClassVar[Mapping[str, str]] = {
        "inference.atoms": "every observation is one site, with a mixture of its own kind",
        **dict.fromkeys(OF_STATES, ONE_ANGLE),
    }

    learned_prior: bool = argument(
        checks.Flag(),
        "mean direction and concentration of the prior learned instead of the whole circle",
        default=False,
    )
    inference: Inference | None = argument(GroupOf(Inference), "how q is found and ⟨log F⟩ computed", default=None)
    learning_rate = 2e-2
    n_init = 3

    # ---- building ---------------------------------------------------------------------------

    def _regularisation(self, observations: Observations) -> Regularisation:
        return circular_regularisation(observations)

    def _build(self, observations: Observations) -> RPM:
        labelled.refuse(self.factors, "angles")
        prior, default = CircularPrior(self.learned_prior), self._regularisation(observations)
        return model_of_angles(prior, PerSite(), observations, self.network, self._chosen(), default)

    def _move(self) -> learning.Move | None:
        return None

    def _interval(self, training: learning.TrainingSettings) -> int:
        return max(1, round(INTERVAL * training.max_iter))

    # ---- using ------------------------------------------------------------------------------

    def latents(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Latents:
        """Mean angles and resultant lengths, (N, 1) each."""
        found = self.posterior(X, presence=presence)
        return Latents(found.angle[:, None], resultant=found.resultant_length[:, None])

    def predict(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> NDArray[np.float64]:
        """The mean angle (N,) in (−π, π], from whatever factors are present."""
        return self.posterior(X, presence=presence).angle

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.float64]:
        """fit(X).predict(X)."""
        return self.fit(X, y, **fit_params).predict(X, presence=fit_params.get("presence"))

    @torch.no_grad()
    def transform(
        self, X: Any, *, presence: Mapping[str, Any] | None = None, on_drift: str | None = None
    ) -> NDArray[Any]:
        """Posterior means of cosine and sine (N, 2): a point on the circle, nearer its centre where less is known.

        `on_drift`: "warn" or "raise" where data are not like those of the fit.
        """
        self._heed(on_drift, X, presence=presence)
        posteriors = [each.posterior.mu for each in self._fitted().posterior(self.read(X, presence))]
        return np.asarray(torch.cat(posteriors)[:, 0].cpu().numpy())

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[Any]:
        """fit(X).transform(X)."""
        return self.fit(X, y, **fit_params).transform(X, presence=fit_params.get("presence"))

    def posterior(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> AnglePosterior:
        """Angles with their intervals and draws, from whatever factors are present."""
        return self._described(each.posterior.eta for each in self._fitted().posterior(self.read(X, presence)))

    def recognise(self, x: Any, factor: str) -> AnglePosterior:
        """f_j(z|x) of one factor alone, without the other factors."""
        observations = self.read({str(factor): x})
        return self._described(self._fitted().recognise(observations, str(factor)))

    @torch.no_grad()
    def _described(self, etas: Iterable[Float[Tensor, "n 1 D"]]) -> AnglePosterior:
        """From natural parameters, batch by batch."""
        family, device = VonMises(), self._fitted().device
        eta = torch.cat(list(etas))[:, 0].double()

        def draws(n_samples: int, random_state: int) -> NDArray[np.float64]:
            generator = torch.Generator(device).manual_seed(spawn(random_state, 1)[0])
            return np.asarray(family.sample(eta.expand(n_samples, -1, -1), generator).cpu().numpy())

        found = (family.direction(eta), family.mean(eta).square().sum(-1).sqrt(), family.concentration(eta))
        angle, length, concentration = (each.cpu().numpy() for each in found)
        return AnglePosterior(angle, length, concentration, draws)

    def log_weight(
        self,
        X: Any,
        *,
        method: str = "quadrature",
        draws: int = 200,
        nodes: int = 1024,
        presence: Mapping[str, Any] | None = None,
    ) -> log_weight.LogWeight:
        """log W itself (eq 4): by a sum over `nodes` angles, or by importance sampling with its standard error."""
        observations = self.read(X, presence)
        seed = spawn(self.random_state, 4)[3]
        return log_weight.by_method(method, self._fitted(), observations, draws, nodes, seed)

    @property
    def prior_(self) -> AnglePosterior:
        """p(z), as one angle."""
        return self._described([cast(CircularPrior, self._fitted().prior).eta.detach()[None, None]])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of cosine and sine, for data frames."""
        return np.asarray(names_of_latents(self, 2))

    def __sklearn_tags__(self) -> Any:
        """Latents have the precision of the model, not that of the data."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
