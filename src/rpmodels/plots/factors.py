"""What every factor says of one observation, beside what they say together."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.plots import fitted
from rpmodels.plots.canvas import given_or_new, ink, legend_beside, line

TOGETHER: dict[str, Any] = {"color": "k", "lw": 2.0, "label": "posterior"}


def factors_and_posterior(
    model: Any,
    X: Any,
    observation: int = 0,
    *,
    latent: int = 0,
    site: int = 0,
    ax: Axes | None = None,
    **options: Any,
) -> Axes:
    """Every recognition factor f_j(z|x_j) of one observation, alone, and the posterior from all that are present.

    A discrete latent has bars over its states at one site, a continuous one its density, and over time the mean ± 2 sd.

    Args:
        model: a fitted estimator
        X: data, as `score` takes them
        observation: which of them (of a long recording: which window)
        latent: which one, where they are continuous
        site: which time or part, where they are discrete and have several
        ax: where to draw
        options: as in `score` (times, presence)

    """
    discrete = fitted.is_discrete(model, "factors_and_posterior")
    seen = fitted.one_observation(model, X, observation, options)
    if not 0 <= site < len(seen.times):
        raise errors.bad_value("site", f"one from 0 to {len(seen.times) - 1}", site)
    axes = given_or_new(ax, 6, 3)
    if discrete:
        _states(axes, model, seen, site)
    elif len(seen.times) == 1:
        _densities(axes, model, seen, latent)
    else:
        _paths(axes, model, seen, latent)
    legend_beside(axes)
    return axes


def _states(axes: Axes, model: Any, seen: fitted.Seen, site: int) -> None:
    family = model.model_.recogniser(model.model_.names[0]).family
    parts = {f"factor {name}": eta for name, eta in seen.factors.items() if seen.present[name][site]}
    parts["posterior"] = seen.posterior
    width = 0.8 / len(parts)
    for number, (label, eta) in enumerate(parts.items()):
        heights = family.mean(eta).detach().cpu().numpy()[site]
        places = np.arange(len(heights)) + (number - (len(parts) - 1) / 2) * width
        last = label == "posterior"
        hatch = ("", "//", "..", "xx")[number % 4]
        look: dict[str, Any] = {"color": "k"} if last else {"color": ink(number), "hatch": hatch}
        axes.bar(places, heights, width, label=label, edgecolor="w", lw=0, **look)
    axes.set(xlabel="state", ylabel="probability", ylim=(0, 1.02), xticks=range(len(heights)))
    if len(seen.times) > 1:
        axes.set_title(f"site {site}", fontsize="medium")


def _densities(axes: Axes, model: Any, seen: fitted.Seen, latent: int) -> None:
    prior = fitted.prior_density(model, latent, None)
    families = {name: each.family for name, each in model.model_.pattern.recognisers()}
    factors = {
        name: fitted.marginal(families[name], eta, np.ones(1), fitted.position(model, name, latent))
        for name, eta in _speaking(model, seen, latent).items()
    }
    posterior = fitted.marginal(model.model_.prior.family, seen.posterior, np.ones(1), latent)
    grid = fitted.grid_over(prior, posterior, *factors.values())
    axes.fill_between(grid, prior.density(grid), color="0.88", lw=0, label="prior")
    for number, (name, each) in enumerate(factors.items()):
        axes.plot(grid, each.density(grid), label=f"factor {name}", **line(number))
    axes.plot(grid, posterior.density(grid), **TOGETHER)
    axes.set(xlabel=f"latent {latent}", ylabel="density", ylim=(0, None))


def _paths(axes: Axes, model: Any, seen: fitted.Seen, latent: int) -> None:
    for number, (name, (mean, sd)) in enumerate(_moments(model, seen, latent).items()):
        here = seen.present[name]
        middle, spread = np.where(here, mean, np.nan), np.where(here, sd, np.nan)
        bars: dict[str, Any] = {"fmt": "osD^"[number % 4], "ms": 3, "lw": 0.8, "alpha": 0.6, "color": ink(number)}
        axes.errorbar(seen.times, middle, 2 * spread, label=f"factor {name} ± 2 sd", **bars)
    mean, sd = fitted.moments(model.model_.prior.family, seen.posterior, latent)
    axes.fill_between(seen.times, mean - 2 * sd, mean + 2 * sd, color="k", alpha=0.25, lw=0, zorder=3)
    axes.plot(seen.times, mean, color="k", lw=1.8, label="posterior ± 2 sd", zorder=4)
    axes.set(xlabel="time", ylabel=f"latent {latent}")


Moments = dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]


def _moments(model: Any, seen: fitted.Seen, latent: int) -> Moments:
    """Mean and sd of a latent, from every factor that speaks of it."""
    families = {name: each.family for name, each in model.model_.pattern.recognisers()}
    return {
        name: fitted.moments(families[name], eta, fitted.position(model, name, latent))
        for name, eta in _speaking(model, seen, latent).items()
    }


def _speaking(model: Any, seen: fitted.Seen, latent: int) -> dict[str, Any]:
    """What is said by every factor that speaks of a latent."""
    targets = {name: model.model_.pattern.targets.get(name, (latent,)) for name in seen.factors}
    return {name: eta for name, eta in seen.factors.items() if latent in targets[name]}
