"""Exponential families: natural parameters in one flat last axis. Add a file to add a family."""

from rpmodels.families.categorical import Categorical
from rpmodels.families.family import (
    Continuous,
    Family,
    FiniteSupport,
    HasStatisticCovariance,
    InPlacePairs,
    Reparametrised,
    Samplable,
)
from rpmodels.families.full_gaussian import FullGaussian
from rpmodels.families.gaussian import DiagonalGaussian

__all__ = [
    "Categorical",
    "Continuous",
    "DiagonalGaussian",
    "Family",
    "FiniteSupport",
    "FullGaussian",
    "HasStatisticCovariance",
    "InPlacePairs",
    "Reparametrised",
    "Samplable",
]
