"""Where models whose latents come from a mixture begin: a linear analysis, and the mixture of what it finds."""

import warnings
from typing import cast

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from rpmodels.learning.starts import Lesson, RandomStart, SharedStart
from rpmodels.learning.trainable import Trainable
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors import GaussianMixturePrior
from rpmodels.seeding import seeded

STARTS = 5
"""Of the mixture's EM."""
SMALLEST = 1e-3
"""Added to variances."""


class MixedStart(SharedStart):
    """Shared components, with the mixture that they come from."""

    name = "CCA, mixture"

    def begin(self, model: RPM, lesson: Lesson | None, seed: int) -> int | None:
        """The mixture, then the lesson: factors are relative to it."""
        if lesson is not None:
            _learn_components(cast(GaussianMixturePrior, model.prior), lesson, seed)
        return super().begin(model, lesson, seed)


class RandomMixture(RandomStart):
    """Fresh weights, and fresh components."""

    def __call__(self, model: Trainable, observations: Observations, seed: int) -> None:
        """Draw both anew."""
        super().__call__(model, observations, seed)
        prior = cast(GaussianMixturePrior, cast(RPM, model).prior)
        with seeded(seed):
            fresh = GaussianMixturePrior(prior.family, prior.n_components)
        prior.load_state_dict(fresh.state_dict())


def _learn_components(prior: GaussianMixturePrior, lesson: Lesson, seed: int) -> None:
    """By EM of the latents that are to be taught."""
    rows = np.asarray(lesson.latents, np.float64)[lesson.observations.exists]
    if len(rows) < prior.n_components:
        return
    mixture = GaussianMixture(
        prior.n_components, n_init=STARTS, reg_covar=SMALLEST, random_state=seed % 2**32, covariance_type="full"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(rows)
    like = prior.means.detach().cpu()
    found = (mixture.weights_, mixture.means_, mixture.covariances_)
    prior.restart(*(torch.as_tensor(each).to(like).to(prior.means.device) for each in found))
