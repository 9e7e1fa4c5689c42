"""How good a fit is, when the truth is known. numpy in, numpy out."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import orthogonal_procrustes
from scipy.optimize import linear_sum_assignment
from scipy.special import chdtri, ndtri

from rpmodels import checks, errors

ArrayOrTrials = NDArray[Any] | Sequence[NDArray[Any]]
"""One array (…, K), or a list of trials (T_n, K) of any length."""
LEAST_RATE = 1e-9
"""Of predicted rates, in counts a bin: as the Neural Latents Benchmark has it."""


def confusion(truth: NDArray[Any], states: NDArray[Any], n_states: int) -> NDArray[np.int64]:
    """Counts of (class, state)."""
    classes = max(n_states, int(truth.max()) + 1)
    table = np.zeros((classes, n_states), np.int64)
    np.add.at(table, (truth, states), 1)
    return table


def match_states(truth: NDArray[Any], states: NDArray[Any], n_states: int) -> NDArray[np.int64]:
    """The class of every state under the best one-to-one assignment (Kuhn–Munkres).

    Fit it on training data and apply it unchanged to test data: `matching[states] == truth`.
    """
    classes, matched = linear_sum_assignment(-confusion(truth, states, n_states))
    matching = np.full(n_states, -1, np.int64)
    matching[matched] = classes
    return matching


def entropy_of_average(probabilities: NDArray[Any]) -> float:
    """H(mean over n of q_n) in nats: log K when all states are used equally."""
    average = np.asarray(probabilities, np.float64).mean(0)
    average = average[average > 0]
    return float(-(average * np.log(average)).sum())


def linear_map(estimate: ArrayOrTrials, truth: ArrayOrTrials) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coefficients (K, D) and intercept (D,) of the least-squares map from estimate (…, K) to truth (…, D)."""
    inputs, outputs = _paired("estimate", estimate, "truth", truth)
    centre, target = inputs.mean(0), outputs.mean(0)
    coefficients = np.linalg.lstsq(inputs - centre, outputs - target, rcond=None)[0]
    return coefficients, target - centre @ coefficients


def nmse(
    estimate: ArrayOrTrials,
    truth: ArrayOrTrials,
    fit_estimate: ArrayOrTrials | None = None,
    fit_truth: ArrayOrTrials | None = None,
) -> float:
    """1 − R² of the linear regression from estimate (…, K) to truth (…, D), pooled over the D outputs.

    0 is perfect, 1 no better than the mean of the truth. The map is fitted on `fit_estimate` and `fit_truth` (the
    training trials) when they are given; held-out trials can then score above 1.
    """
    inputs, outputs = _paired("estimate", estimate, "truth", truth)
    if (fit_estimate is None) != (fit_truth is None):
        given = "fit_truth" if fit_estimate is None else "fit_estimate"
        raise errors.bad_value("fit_estimate, fit_truth", "both or neither", f"{given} only")
    if fit_estimate is None or fit_truth is None:
        coefficients, intercept = linear_map(inputs, outputs)
    else:
        fitted = _paired("fit_estimate", fit_estimate, "fit_truth", fit_truth)
        widths, expected = [rows.shape[1] for rows in fitted], [inputs.shape[1], outputs.shape[1]]
        if widths != expected:
            raise errors.bad_value("fit_estimate, fit_truth", f"last axes {expected} as in estimate, truth", widths)
        coefficients, intercept = linear_map(*fitted)
    if (outputs == outputs[0]).all():
        raise errors.bad_value("truth", "values that vary", "a constant")
    spread = np.square(outputs - outputs.mean(0)).sum()
    return float(np.square(outputs - inputs @ coefficients - intercept).sum() / spread)


def rotation(estimate: ArrayOrTrials, truth: ArrayOrTrials) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The rotation or reflection (K, K) that brings estimate (…, K) nearest to truth (…, K), and no shift (K,).

    In the form of `linear_map`, in the place of which it leaves the width of posteriors alone: of two latents or more
    that are all normal a priori, nothing else is free in the model.
    """
    inputs, outputs = _paired("estimate", estimate, "truth", truth)
    if inputs.shape[1] != outputs.shape[1]:
        raise errors.bad_value("truth", f"{inputs.shape[1]} latents as in estimate", outputs.shape[1])
    return np.asarray(orthogonal_procrustes(inputs, outputs)[0], np.float64), np.zeros(inputs.shape[1])


def aligned(
    mean: NDArray[Any], covariance: NDArray[Any], coefficients: NDArray[Any], intercept: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance (…, D) of a posterior N(mean (…, K), covariance (…, K, K)) by a `linear_map` or `rotation`."""
    moved, spread = mapped(mean, covariance, coefficients, intercept)
    return moved, np.diagonal(spread, axis1=-2, axis2=-1).copy()


