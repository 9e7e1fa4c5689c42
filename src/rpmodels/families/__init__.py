"""Exponential families: natural parameters in one flat last axis. Add a file to add a family."""

from rpmodels.families.categorical import Categorical
from rpmodels.families.family import (
    Family,
    FiniteSupport,
    HasStatisticCovariance,
    Reparametrised,
    Samplable,
)
from rpmodels.families.gaussian import DiagonalGaussian, FullGaussian

__all__ = [
    "Categorical",
    "DiagonalGaussian",
    "Family",
    "FiniteSupport",
    "FullGaussian",
    "HasStatisticCovariance",
    "Reparametrised",
    "Samplable",
]
