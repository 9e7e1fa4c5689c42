"""RPCategorical: one discrete latent behind several observations (peer supervision), by exact likelihood."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rpmodels import generative, learning
from rpmodels.checks import LARGEST, Array, Integer, Number, Word
from rpmodels.estimators import labelled, parts
from rpmodels.estimators.arguments import argument
from rpmodels.estimators.base import RPMEstimator
from rpmodels.estimators.common import OF_STATES, WithFactors
from rpmodels.estimators.description import Description, Latents, States
from rpmodels.estimators.regularisation import has_plenty
from rpmodels.learning.linear_states import LinearStates
from rpmodels.mixtures import PerSite
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors import CategoricalPrior

INTERVAL = 0.055
"""Share of max_iter between two halvings: one epoch of the paper's MNIST pairs."""


class RPCategorical(WithFactors, RPMEstimator):
    """A recognition-parametrised model with one discrete latent of K states (paper, "Peer Supervision").

    Attributes:
        model_: the fitted RPM
        history_: named terms of the free energy, one row a step
        restarts_: what became of every start
        score_: nats above independence on the training data, with its ceiling
        clipped_: how many training values of each factor the scaling clipped
        n_iter_: steps taken, those of lessons among them
        stop_reason_: why training stopped
        validation_curve_: training and held-out score, where there was a validation set

    """

    description = Description("categorical", States(), "n_states")
    usual: ClassVar[Mapping[str, Any]] = {"training.batch_size": 500}
    refused = OF_STATES
    strong = learning.Strong()

    n_states: int = argument(Integer(2, LARGEST), "K", default=10, kw_only=False)
    prior: Any = argument(
        Word("uniform", "learned") | Number(above=0.0) | Array(1),
        "over the states; K probabilities, or a Dirichlet concentration (variational Bayes)", default="uniform",
    )  # fmt: skip
    learning_rate = 3e-3
    n_init = 6

    # ---- building ---------------------------------------------------------------------------

    def _build(self, observations: Observations) -> RPM:
        return self._model_of_states(parts.categorical_prior(self.prior, self.n_states), PerSite(), observations)

    def _taught(self) -> Sequence[learning.Start]:
        kinds = (learning.KMeans(by_factor=False), learning.Mixture(), learning.KMeans())
        clusters = [learning.StatesStart(each, self.max_iter) for each in kinds]
        return [LinearStates(self.max_iter), *clusters]

    def _has_straight(self, observations: Observations) -> bool:
        return has_plenty(observations)

    def _move(self) -> learning.Move | None:
        return None if labelled.is_pinned(self.factors) else learning.SplitMerge(self.max_iter)

    def _interval(self, training: learning.TrainingSettings) -> int:
        return max(1, round(INTERVAL * training.max_iter))

    # ---- using ------------------------------------------------------------------------------

    def latents(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> Latents:
        """Probabilities of the states (N, K), and the most probable ones (N,)."""
        found = self.predict_proba(X, presence=presence)
        return Latents(found, probabilities=found, states=found.argmax(1))

    def predict_proba(
        self, X: Any, *, presence: Mapping[str, Any] | None = None, on_drift: str | None = None
    ) -> NDArray[Any]:
        """Posterior over the states from every factor that is present (A14): (N, K).

        `on_drift`: "warn" or "raise" where data are not like those of the fit.
        """
        self._heed(on_drift, X, presence=presence)
        observations = self.read(X, presence)
        return _rows(inferred.posterior.mu for inferred in self._fitted().posterior(observations))

    def predict(self, X: Any, *, presence: Mapping[str, Any] | None = None) -> NDArray[np.int64]:
        """The most probable state."""
        return np.asarray(self.predict_proba(X, presence=presence).argmax(1))

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> NDArray[np.int64]:
        """fit(X).predict(X)."""
        return self.fit(X, y, **fit_params).predict(X, presence=fit_params.get("presence"))

    def recognise(self, x: Any, factor: str) -> NDArray[Any]:
        """f_j(z|x) of one factor alone, without prior, mixture or the other factors: (N, K)."""
        model = self._fitted()
        factor = str(factor)
        return _rows(model.prior.family.mean(eta) for eta in model.recognise(self.read({factor: x}), factor))

    def state_names(self, factor: str) -> NDArray[Any]:
        """The likeliest label of every state (K,), by a factor of labels that was present for some observations."""
        factor = self._factor(factor)
        table = generative.label_table(self._fitted(), factor)
        names = np.asarray(self._fitted().specs[factor].vocabulary)
        return np.asarray(names[table.argmax(-1).cpu().numpy()])

    def predict_label(self, X: Any, factor: str, *, presence: Mapping[str, Any] | None = None) -> NDArray[Any]:
        """The likeliest label of every observation (N,), from whatever other factors are present."""
        names = np.asarray(self._fitted().specs[self._factor(factor)].vocabulary)
        return np.asarray(names[self.label_probabilities(X, factor, presence=presence).argmax(-1)])

    def label_probabilities(self, X: Any, factor: str, *, presence: Mapping[str, Any] | None = None) -> NDArray[Any]:
        """p(label given the other factors), (N, labels): Σ over states of q(state) p(label | state)."""
        factor = self._factor(factor)
        table = generative.label_table(self._fitted(), factor).cpu().numpy()
        others = {name: each for name, each in X.items() if str(name) != str(factor)} if isinstance(X, Mapping) else X
        return np.asarray(self.predict_proba(others, presence=presence) @ table)

    @property
    def prior_(self) -> NDArray[Any]:
        """Probabilities of the states."""
        prior = self._fitted().prior
        assert isinstance(prior, CategoricalPrior)
        return np.asarray(prior.probabilities.cpu().numpy())


def _rows(parts: Iterable[Float[Tensor, "n 1 K"]]) -> NDArray[Any]:
    """Batches of single sites as one array (N, K)."""
    return np.asarray(torch.cat([part[:, 0] for part in parts]).cpu().numpy())
