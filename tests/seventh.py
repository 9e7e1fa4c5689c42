"""A contributor's estimator: what an estimator must have, a description and latents, and not a line more."""

from rpmodels.checks import Integer
from rpmodels.estimators import Description, Latents, RPMEstimator, States
from rpmodels.estimators.arguments import argument
from rpmodels.learning import AsGiven
from rpmodels.mixtures import PerSite
from rpmodels.priors import CategoricalPrior


class RPSign(RPMEstimator):
    """One of two states behind several observations."""

    description = Description("sign", States(), "n_signs")

    n_signs: int = argument(Integer(2), "K", default=2, kw_only=False)
    factors = None

    def _build(self, observations):
        return self._model_of_states(CategoricalPrior.learned(self.n_signs), PerSite(), observations)

    def _starts(self):
        return [AsGiven()]

    def _move(self):
        return None

    def _interval(self, training):
        return training.max_iter

    def latents(self, X, *, presence=None):
        (inferred,) = self._fitted().posterior(self.read(X, presence))
        found = inferred.posterior.mu[:, 0].numpy()
        return Latents(found, probabilities=found, states=found.argmax(-1))
