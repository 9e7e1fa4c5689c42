"""The RPM beside what needs no model: the same scaling, splits and seeds for all, with the spread."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import clone

from rpmodels import alignment, checks, errors, metrics
from rpmodels.estimators import Latents, RPMEstimator, default_for
from rpmodels.evaluation.clocks import clocked
from rpmodels.evaluation.decoding import READINGS, points_of
from rpmodels.evaluation.folds import Fold, Given, Index, folds_of, subset
from rpmodels.evaluation.methods import Bins, latents_of, scores_of
from rpmodels.evaluation.rivals import Rivals, rivals_of
from rpmodels.learning.parallel import parallel_list
from rpmodels.observations import Observations, fit_scaling


@dataclass(frozen=True)
class Comparison:
    """Held-out numbers of every method: {method: {measure: one value per fold and seed}}."""

    values: Mapping[str, Mapping[str, NDArray[np.float64]]] = field(default_factory=dict)
    interpolation: str = ""
    """What was done to a `y` that had a clock of its own."""

    def __repr__(self) -> str:
        width = max(len(name) for name in self.values)
        lines = []
        for method, measures in self.values.items():
            numbers = (f"{name} {each.mean():.3f} ± {each.std():.3f}" for name, each in measures.items())
            lines.append(f"{method:{width}}  {'   '.join(numbers)}")
        if self.interpolation:
            lines.append(f"(y {self.interpolation})")
        return "\n".join(lines)


def compare_baselines(
    X: Any,
    y: Any = None,
    *,
    estimator: RPMEstimator | None = None,
    at: Any = None,
    how: str = "auto",
    cv: int | Any = 4,
    groups: Any = None,
    n_seeds: int = 1,
    random_state: int = 0,
    methods: Sequence[str] | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> Comparison:
    """An RPM against methods without one, on trials that none of them has seen.

    Coordinates stand beside PCA and factor analysis, plain and smoothed, linear GPFA, CCA, and CEBRA-time where the
    package cebra is installed; states beside k-means (plain, smoothed, of factors weighted alike, of canonical
    variates), a Gaussian mixture of principal components, and over time a hidden Markov model where hmmlearn is
    installed; topics beside k-means of parts and latent Dirichlet allocation over clusters of them.

    How much "PCA, smoothed" and "FA, smoothed" smooth is chosen by what is to be read: a width for each decoder, among
    0, 1, 2, 3, 5 and 8 bins (sd), on inner folds of the training trials. Without `y` they smooth by 5 bins.

    With `y` (behaviour, or labels) the measures are how well it can be read from the latents, linearly ("ridge") and by
    15 nearest neighbours ("knn"); for labels of single states or parts the accuracy after matching states to labels on
    the training trials. Without, how well the latents of each method can be read from those of the RPM ("agreement"; of
    states: the share of equal ones).

    Args:
        X: trials or rows, as `fit` takes them, but one long recording: cut it into trials first
        y: one value per bin or per trial
        estimator: the RPM; default RPGPFA(3) for series, RPFA(2) for tables
        at: when `y` was taken, (T,) or a list of (T_n,), where it was not in the bins of X, whose `times` must be
            known: it is interpolated, and the result says how
        how: "mean" within bins, "linear", or "nearest"; default the mean where a bin has several values, else linear,
            of labels the nearest
        cv: folds, a splitter, or pairs of (training, held-out) trials
        groups: trials that stay together, also on the inner folds
        n_seeds: fits of every fold
        random_state: the first seed
        methods: names of those to compare with, as they are printed; the RPM is always there. None: all
        n_jobs: folds and seeds at once
        verbose: 1 for a progress bar, a step for every fold and seed
        options: as in `fit` (times, inputs, presence); the other methods see neither times nor inputs

    """
    checks.integer("n_seeds", n_seeds, 1)
    model = estimator if estimator is not None else default_for(X)
    rivals = rivals_of(model.description.latent)
    names = named_rivals(methods, type(model).__name__, rivals)
    given, y, said = clocked(model, X, y, at, how, options)
    tasks = [(fold, random_state + seed) for fold in folds_of(cv, given.X, groups) for seed in range(n_seeds)]
    shared = (model, rivals, names, given, y, None if groups is None else np.asarray(groups))
    found = parallel_list(_one_fold, tasks, n_jobs, *shared, label="compare_baselines", verbose=verbose)
    values = {
        name: {measure: np.array([each[name][measure] for each in found]) for measure in measures}
        for name, measures in found[0].items()
    }
    return Comparison(values, said)


def named_rivals(methods: Sequence[str] | None, own: str, rivals: Rivals) -> list[str] | None:
    """Those asked for, known and installed; None for all."""
    if methods is None:
        return None
    names = [each for each in ([methods] if isinstance(methods, str) else methods) if each != own]
    rivals.check(names)
    return names


def _one_fold(
    task: tuple[Fold, int],
    estimator: RPMEstimator,
    rivals: Rivals,
    names: Sequence[str] | None,
    given: Given,
    y: Any,
    groups: Any,
) -> dict[str, dict[str, float]]:
    """{method: {measure: value}}."""
    fold, seed = task
    model = given.only(fold[0]).fit(clone(estimator).set_params(random_state=seed))
    ours = _listed(model, model.latents(given.X, **given.new))
    observations = model.read(given.X, **given.new)
    bins = scaled_bins(observations, fold[0])
    widths = [int(np.prod(spec.event_shape)) for spec in observations.specs.values() if not spec.is_label]
    size = min(ours.values[0].shape[-1], bins[0].shape[-1])  # of a circle two; of several latents all their states
    own, seen = type(model).__name__, subset(bins, fold[0])
    methods = rivals.methods(widths, observations.n_sites, names)
    labels = None if y is None else _labels(y, ours.states, rivals.of_sites)
    if y is not None and labels is None:
        behaviour = list(y)
        measured = {own: scores_of(READINGS, dict.fromkeys(READINGS, ours.values), behaviour, fold)}
        for method in methods:
            chosen = method.chosen(seen, subset(behaviour, fold[0]), READINGS, size, seed, subset(groups, fold[0]))
            found = latents_of(chosen, seen, bins, size, seed)
            measured[method.name] = scores_of(READINGS, found, behaviour, fold)
        return measured
    every = {own: ours, **{each.name: each.latents(seen, bins, size, seed) for each in methods}}
    if labels is not None:
        return {name: {"accuracy": _accuracy(each, labels, size, fold)} for name, each in every.items()}
    return {name: {"agreement": _agreement(each, ours, rivals, size, fold[1])} for name, each in every.items()}


def _listed(model: RPMEstimator, found: Latents) -> Latents:
    """A trial after the other: points (T_n, D) for regressions, and states (T_n,) where there are some."""
    states = None if found.states is None else [np.atleast_1d(each) for each in found.states]
    return Latents(points_of(model, found), states=states)


def _labels(y: Any, states: Sequence[NDArray[Any]] | None, of_sites: bool) -> list[NDArray[Any]] | None:
    """The label of every state, as numbers; None where `y` says something else."""
    if states is None:
        return None
    parts = [np.asarray(each) for each in y]
    if of_sites:
        parts = [np.full(len(s), each) if each.ndim == 0 else each for each, s in zip(parts, states, strict=True)]
    if any(each.dtype.kind == "f" or each.shape != s.shape for each, s in zip(parts, states, strict=True)):
        return None
    codes = np.unique(np.concatenate(parts), return_inverse=True)[1]
    return list(np.split(codes, np.cumsum([len(each) for each in parts])[:-1]))


def _accuracy(found: Latents, labels: Sequence[NDArray[Any]], size: int, fold: Fold) -> float:
    """Of states matched to labels on the training trials."""
    (known, seen), (truth, new) = (
        (np.concatenate(subset(labels, index)), np.concatenate(subset(found.states, index))) for index in fold
    )
    return float((metrics.match_states(known, seen, size)[new] == truth).mean())


def _agreement(found: Latents, ours: Latents, rivals: Rivals, size: int, held_out: Index) -> float:
    """What ours say of theirs."""
    if rivals.of_sites:
        return alignment.equal_states(subset(ours.states, held_out), subset(found.states, held_out), size)
    return alignment.explained(subset(ours.values, held_out), subset(found.values, held_out))


def scaled_bins(observations: Observations, training: Index) -> Bins:
    """Every trial as (T_n, channels of all factors), scaled as the RPM scales them; zero where absent."""
    parts = []
    for name, spec in observations.specs.items():
        if spec.is_label:
            continue
        scaling = fit_scaling(name, observations.subset(training).present_rows(name), "auto", is_label=False)
        values = scaling(torch.as_tensor(observations.values[name].reshape(-1, *spec.event_shape)), torch.float64)
        wide = values.numpy().reshape(*observations.exists.shape, -1)
        parts.append(np.where(observations.present[name][..., None], np.nan_to_num(wide), 0.0))
    if not parts:
        raise errors.bad_value("X", "at least one factor of numbers", "labels only")
    joined = np.concatenate(parts, -1)
    return [joined[n, observations.exists[n]] for n in range(len(observations))]
