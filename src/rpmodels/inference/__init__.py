"""E-steps: each is only a choice of potentials. Add a file to add one."""

from rpmodels.inference.e_step import EStep
from rpmodels.inference.exact import ExactEStep

__all__ = ["EStep", "ExactEStep"]
