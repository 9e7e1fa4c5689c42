"""Linear models in closed form or by EM: rivals of the models above them, and where those start."""

from rpmodels.linear.cca import shared_components
from rpmodels.linear.gpfa import GPFA
from rpmodels.linear.smooth import SmoothLatents, smooth_latents

__all__ = ["GPFA", "SmoothLatents", "shared_components", "smooth_latents"]
