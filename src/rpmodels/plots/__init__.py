"""Plots that return Axes and never call show: arrays in, or a fitted estimator whose numbers they read."""

from rpmodels.plots.belonging import belonging
from rpmodels.plots.channels import rates, tuning
from rpmodels.plots.diagnostics import calibration, confusion_matrix, mixture_against_prior, shuffle_null
from rpmodels.plots.factors import factors_and_posterior
from rpmodels.plots.latents import latent_recovery, latents_2d, latents_3d, trajectories
from rpmodels.plots.observations import trial_image
from rpmodels.plots.training import gap, learning_curve, restarts, score_ceiling

__all__ = [
    "belonging",
    "calibration",
    "confusion_matrix",
    "factors_and_posterior",
    "gap",
    "latent_recovery",
    "latents_2d",
    "latents_3d",
    "learning_curve",
    "mixture_against_prior",
    "rates",
    "restarts",
    "score_ceiling",
    "shuffle_null",
    "trajectories",
    "trial_image",
    "tuning",
]
