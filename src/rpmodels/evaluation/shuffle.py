"""Do my sensors share anything? Scores of real tuples against tuples shuffled across observations."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm.auto import trange

from rpmodels import checks, errors
from rpmodels.estimators import RPMEstimator, plain_data
from rpmodels.observations import Observations
from rpmodels.seeding import spawn


@dataclass(frozen=True)
class ShuffleTest:
    """Mean scores in nats above independence per observation."""

    score: float
    """Of the observations as they are."""
    null: NDArray[np.float64]
    """Of every shuffle: what the model would say were there nothing to share."""

    @property
    def p_value(self) -> float:
        """Share of shuffles, the data themselves among them, that score as high."""
        return float((1 + (self.null >= self.score).sum()) / (1 + len(self.null)))

    def __repr__(self) -> str:
        return (
            f"score {self.score:.4f} against {self.null.mean():.4f} ± {self.null.std():.4f} of {len(self.null)} "
            f"shuffles (nats above independence per observation): p = {self.p_value:.3g}"
        )


def shuffle_test(
    model: RPMEstimator,
    X: Any,
    *,
    n_shuffles: int = 99,
    random_state: int | None = 0,
    verbose: int = 0,
    **options: Any,
) -> ShuffleTest:
    """Whether what the factors share in X is more than chance, under a fitted model.

    Every factor, at every site, is dealt anew among the observations that have it, which keeps what each looks like and
    breaks what they share. Use data that the model was not fitted to: on its training data it may have memorised.

    Args:
        model: fitted
        X: new observations, as `score` takes them
        n_shuffles: how many; the smallest p-value is 1/(1 + n_shuffles)
        random_state: seed of the shuffles
        verbose: 1 for a progress bar, a step for every shuffle
        options: as in `score` (times, presence)

    """
    checks.integer("n_shuffles", n_shuffles, 1)
    X, options = plain_data(model, X, options)
    observations = model.read(X, **options)
    if len(observations) < 2:
        raise errors.bad_value("X", "at least two observations to shuffle", f"{len(observations)}")
    random = np.random.default_rng(spawn(random_state, 1)[0])
    bar = trange(n_shuffles, desc="shuffle_test", disable=not verbose, leave=False)
    null = [_score(model, shuffled(observations, random)) for _ in bar]
    return ShuffleTest(_score(model, observations), np.array(null))


def shuffled(observations: Observations, random: np.random.Generator) -> Observations:
    """Every factor at every site dealt anew among the observations that have it there."""
    values = {}
    for name, given in observations.values.items():
        dealt = np.array(given)
        for site in range(observations.n_sites):
            have = np.flatnonzero(observations.present[name][:, site])
            dealt[have, site] = dealt[random.permutation(have), site]
        values[name] = dealt
    return replace(observations, values=values)


def _score(model: RPMEstimator, observations: Observations) -> float:
    return float(model.model_.free_energies(observations).total.double().mean())
