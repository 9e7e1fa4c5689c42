"""The RPM beside what needs no model: the same scaling, splits and seeds for all, with the spread."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.cross_decomposition import CCA
from sklearn.decomposition import PCA, FactorAnalysis

from rpmodels import checks, errors, metrics
from rpmodels.baselines import GPFA
from rpmodels.estimators import RPFA, RPGPFA, RPCategorical, RPMEstimator
from rpmodels.evaluation.decoding import KINDS, Decoder
from rpmodels.evaluation.folds import Index, TrialFolds, n_trials, subset
from rpmodels.learning.parallel import parallel_map
from rpmodels.observations import Observations, fit_scaling

Trials = list[NDArray[np.float64]]
SMOOTHING = 5.0
"""Bins (sd) of the smoothed PCA."""


@dataclass(frozen=True)
class Comparison:
    """Held-out numbers of every method: {method: {measure: one value per fold and seed}}."""

    values: Mapping[str, Mapping[str, NDArray[np.float64]]] = field(default_factory=dict)

    def __repr__(self) -> str:
        width = max(len(name) for name in self.values)
        lines = []
        for method, measures in self.values.items():
            numbers = (f"{name} {each.mean():.3f} ± {each.std():.3f}" for name, each in measures.items())
            lines.append(f"{method:{width}}  {'   '.join(numbers)}")
        return "\n".join(lines)


class Method(ABC):
    """Latents without an RPM. Methods see scaled bins, factors side by side, zero (the mean) where absent."""

    name: str

    @abstractmethod
    def latents(self, training: Trials, all_trials: Trials, n_latents: int, seed: int) -> Trials:
        """Fitted to some trials, applied to all."""


class ByBins(Method):
    """Any of scikit-learn's decompositions of single bins, after smoothing within trials."""

    def __init__(self, name: str, kind: Any, smoothing: float = 0.0) -> None:
        self.name = name
        self._kind = kind
        self._smoothing = smoothing

    def latents(self, training: Trials, all_trials: Trials, n_latents: int, seed: int) -> Trials:
        """Bin by bin."""
        model = self._kind(n_latents, random_state=seed).fit(np.concatenate([self._smooth(x) for x in training]))
        return [model.transform(self._smooth(x)) for x in all_trials]

    def _smooth(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(gaussian_filter1d(x, self._smoothing, axis=0)) if self._smoothing else x


class LinearGPFA(Method):
    """`baselines.GPFA`."""

    name = "GPFA"

    def latents(self, training: Trials, all_trials: Trials, n_latents: int, seed: int) -> Trials:
        """Smoothed by its own Gaussian processes."""
        return list(GPFA(n_latents, random_state=seed).fit(training).transform(all_trials))


class Canonical(Method):
    """Canonical correlation analysis of the first factor with the others; latents are the mean of both sides."""

    name = "CCA"

    def __init__(self, first: int) -> None:
        self._first = first

    def latents(self, training: Trials, all_trials: Trials, n_latents: int, seed: int) -> Trials:
        """Bin by bin."""
        rows = np.concatenate(training)
        size = min(n_latents, self._first, rows.shape[1] - self._first)
        model = CCA(size, max_iter=2000).fit(rows[:, : self._first], rows[:, self._first :])
        return [np.mean(model.transform(x[:, : self._first], x[:, self._first :]), 0) for x in all_trials]


def methods_for(estimator: RPMEstimator, widths: Sequence[int], longest: int) -> list[Method]:
    """What to compare with: k-means for states, else decompositions; GPFA for series, CCA for several factors."""
    if isinstance(estimator, RPCategorical):
        return []
    chosen: list[Method] = [ByBins("PCA", PCA), ByBins("FA", FactorAnalysis)]
    if longest > 1:
        chosen += [ByBins("PCA, smoothed", PCA, SMOOTHING), LinearGPFA()]
    if len(widths) > 1:
        chosen.append(Canonical(widths[0]))
    return chosen


def compare_baselines(
    X: Any,
    y: Any = None,
    *,
    estimator: RPMEstimator | None = None,
    cv: int | Any = 4,
    groups: Any = None,
    n_seeds: int = 1,
    random_state: int = 0,
    n_jobs: int | None = None,
) -> Comparison:
    """An RPM against PCA, factor analysis, linear GPFA, CCA or k-means, on trials that none of them has seen.

    With `y` (behaviour, or labels) the measures are how well it can be read from the latents, linearly ("ridge") and by
    15 nearest neighbours ("knn"); for discrete latents the accuracy after matching states to labels on the training
    trials. Without, how well the latents of each method can be read from those of the RPM ("agreement").

    Args:
        X: trials or rows, as `fit` takes them
        y: one value per bin or per trial
        estimator: the RPM; default RPGPFA(3) for series, RPFA(2) for tables
        cv: folds, or a splitter
        groups: trials that stay together
        n_seeds: fits of every fold
        random_state: the first seed
        n_jobs: folds and seeds at once

    """
    checks.integer("n_seeds", n_seeds, 1)
    model = estimator if estimator is not None else _default(X)
    if isinstance(model, RPCategorical) and y is None:
        raise errors.bad_value("y", "labels, to compare states with", "none")
    if y is not None and n_trials(y) != n_trials(X):
        raise errors.bad_value("y", f"{n_trials(X)} trials as in X", n_trials(y))
    splitter = TrialFolds(cv) if isinstance(cv, int) else cv
    tasks = [(fold, random_state + seed) for fold in splitter.split(X, None, groups) for seed in range(n_seeds)]
    found = list(parallel_map(_one_fold, tasks, n_jobs, model, X, y))
    names = {name: list(measures) for name, measures in found[0].items()}
    return Comparison({
        name: {measure: np.array([each[name][measure] for each in found]) for measure in measures}
        for name, measures in names.items()
    })  # fmt: skip


def _default(X: Any) -> RPMEstimator:
    first = next(iter(X.values())) if isinstance(X, Mapping) else X
    series = isinstance(first, list) or np.ndim(first) > 2
    return RPGPFA(3) if series else RPFA(2)


def _one_fold(
    task: tuple[tuple[Index, Index], int], estimator: RPMEstimator, X: Any, y: Any
) -> dict[str, dict[str, float]]:
    (training, held_out), seed = task
    model = clone(estimator).set_params(random_state=seed).fit(subset(X, training))
    observations = model.read(X)
    bins = scaled_bins(observations, training)
    if isinstance(model, RPCategorical):
        return _states(model, X, y, training, held_out, bins, seed)
    own = model.transform(X)
    ours = [np.asarray(each, np.float64).reshape(-1, np.shape(each)[-1]) for each in own]
    widths = [int(np.prod(spec.event_shape)) for spec in observations.specs.values() if not spec.is_label]
    found = {_name(model): ours}
    for method in methods_for(model, widths, observations.n_sites):
        found[method.name] = method.latents([bins[n] for n in training], bins, ours[0].shape[1], seed)
    return {name: _measures(each, ours, y, training, held_out) for name, each in found.items()}


def _name(model: RPMEstimator) -> str:
    return type(model).__name__


def _measures(latents: Trials, ours: Trials, y: Any, training: Index, held_out: Index) -> dict[str, float]:
    new = subset(latents, held_out)
    if y is None:
        return {"agreement": 1.0 - metrics.nmse(subset(ours, held_out), new)}
    given = list(y)
    fitted = (Decoder(kind).fit(subset(latents, training), subset(given, training)) for kind in KINDS)
    return {decoder.kind: decoder.score(new, subset(given, held_out)) for decoder in fitted}


def _states(
    model: RPCategorical, X: Any, y: Any, training: Index, held_out: Index, bins: Trials, seed: int
) -> dict[str, dict[str, float]]:
    """Accuracy of states matched to labels on the training trials."""
    codes = np.unique(np.asarray(y), return_inverse=True)[1]
    rows = np.concatenate(bins)
    clusters = KMeans(model.n_states, n_init=10, random_state=seed).fit(rows[training]).predict(rows)
    scores = {}
    for name, states in ((_name(model), model.predict(X)), ("k-means", clusters)):
        matching = metrics.match_states(codes[training], states[training], model.n_states)
        scores[name] = {"accuracy": float((matching[states[held_out]] == codes[held_out]).mean())}
    return scores


def scaled_bins(observations: Observations, training: Index) -> Trials:
    """Every trial as (T_n, channels of all factors), scaled as the RPM scales them; zero where absent."""
    parts = []
    for name, spec in observations.specs.items():
        if spec.is_label:
            continue
        scaling = fit_scaling(name, observations.subset(training).present_rows(name), "auto", is_label=False)
        values = scaling(torch.as_tensor(observations.values[name].reshape(-1, *spec.event_shape)), torch.float64)
        wide = values.numpy().reshape(*observations.exists.shape, -1)
        parts.append(np.where(observations.present[name][..., None], wide, 0.0))
    if not parts:
        raise errors.bad_value("X", "at least one factor of numbers", "labels only")
    joined = np.concatenate(parts, -1)
    return [joined[n, observations.exists[n]] for n in range(len(observations))]
