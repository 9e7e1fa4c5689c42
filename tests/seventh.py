"""A contributor's estimator: what an estimator must have, a description and latents, and not a line more."""

from rpmodels.estimators import Description, Latents, RPMEstimator, States
from rpmodels.learning import AsGiven
from rpmodels.mixtures import PerSite
from rpmodels.priors import CategoricalPrior


class RPSign(RPMEstimator):
    """One of two states behind several observations."""

    description = Description("sign", States(), "n_signs")

    network, head, scaling, batch_size, learning_rate = "auto", "relative", "auto", None, 1e-2
    tol, weight_decay, dropout, input_dropout, max_gradient_norm = None, 0.0, 0.0, 0.0, None
    validation_fraction, patience, optimiser, scheduler, callbacks, engine = 0.0, 200, None, None, None, None
    warm_start, n_jobs, tied = False, None, False

    def __init__(
        self,
        n_signs=2,
        *,
        factors=None,
        max_iter=20,
        n_init=1,
        random_state=None,
        device="cpu",
        dtype="float32",
        verbose=0,
    ):
        self._remember(locals())

    def _build(self, observations):
        return self._discrete(CategoricalPrior.learned(self.n_signs), PerSite(), observations)

    def _starts(self):
        return [AsGiven()]

    def _move(self):
        return None

    def _rung(self, training):
        return training.max_iter

    def latents(self, X, *, presence=None):
        (inferred,) = self.model_.infer(self.read(X, presence))
        found = inferred.posterior.mu[:, 0].numpy()
        return Latents(found, probabilities=found, states=found.argmax(-1))
