"""Do other seeds find the same thing? Runs aligned with each other, and a score of how well they agree."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from rpmodels import checks
from rpmodels.estimators import Latents, RPMEstimator, plain_data
from rpmodels.evaluation.folds import Given
from rpmodels.learning.parallel import parallel_list
from rpmodels.seeding import spawn


@dataclass(frozen=True)
class Stability:
    """Agreement of every pair of runs: R² of one run's latents from another's, or the share of equal states."""

    agreement: NDArray[np.float64]
    """(runs, runs); entry (i, j) explains run j from run i. The diagonal is 1."""
    scores: tuple[float, ...]
    """Training scores of the runs, in nats above independence."""
    latents: tuple[Any, ...]
    """What every run found, aligned with the best-scoring one."""

    @property
    def mean(self) -> float:
        """Over all pairs of different runs."""
        return float(self.agreement[~np.eye(len(self.agreement), dtype=bool)].mean())

    def __repr__(self) -> str:
        pairs = self.agreement[~np.eye(len(self.agreement), dtype=bool)]
        return (
            f"stability {self.mean:.3f} over {len(self.scores)} runs (worst pair {pairs.min():.3f}; scores "
            f"{min(self.scores):.3f} to {max(self.scores):.3f} nats above independence per observation)"
        )


def stability(
    estimator: RPMEstimator,
    X: Any,
    *,
    n_runs: int = 5,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> Stability:
    """Fit from several seeds and compare what they found on the same data.

    Coordinates are compared by R² and aligned by rotation; states at all sites, and topics of all parts, by the share
    of equal ones in the best order; angles by the mean cosine after the best turn.

    Args:
        estimator: not fitted, and left so
        X: as in `fit`
        n_runs: how many seeds
        random_state: of the seeds
        n_jobs: fits at once
        verbose: 1 for a progress bar, a step for every fit
        options: as in `fit` (times, inputs, presence, sample_weight)

    """
    checks.integer("n_runs", n_runs, 2)
    given = Given(*plain_data(estimator, X, options, fitting=True))
    seeds = spawn(random_state, n_runs)
    runs = parallel_list(_run, seeds, n_jobs, estimator, given, label="stability", verbose=verbose)
    latent = estimator.description.latent
    found = [each for each, _ in runs]
    scores = tuple(score for _, score in runs)
    agreement = np.array([[latent.agreement(one, other) for other in found] for one in found])
    best = found[int(np.argmax(scores))]
    return Stability(agreement, scores, tuple(latent.align(each, best) for each in found))


def _run(seed: int, estimator: RPMEstimator, given: Given) -> tuple[Latents, float]:
    model = given.fit(clone(estimator).set_params(random_state=seed % 2**31))
    return model.latents(given.X, **given.new), float(model.score_)