def mapped(
    mean: NDArray[Any], covariance: NDArray[Any], coefficients: NDArray[Any], intercept: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same with the whole covariance, (…, D, D)."""
    latents = coefficients.shape[0]
    if mean.shape[-1:] != (latents,) or covariance.shape != (*mean.shape, latents):
        expected = f"(…, {latents}) and (…, {latents}, {latents}), as the map has {latents} inputs"
        raise errors.bad_value("mean, covariance", expected, f"{mean.shape} and {covariance.shape}")
    spread = np.einsum("...kl,kd,le->...de", covariance, coefficients, coefficients)
    return np.asarray(mean @ coefficients + intercept, np.float64), np.asarray(spread, np.float64)


def aligned_angles(found: NDArray[Any], truth: NDArray[Any], *, reflection: bool = True) -> NDArray[np.float64]:
    """Angles (N,) after the rotation, and where it fits better the reflection, that brings them nearest to the truth.

    The rotation maximises the mean cosine of what is left between them; the result is in (−π, π].
    """
    sign, offset = angle_map(found, truth, reflection=reflection)
    return wrapped(sign * np.asarray(found, np.float64) + offset)


def angle_map(found: NDArray[Any], truth: NDArray[Any], *, reflection: bool = True) -> tuple[float, float]:
    """The sign and offset of `aligned_angles`, to apply unchanged to other data: wrapped(sign · angle + offset)."""
    one, other = _angles("found", found, "truth", truth)
    # The best offset is the direction of the mean of e^{i difference}, and the length of that the mean cosine left.
    means = {
        sign: complex(np.exp(1j * (other - sign * one)).mean()) for sign in ((1.0, -1.0) if reflection else (1.0,))
    }
    sign = max(means, key=lambda each: abs(means[each]))
    return sign, float(np.angle(means[sign]))


def resultant_length(angles: NDArray[Any], others: NDArray[Any]) -> float:
    """Of the differences of angles (N,): 1 when they differ by a rotation, about 0 when they share nothing."""
    one, other = _angles("angles", angles, "others", others)
    return float(np.abs(np.exp(1j * (one - other)).mean()))


def wrapped(angles: NDArray[Any]) -> NDArray[np.float64]:
    """In (−π, π]."""
    return np.asarray(np.pi - np.mod(np.pi - angles, 2 * np.pi), np.float64)


def coverage(mean: NDArray[Any], variance: NDArray[Any], truth: NDArray[Any], level: float = 0.9) -> float:
    """Share of the truth inside the central interval of N(mean, variance) that should hold `level` of it.

    Elementwise over arrays of one shape, so latents must be `aligned` with the truth first: by a `rotation`, which
    leaves intervals as wide as the model states them, where latents have the truth's scale (*raw* coverage, by which
    intervals are judged), by a `linear_map` where they have none. The latter stretches intervals with the means.
    """
    level = checks.number("level", level, above=0, below=1)
    if not mean.shape == variance.shape == truth.shape or not mean.size:
        shapes = f"{mean.shape}, {variance.shape}, {truth.shape}"
        raise errors.bad_value("mean, variance, truth", "one shape, not empty", shapes)
    for name, values in (("mean", mean), ("variance", variance), ("truth", truth)):
        _finite(name, values)
    if variance.min() < 0:
        raise errors.bad_value("variance", "values ≥ 0", variance.min())
    return float((np.abs(truth - mean) <= ndtri((1 + level) / 2) * np.sqrt(variance)).mean())


def region_coverage(mean: NDArray[Any], covariance: NDArray[Any], truth: NDArray[Any], level: float = 0.9) -> float:
    """Share of the truth (…, D) inside the ellipsoid of N(mean, covariance) that should hold `level` of it."""
    level = checks.number("level", level, above=0, below=1)
    if mean.shape != truth.shape or covariance.shape != (*mean.shape, mean.shape[-1]) or not mean.size:
        shapes = f"{mean.shape}, {covariance.shape}, {truth.shape}"
        raise errors.bad_value("mean, covariance, truth", "(…, D), (…, D, D), (…, D), not empty", shapes)
    for name, values in (("mean", mean), ("covariance", covariance), ("truth", truth)):
        _finite(name, values)
    off = np.asarray(truth - mean, np.float64)[..., None]
    distance = (off * np.linalg.solve(covariance, off)).sum((-2, -1))
    return float((distance <= chdtri(mean.shape[-1], 1.0 - level)).mean())


def bits_per_spike(rates: ArrayOrTrials, counts: ArrayOrTrials, mean_rates: NDArray[Any] | None = None) -> float:
    """What predicted rates say of every spike beyond the mean rate of its channel, by the Poisson likelihood, in bits.

    (LL(rates) − LL(mean rates)) / (spikes · log 2), as the Neural Latents Benchmark counts it. Counts that are NaN are
    left out, and rates are 1e-9 at least.

    Args:
        rates: (…, C), expected counts of every bin
        counts: (…, C), what was counted
        mean_rates: (C,) of the null model; default the means of these counts, as in the benchmark's own evaluation

    """
    predicted = _rows("rates", _as_trials("rates", rates), gaps=True)
    seen = _rows("counts", _as_trials("counts", counts), gaps=True)
    if predicted.shape != seen.shape:
        raise errors.bad_value("rates", f"rows and channels {seen.shape} as in counts", predicted.shape)
    known = ~np.isnan(seen)
    if not np.isfinite(predicted[known]).all() or (predicted[known] < 0).any():
        raise errors.bad_value("rates", "finite numbers ≥ 0 wherever something was counted", "others")
    spikes = float(np.nansum(seen))
    if spikes <= 0:
        raise errors.bad_value("counts", "at least one spike", "none")
    null = np.nansum(seen, 0) / np.maximum(known.sum(0), 1) if mean_rates is None else np.asarray(mean_rates)
    return float(poisson_gain(predicted, seen, null).sum() / (spikes * np.log(2)))


def poisson_gain(
    rates: NDArray[np.float64], counts: NDArray[np.float64], mean_rates: NDArray[np.float64]
) -> NDArray[np.float64]:
    """LL(rates) − LL(mean rates) of every channel, in nats: (n, C), (n, C) and (C,) give (C,); NaN counts are none."""
    rates, null = np.maximum(rates, LEAST_RATE), np.maximum(mean_rates, LEAST_RATE)
    return np.asarray(np.nansum(counts * np.log(rates / null) - np.where(np.isnan(counts), 0.0, rates - null), 0))


def _angles(
    name: str, angles: NDArray[Any], other_name: str, others: NDArray[Any]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    one, other = np.asarray(angles, np.float64), np.asarray(others, np.float64)
    if one.ndim != 1 or not one.size:
        raise errors.bad_value(name, "an array (N,) of angles in radians, not empty", f"shape {one.shape}")
    if one.shape != other.shape:
        raise errors.bad_value(other_name, f"shape {one.shape} as in {name}", other.shape)
    _finite(name, one)
    _finite(other_name, other)
    return one, other


def _paired(
    name: str, data: ArrayOrTrials, other_name: str, other: ArrayOrTrials
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both as rows (n, K) and (n, D) of the same time points."""
    first, second = _as_trials(name, data), _as_trials(other_name, other)
    if len(first) != len(second):
        raise errors.bad_value(other_name, f"{len(first)} trial(s) as in {name}", len(second))
    for trial, (one, two) in enumerate(zip(first, second, strict=True)):
        if one.shape[:-1] != two.shape[:-1]:
            expected = f"shape {(*one.shape[:-1], two.shape[-1])} to go with {name} {one.shape}"
            raise errors.bad_value(f"{other_name}, trial {trial}", expected, two.shape)
    return _rows(name, first), _rows(other_name, second)


