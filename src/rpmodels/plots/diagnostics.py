"""Whether a fit can be believed: F_j against the prior, intervals against the truth, scores against chance."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy.special import erf

from rpmodels import errors
from rpmodels.plots import fitted
from rpmodels.plots.canvas import given_or_new, ink, legend_beside

LEVELS = np.linspace(0.05, 0.95, 19)
TICKS = 10
"""Classes of a confusion matrix, at most, that all have their number on the axis."""


def mixture_against_prior(
    model: Any,
    factor: str,
    latent: int = 0,
    site: int | None = None,
    ax: Axes | None = None,
    *,
    channel: int | None = None,
) -> Axes:
    """F_j, the average recognition factor over the training data, against the prior: without misfit they agree.

    Args:
        model: a fitted estimator
        factor: j
        latent: which one, where they are continuous (all others are integrated out)
        channel: of a population, which speaks of a projection of the latents each; default the one that is farthest
        site: which time, where the latents have some; default the average over all
        ax: where to draw

    """
    name = str(factor)
    discrete = fitted.is_discrete(model, "mixture_against_prior")
    axes = given_or_new(ax, 5.4, 3)
    along = fitted.along_channel(model, name, channel, site)
    if discrete:
        _states(axes, fitted.mixture_of_states(model, name, site), fitted.prior_states(model), name)
    elif along is None:
        both = fitted.mixture_density(model, name, latent, site), fitted.prior_density(model, latent, site)
        _densities(axes, *both, f"mixture of factor {name}", f"latent {latent}")
    else:
        label = f"mixture of channel {along.channel}\nof factor {name}"
        _densities(axes, along.mixture, along.prior, label, f"latents along channel {along.channel}")
    if site is not None:
        axes.set_title(f"site {site} (time {float(model.model_.times[site]):g})", fontsize="medium")
    legend_beside(axes)
    return axes


def _densities(axes: Axes, mixture: Any, prior: Any, label: str, along: str) -> None:
    grid = fitted.grid_over(mixture, prior)
    axes.plot(grid, mixture.density(grid), lw=1.8, color=ink(0), label=label)
    axes.plot(grid, prior.density(grid), lw=1.4, color=ink(1), ls="--", label="prior")
    axes.set(xlabel=along, ylabel="density", ylim=(0, None))


def _states(axes: Axes, mixture: NDArray[Any], prior: NDArray[Any], name: str) -> None:
    places = np.arange(len(mixture))
    axes.bar(places, mixture, 0.7, color=ink(0), label=f"mixture of factor {name}")
    axes.hlines(prior, places - 0.42, places + 0.42, color=ink(1), ls="--", lw=2.0, label="prior")
    axes.set(xlabel="state", ylabel="probability", ylim=(0, None), xticks=places)


def calibration(mean: Any, variance: Any, truth: Any, ax: Axes | None = None) -> Axes:
    """Share of the truth inside central intervals of N(mean, variance), against the share they should hold.

    Elementwise over arrays of one shape, so latents must be aligned with the truth first (`rp.metrics.aligned`). Above
    the diagonal intervals are too wide, below it too narrow.
    """
    middle, spread, true = (np.asarray(each, float) for each in (mean, variance, truth))
    if not middle.shape == spread.shape == true.shape or not middle.size:
        shapes = f"{middle.shape}, {spread.shape}, {true.shape}"
        raise errors.bad_value("mean, variance, truth", "one shape, not empty", shapes)
    if not (spread > 0).all() or not np.isfinite(middle + spread + true).all():
        raise errors.bad_value("mean, variance, truth", "finite numbers, variances > 0", "others")
    # The central interval that just reaches the truth holds this much of the normal.
    needed = erf(np.abs(true - middle) / np.sqrt(2 * spread)).ravel()
    coverage = (needed[:, None] <= LEVELS).mean(0)
    axes = given_or_new(ax, 3.8, 3.6)
    axes.plot([0, 1], [0, 1], color="0.5", ls="--", lw=1.0, label="as it should be")
    axes.plot(LEVELS, coverage, "o-", color=ink(0), ms=3.5, label="intervals")
    axes.set(xlabel="nominal level of the interval", ylabel="share of the truth inside", xlim=(0, 1), ylim=(0, 1))
    axes.set_aspect("equal")
    axes.legend(frameon=False, fontsize="small", loc="upper left")
    return axes


def reliability(probabilities: Any, truth: Any, *, bins: int = 10, ax: Axes | None = None) -> Axes:
    """How often the most probable state is the true one, against how probable it was said to be.

    Above the diagonal a model is too modest, below it too sure. Points are bins of equal width with a bar of ± standard
    error; the title has the expected calibration error, the mean distance from the diagonal over observations.

    Args:
        probabilities: (…, K), in the numbering of the truth (`rp.metrics.match_states` finds the order of states)
        truth: (…), the true states
        bins: how many
        ax: where to draw

    """
    shares, true = np.asarray(probabilities, float), np.asarray(truth)
    if shares.ndim < 2 or shares.shape[:-1] != true.shape or not true.size:
        shapes = f"{shares.shape} and {true.shape}"
        raise errors.bad_value("probabilities, truth", "shapes (…, K) and (…), not empty", shapes)
    if not (np.isfinite(shares).all() and (shares >= 0).all() and np.allclose(shares.sum(-1), 1, atol=1e-3)):
        raise errors.bad_value("probabilities", "numbers ≥ 0 that add up to 1", "others")
    if bins < 1:
        raise errors.bad_value("bins", "a number > 0", bins)
    said, right = shares.max(-1).ravel(), (shares.argmax(-1) == true).ravel()
    places = np.minimum((said * bins).astype(int), bins - 1)
    count = np.bincount(places, minlength=bins)
    have = count > 0
    confidence, accuracy = (np.bincount(places, each, bins)[have] / count[have] for each in (said, right))
    error = float((count[have] * np.abs(confidence - accuracy)).sum() / len(said))
    axes = given_or_new(ax, 3.8, 3.6)
    axes.plot([0, 1], [0, 1], color="0.5", ls="--", lw=1.0, label="as it should be")
    bars = np.sqrt(accuracy * (1 - accuracy) / count[have])
    axes.errorbar(confidence, accuracy, bars, fmt="o-", color=ink(0), ms=3.5, lw=1.2, label="states")
    axes.set(xlabel="probability of the state", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
    axes.set_title(f"calibration error {error:.3f}", fontsize="medium")
    axes.set_aspect("equal")
    axes.legend(frameon=False, fontsize="small", loc="upper left")
    return axes


def shuffle_null(test: Any, null: Any = None, ax: Axes | None = None) -> Axes:
    """Scores of shuffled observations as a histogram, and that of the observations as they are.

    Args:
        test: what `rp.evaluation.shuffle_test` returned, or the score itself
        null: scores of the shuffles, where the score was given
        ax: where to draw

    """
    score = float(test.score if null is None else test)
    scores = np.asarray(test.null if null is None else null, float)
    p = (1 + (scores >= score).sum()) / (1 + len(scores))
    axes = given_or_new(ax, 6, 3)
    axes.hist(scores, bins="auto", color="0.75", edgecolor="w", label=f"{len(scores)} shuffles")
    axes.axvline(score, color=ink(3), lw=2.0, label=f"score {score:.3g}\np = {p:.2g}")
    axes.set(xlabel="nats above independence per observation", ylabel="shuffles")
    legend_beside(axes)
    return axes


def confusion_matrix(table: Any, ax: Axes | None = None) -> Axes:
    """Share of every class (row) that a state (column) received, states in the order of their classes."""
    axes = given_or_new(ax, 3.9, 3.2)
    counts = np.asarray(table, float)
    image = axes.imshow(counts / np.maximum(counts.sum(1, keepdims=True), 1), vmin=0, vmax=1, cmap="Blues")
    axes.set(xlabel="state", ylabel="class")
    if ax is None:
        ticks = [range(size) if size <= TICKS else [0, size - 1] for size in counts.shape]
        axes.set(xticks=ticks[1], yticks=ticks[0])
        axes.figure.colorbar(image, ax=axes, label="share of the class")
    else:  # a small panel, perhaps, of somebody else's figure
        axes.set(xticks=[0, counts.shape[1] - 1], yticks=[0, counts.shape[0] - 1])
    return axes
