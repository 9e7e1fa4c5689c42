"""Exponential families: natural parameters in one flat last axis. Add a file to add a family."""

from rpmodels.families.categorical import Categorical
from rpmodels.families.family import (
    Discrete,
    Family,
    FiniteSupport,
    Gaussian,
    HasDomain,
    HasGrid,
    HasStatisticCovariance,
    HasTargets,
    InPlacePairs,
    Reparametrised,
    Samplable,
)
from rpmodels.families.full_gaussian import FullGaussian
from rpmodels.families.gaussian import DiagonalGaussian
from rpmodels.families.joint_states import JointStates
from rpmodels.families.von_mises import VonMises

__all__ = [
    "Categorical",
    "DiagonalGaussian",
    "Discrete",
    "Family",
    "FiniteSupport",
    "FullGaussian",
    "Gaussian",
    "HasDomain",
    "HasGrid",
    "HasStatisticCovariance",
    "HasTargets",
    "InPlacePairs",
    "JointStates",
    "Reparametrised",
    "Samplable",
    "VonMises",
]
