"""E-steps: each is only a choice of potentials. Add a file to add one."""

from rpmodels.inference.amortised import Amortised
from rpmodels.inference.e_step import EStep, summed_potentials
from rpmodels.inference.exact import ExactEStep
from rpmodels.inference.free import FreeInducing, FreePotentials
from rpmodels.inference.natural_gradient import NaturalGradient
from rpmodels.inference.partial import PartlyHeard
from rpmodels.inference.refined import Refined

__all__ = [
    "Amortised", "EStep", "ExactEStep", "FreeInducing", "FreePotentials", "NaturalGradient", "PartlyHeard",
    "Refined", "summed_potentials",
]  # fmt: skip
