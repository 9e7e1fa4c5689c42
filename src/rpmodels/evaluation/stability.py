"""Do other seeds find the same thing? Runs aligned with each other, and a score of how well they agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from sklearn.base import clone

from rpmodels import checks, metrics
from rpmodels.estimators import RPCategorical, RPMEstimator
from rpmodels.learning.parallel import parallel_map
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
    **options: Any,
) -> Stability:
    """Fit from several seeds and compare what they found on the same data.

    Args:
        estimator: not fitted, and left so
        X: as in `fit`
        n_runs: how many seeds
        random_state: of the seeds
        n_jobs: fits at once
        options: as in `fit` (times, presence)

    """
    checks.integer("n_runs", n_runs, 2)
    runs = list(parallel_map(_fitted, spawn(random_state, n_runs), n_jobs, estimator, X, options))
    discrete = isinstance(estimator, RPCategorical)
    found = [each for each, _ in runs]
    scores = tuple(float(score) for _, score in runs)
    compare = _share_of_equal_states if discrete else _explained
    agreement = np.array([[compare(one, other) for other in found] for one in found])
    best = found[int(np.argmax(scores))]
    align = align_states if discrete else align_latents
    return Stability(agreement, scores, tuple(align(each, best) for each in found))


def align_latents(latents: metrics.Trials, reference: metrics.Trials) -> Any:
    """Latents rotated and reflected towards a reference of the same shape (orthogonal Procrustes), in their own form.

    Both are centred over all time points first; the result has the reference's centre.
    """
    rows, towards = (_stacked(each) for each in (latents, reference))
    centre, goal = rows.mean(0), towards.mean(0)
    rotation, _ = orthogonal_procrustes(rows - centre, towards - goal)
    if isinstance(latents, np.ndarray):
        return (latents - centre) @ rotation + goal
    return [(np.asarray(each) - centre) @ rotation + goal for each in latents]


def align_states(probabilities: NDArray[Any], reference: NDArray[Any]) -> NDArray[Any]:
    """Columns (states) of (…, K) put into the order that agrees best with a reference (Kuhn–Munkres)."""
    size = probabilities.shape[-1]
    states, goal = (each.reshape(-1, size).argmax(-1) for each in (probabilities, reference))
    matching = metrics.match_states(goal, states, size)
    aligned = np.empty_like(probabilities)
    aligned[..., matching] = probabilities
    return aligned


def _fitted(seed: int, estimator: RPMEstimator, X: Any, options: dict[str, Any]) -> tuple[Any, float]:
    model = clone(estimator).set_params(random_state=seed % 2**31).fit(X, **options)
    new = {name: value for name, value in options.items() if name in ("times", "presence")}
    found = model.predict_proba(X, **new) if isinstance(model, RPCategorical) else model.transform(X, **new)
    return found, float(model.score_)


def _explained(one: metrics.Trials, other: metrics.Trials) -> float:
    return 1.0 - metrics.nmse(one, other)


def _share_of_equal_states(one: NDArray[Any], other: NDArray[Any]) -> float:
    return float((align_states(one, other).argmax(-1) == other.argmax(-1)).mean())


def _stacked(latents: metrics.Trials) -> NDArray[np.float64]:
    parts: Sequence[Any] = [latents] if isinstance(latents, np.ndarray) else latents
    return np.concatenate([np.asarray(each, np.float64).reshape(-1, np.shape(each)[-1]) for each in parts])
