"""The generative side that recognition factors imply: p(x_j | z) = p₀ f_j/F_j on the atoms (eq 1–2)."""

from rpmodels.generative.averages import DRAWS, METHODS, averaging
from rpmodels.generative.checks import Check, predictive_checks
from rpmodels.generative.conditional import Conditional, conditional, conditional_on_rows
from rpmodels.generative.imputation import Imputed, Rows, impute
from rpmodels.generative.labels import label_table
from rpmodels.generative.samples import conditional_weights, sample

__all__ = [
    "DRAWS",
    "METHODS",
    "Check",
    "Conditional",
    "Imputed",
    "Rows",
    "averaging",
    "conditional",
    "conditional_on_rows",
    "conditional_weights",
    "impute",
    "label_table",
    "predictive_checks",
    "sample",
]
