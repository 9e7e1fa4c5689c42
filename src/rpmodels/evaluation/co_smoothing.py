"""Channels predicted from other channels, and the end of a trial from its beginning (the Neural Latents Benchmark)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from rpmodels import checks, errors
from rpmodels.estimators import RPMEstimator
from rpmodels.evaluation.bits import (
    PROBABILITIES,
    RATES,
    Array,
    BitsPerSpike,
    Gained,
    by_probabilities,
    by_rates,
    mean_rates,
)
from rpmodels.evaluation.counts import Counts, chosen_channels, rows_of
from rpmodels.evaluation.folds import Fold, Given, Index, folds_of
from rpmodels.evaluation.read_outs import PENALTY, PoissonReadOut
from rpmodels.learning.parallel import parallel_list


def co_smoothing(
    estimator: RPMEstimator,
    X: Any,
    *,
    held_out: Any = 0.25,
    factor: str | None = None,
    e_step: Any = None,
    cv: int | Any = 4,
    groups: Any = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> BitsPerSpike:
    """How well a model predicts channels that it does not see from those that it does, on trials that are new to it.

    Fitted on training trials with all channels; on the others some channels are hidden, the same ones in every fold.
    It needs a population, whose channels are recognised one by one; for others there is `few_shot_co_smoothing`.

    Args:
        estimator: not fitted, and left so
        X: trials of counts, in any form that `fit` takes
        held_out: the share of channels that is hidden, drawn from `random_state`; or which ones
        factor: of counts, where data are a dict of several
        e_step: as in `rates`: "natural_gradient", or rp.inference.NaturalGradient(steps=2), refines q
        cv: folds, a splitter, or pairs of (training, held-out) trials
        groups: trials that stay together
        random_state: of the channels
        n_jobs: folds at once
        verbose: 1 for a progress bar, a step for every fold
        options: as in `fit` (times, inputs, presence, sample_weight)

    """
    counts = predictable(estimator, X, factor, options)
    channels = chosen_channels(held_out, counts.n_channels, random_state)
    folds = folds_of(cv, counts.given.X, groups)
    shared = (estimator, counts, channels, e_step)
    found = parallel_list(_co_smoothed, folds, n_jobs, *shared, label="co_smoothing", verbose=verbose)
    return BitsPerSpike.of("co-smoothing", channels, found)


def forward_prediction(
    estimator: RPMEstimator,
    X: Any,
    *,
    share: float = 0.25,
    factor: str | None = None,
    e_step: Any = None,
    cv: int | Any = 4,
    groups: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> BitsPerSpike:
    """How well a model predicts the end of new trials, all channels of it, from their beginning.

    Fitted on whole training trials. The mean rates that it is compared with are those of the same last part of them.

    Args:
        estimator: over time, with a population; not fitted, and left so
        X: trials of counts, in any form that `fit` takes
        share: of the bins of every trial, its last ones, that is hidden
        factor: of counts, where data are a dict of several (the end of all of them is hidden)
        e_step: as in `co_smoothing`
        cv: as in `co_smoothing`
        groups: as in `co_smoothing`
        n_jobs: folds at once
        verbose: 1 for a progress bar, a step for every fold
        options: as in `fit`

    """
    checks.number("share", share, above=0.0, below=1.0)
    if not estimator.description.in_time:
        raise errors.no_ends("forward_prediction", type(estimator).__name__)
    counts = predictable(estimator, X, factor, options)
    folds = folds_of(cv, counts.given.X, groups)
    shared = (estimator, counts, share, e_step)
    found = parallel_list(_forward, folds, n_jobs, *shared, label="forward_prediction", verbose=verbose)
    return BitsPerSpike.of("forward prediction", np.arange(counts.n_channels), found)


def few_shot_co_smoothing(
    estimator: RPMEstimator,
    X: Any,
    n_shots: int | None,
    *,
    held_out: Any = 0.25,
    n_draws: int = 5,
    penalty: float = PENALTY,
    factor: str | None = None,
    cv: int | Any = 4,
    groups: Any = None,
    random_state: int = 0,
    n_jobs: int | None = None,
    verbose: int = 0,
    **options: Any,
) -> BitsPerSpike:
    """How well few trials tell what channels that the model never had show, from its latents.

    Fitted on training trials without the held-out channels; Poisson regressions from the latents to these channels are
    fitted on a few training trials, and judged on trials that are new to both. Latents that hold more than what the
    channels share need more trials. For every estimator, with a population or without.

    Args:
        estimator: not fitted, and left so
        X: trials of counts, in any form that `fit` takes
        n_shots: training trials that regressions are fitted on; None for all
        held_out: as in `co_smoothing`
        n_draws: of these trials, from `random_state`; bits are means over them
        penalty: of the regressions, latents having variance one
        factor: as in `co_smoothing`
        cv: as in `co_smoothing`
        groups: as in `co_smoothing`
        random_state: of the channels and of the draws
        n_jobs: folds at once
        verbose: 1 for a progress bar, a step for every fold
        options: as in `fit`

    """
    checks.integer("n_draws", n_draws, 1)
    checks.number("penalty", penalty, least=0.0)
    counts = Counts.of(estimator, X, factor, **options)
    channels = chosen_channels(held_out, counts.n_channels, random_state)
    folds = folds_of(cv, counts.given.X, groups)
    fewest = min(len(training) for training, _ in folds)
    if n_shots is not None and not 1 <= checks.integer("n_shots", n_shots, 1) <= fewest:
        raise errors.bad_value("n_shots", f"at most the training trials of a fold, {fewest}", n_shots)
    shots = _Shots(n_shots, 1 if n_shots is None else n_draws, penalty, random_state)
    shared = (estimator, counts, channels, shots)
    found = parallel_list(_few_shot, folds, n_jobs, *shared, label="few_shot_co_smoothing", verbose=verbose)
    return BitsPerSpike.of("few-shot co-smoothing", channels, found)


# ---- one fold -------------------------------------------------------------------------------------


def gained_by(
    fitted: RPMEstimator, training: Counts, held_out: Counts, channels: Index, e_step: Any
) -> dict[str, Gained]:
    """Of a model that knows the training trials, on others."""
    null = mean_rates(training.together)[channels]
    seen = held_out.hiding(channels)
    truth = held_out.together[:, channels]
    return _gained(fitted, seen, held_out.factor, e_step, slice(None), channels, truth, null)


def _co_smoothed(
    fold: Fold, estimator: RPMEstimator, counts: Counts, channels: Index, e_step: Any
) -> dict[str, Gained]:
    training, held_out = (counts.only(index) for index in fold)
    return gained_by(fitted_to(estimator, training), training, held_out, channels, e_step)


def _forward(fold: Fold, estimator: RPMEstimator, counts: Counts, share: float, e_step: Any) -> dict[str, Gained]:
    training, held_out = (counts.only(index) for index in fold)
    fitted = fitted_to(estimator, training)
    null = mean_rates(np.concatenate([each[_end(len(each), share) :] for each in training.rows]))
    ends = [_end(len(each), share) for each in held_out.rows]
    hidden = np.concatenate([np.arange(len(each)) >= end for each, end in zip(held_out.rows, ends, strict=True)])
    every = np.arange(counts.n_channels)
    truth = held_out.together[hidden]
    return _gained(fitted, held_out.until(ends), held_out.factor, e_step, hidden, every, truth, null)


def _few_shot(
    fold: Fold, estimator: RPMEstimator, counts: Counts, channels: Index, shots: "_Shots"
) -> dict[str, Gained]:
    training, held_out = (counts.only(index) for index in fold)
    fitted = training.lacking(channels).fit(clone(estimator))
    latents, new = (_points(fitted, each.lacking(channels)) for each in (training, held_out))
    known, truth = ([each[:, channels] for each in part.rows] for part in (training, held_out))
    null, flat = mean_rates(np.concatenate(known)), np.concatenate(truth)
    gained = []
    for index in shots.drawn(len(known)):
        read_out = PoissonReadOut(shots.penalty).fit([latents[n] for n in index], [known[n] for n in index])
        gained.append(by_rates(np.concatenate(read_out.predict(new)), flat, null))
    return {RATES: Gained(np.mean([each.nats for each in gained], 0), gained[0].spikes)}


class _Shots:
    """Which training trials regressions are fitted on, draw after draw."""

    def __init__(self, size: int | None, draws: int, penalty: float, seed: int) -> None:
        self.size, self.draws, self.penalty, self.seed = size, draws, penalty, seed

    def drawn(self, n_trials: int) -> list[Index]:
        """Of so many."""
        size = n_trials if self.size is None else self.size
        random = np.random.default_rng(self.seed)
        return [random.choice(n_trials, size, replace=False) for _ in range(self.draws)]


# ---- inside ---------------------------------------------------------------------------------------


def predictable(estimator: RPMEstimator, X: Any, factor: str | None, options: Mapping[str, Any]) -> Counts:
    """Counts of a model that may predict single channels; others are refused before any work."""
    if not hasattr(estimator, "channel_probabilities"):
        raise errors.predicts_no_channels(type(estimator).__name__)
    return Counts.of(estimator, X, factor, **options)


def fitted_to(estimator: RPMEstimator, training: Counts) -> Any:
    """The model, fitted; refused if it cannot predict single channels of these data."""
    fitted: Any = training.given.fit(clone(estimator))
    if training.factor not in fitted.populations_:
        raise errors.predicts_no_channels(type(fitted).__name__)
    return fitted


def _gained(
    fitted: Any, seen: Given, factor: str, e_step: Any, rows: Any, channels: Index, truth: Array, null: Array
) -> dict[str, Gained]:
    """By both measures: of these rows and channels of what is predicted from what is seen."""
    rates = np.concatenate(rows_of(fitted.rates(seen.X, factor, e_step=e_step, **seen.new)))
    found, values = fitted.channel_probabilities(seen.X, factor, e_step=e_step, **seen.new)
    probabilities = _flat(found, values.shape)[rows][:, channels]
    return {
        PROBABILITIES: by_probabilities(probabilities, values[channels], truth, null),
        RATES: by_rates(rates[rows][:, channels], truth, null),
    }


def _flat(found: Any, shape: tuple[int, ...]) -> Array:
    """(n, C, A), whatever form the trials have."""
    parts = found if isinstance(found, list) else [found]
    return np.concatenate([np.asarray(each, np.float64).reshape(-1, *shape) for each in parts])


def _points(fitted: RPMEstimator, given: Given) -> list[Array]:
    """Latents of every trial, (T_n, K)."""
    return rows_of(fitted.description.latent.points(fitted.latents(given.X, **given.new)))


def _end(length: int, share: float) -> int:
    """The first bin of a trial that is hidden: one at least is, and one is not."""
    return max(1, length - max(1, round(share * length)))