def _as_trials(name: str, data: ArrayOrTrials) -> list[NDArray[np.float64]]:
    # Two axes are one trial; with more, the first counts trials, so an array and a list may be paired.
    whole = isinstance(data, np.ndarray) and data.ndim <= 2
    trials = [np.asarray(trial, np.float64) for trial in ([data] if whole else data)]
    if not trials or min(trial.ndim for trial in trials) < 2:
        got = trials[0].shape if whole else [trial.shape for trial in trials[:3]]
        raise errors.bad_value(name, "an array (…, K) of two axes or more, or a list of (T_n, K) arrays", got)
    return trials


def _rows(name: str, trials: Sequence[NDArray[np.float64]], gaps: bool = False) -> NDArray[np.float64]:
    widths = {trial.shape[-1] for trial in trials}
    if len(widths) > 1:
        raise errors.bad_value(name, "the same last axis in all trials", sorted(widths))
    rows = np.concatenate([trial.reshape(-1, trial.shape[-1]) for trial in trials])
    if not rows.size:
        raise errors.bad_value(name, "at least one time point and one dimension", rows.shape)
    if not gaps:
        _finite(name, rows)
    return rows


def _finite(name: str, values: NDArray[Any]) -> None:
    if not np.isfinite(values).all():
        raise errors.bad_value(name, "finite values", f"{np.sum(~np.isfinite(values))} that are not")
