"""Plots that return Axes and never call show: arrays in, or a fitted estimator whose numbers they read.

All draw on `ax=` where it is given, and look as in a paper inside of `with style():`. Names that one may guess lead to
those that there are (`rp.plots.plot_latents` is `rp.plots.latents`).
"""

from difflib import get_close_matches
from typing import Any

from rpmodels import errors
from rpmodels.plots.belonging import belonging
from rpmodels.plots.by_condition import latents
from rpmodels.plots.channel_images import raster
from rpmodels.plots.channels import rates, tuning
from rpmodels.plots.clouds import latent_recovery, latents_2d, latents_3d, trajectories
from rpmodels.plots.consistency import consistency
from rpmodels.plots.diagnostics import (
    calibration,
    confusion_matrix,
    mixture_against_prior,
    reliability,
    shuffle_null,
)
from rpmodels.plots.factors import factors_and_posterior
from rpmodels.plots.observations import trial_image
from rpmodels.plots.overview import overview
from rpmodels.plots.state_raster import states
from rpmodels.plots.style import style
from rpmodels.plots.training import gap, learning_curve, restarts, score_ceiling

__all__ = [
    "belonging",
    "calibration",
    "confusion_matrix",
    "consistency",
    "factors_and_posterior",
    "gap",
    "latent_recovery",
    "latents",
    "latents_2d",
    "latents_3d",
    "learning_curve",
    "mixture_against_prior",
    "overview",
    "raster",
    "rates",
    "reliability",
    "restarts",
    "score_ceiling",
    "shuffle_null",
    "states",
    "style",
    "trajectories",
    "trial_image",
    "tuning",
]

_GUESSES = {
    "calibration_curve": "calibration", "confusion": "confusion_matrix", "consistency_matrix": "consistency",
    "drift": "belonging", "embedding": "latents", "history": "learning_curve", "latent": "latents",
    "latents_by_condition": "latents", "loss": "learning_curve", "mixture": "mixture_against_prior", "paths": "latents",
    "posterior": "trajectories", "rasters": "raster", "reliability_diagram": "reliability", "score": "score_ceiling",
    "stability": "consistency", "summary": "overview", "trajectory": "trajectories", "tuning_curves": "tuning",
}  # fmt: skip
"""What else one may call them."""


def __getattr__(name: str) -> Any:
    """A plot by a name that was guessed."""
    guess = name.removeprefix("plot_").removesuffix("_plot")
    meant = guess if guess in __all__ else _GUESSES.get(guess)
    if meant is None or name.startswith("__"):
        near = [] if name.startswith("_") else get_close_matches(guess, [*__all__, *_GUESSES], 2)
        raise errors.no_such_plot(name, list(dict.fromkeys(_GUESSES.get(each, each) for each in near)))
    return globals()[meant]
