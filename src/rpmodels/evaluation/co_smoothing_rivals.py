"""Co-smoothing of an RPM beside methods that predict no counts: these by Poisson regressions from their latents."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from rpmodels import errors
from rpmodels.estimators import RPMEstimator, default_for
from rpmodels.evaluation.bits import RATES, Gained, by_rates
from rpmodels.evaluation.co_smoothing import fitted_to, gained_by, predictable
from rpmodels.evaluation.comparison import Comparison, named_rivals, scaled_bins
from rpmodels.evaluation.counts import Counts, chosen_channels
from rpmodels.evaluation.folds import Fold, Index, folds_of, subset
from rpmodels.evaluation.methods import Method
from rpmodels.evaluation.read_outs import PoissonReadOut, Rows, read_counts
from rpmodels.evaluation.rivals import Rivals, rivals_of
from rpmodels.learning.parallel import parallel_list
from rpmodels.observations import read


def compare_co_smoothing(
    X: Any,
    *,
    estimator: RPMEstimator | None = None,
    held_out: Any = 0.25,
    factor: str | None = None,
    e_step: Any = None,
    cv: int | Any = 4,
    groups: Any = None,
    random_state: int = 0,
    methods: Sequence[str] | None = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> Comparison:
    """`co_smoothing` of an RPM, and of the rivals of `compare_baselines`, on the same folds and channels.

    Rivals find latents of the channels that are not hidden, scaled as for the RPM, and Poisson regressions from these
    latents to the hidden channels are fitted on the training trials. How much "PCA, smoothed" and "FA, smoothed" smooth
    is chosen by the bits themselves, on inner folds of the training trials.

    Args:
        X: trials of counts, as `fit` takes them
        estimator: the RPM, with a population; default RPGPFA(3) for series, RPFA(2) for tables
        held_out: as in `co_smoothing`
        factor: of counts, where data are a dict of several; the rivals see no other
        e_step: as in `co_smoothing`, of the RPM
        cv: as in `co_smoothing`
        groups: as in `co_smoothing`
        random_state: of the channels and of every fit
        methods: names of those to compare with, as they are printed; the RPM is always there. None: all
        n_jobs: folds at once
        verbose: 1 for a progress bar, a step for every fold
        options: as in `fit`; the other methods see none of it

    """
    model = estimator if estimator is not None else default_for(X)
    counts = predictable(model, X, factor, options)
    channels = chosen_channels(held_out, counts.n_channels, random_state)
    rivals = rivals_of(model.description.latent)
    names = named_rivals(methods, type(model).__name__, rivals)
    left = counts.n_channels - len(channels)
    if left < _size(model):
        raise errors.bad_value("held_out", f"at least {_size(model)} channels, one for each latent, to be left", left)
    model = clone(model).set_params(random_state=random_state)
    folds = folds_of(cv, counts.given.X, groups)
    shared = (model, rivals, names, counts, channels, e_step)
    found = parallel_list(_one_fold, folds, n_jobs, *shared, label="compare_co_smoothing", verbose=verbose)
    return Comparison({
        name: {f"bits_by_{by}": np.array([each[name][by].total for each in found]) for by in measures}
        for name, measures in found[0].items()
    })  # fmt: skip


def _one_fold(
    fold: Fold,
    estimator: RPMEstimator,
    rivals: Rivals,
    names: Sequence[str] | None,
    counts: Counts,
    channels: Index,
    e_step: Any,
) -> dict[str, dict[str, Gained]]:
    training, held_out = (counts.only(index) for index in fold)
    fitted = fitted_to(estimator, training)
    found = {type(fitted).__name__: gained_by(fitted, training, held_out, channels, e_step)}
    longest = max(len(each) for each in counts.rows)
    seed = estimator.random_state
    for method in rivals.methods([counts.n_channels - len(channels)], longest, names):
        found[method.name] = {RATES: gained_by_rival(method, counts.rows, channels, fold, _size(fitted), seed)}
    return found


def _size(model: RPMEstimator) -> int:
    """How many latents it has, with those that one factor has to itself."""
    own = sum(len(each) for each in getattr(model, "private_", {}).values())
    return own + (1 if model.description.size is None else int(getattr(model, model.description.size)))


def gained_by_rival(method: Method, counts: Rows, channels: Index, fold: Fold, size: int, seed: int) -> Gained:
    """Of the held-out trials, by regressions from latents of the other channels."""
    kept = np.setdiff1d(np.arange(counts[0].shape[1]), channels)
    bins = scaled_bins(read({"x": [each[:, kept] for each in counts]}, series=True, gaps=True), fold[0])
    hidden = [each[:, channels] for each in counts]
    seen, known = (subset(each, fold[0]) for each in (bins, hidden))
    chosen = method.chosen(seen, known, {RATES: read_counts}, size, seed)[RATES]
    latents = chosen.latents(seen, bins, size, seed).values
    read_out = PoissonReadOut().fit(subset(latents, fold[0]), known)
    rates = np.concatenate(read_out.predict(subset(latents, fold[1])))
    return by_rates(rates, np.concatenate(subset(hidden, fold[1])), read_out.mean_rates_)
