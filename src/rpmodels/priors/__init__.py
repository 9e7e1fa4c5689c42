"""Priors over the latents. Add a file to add a prior."""

from rpmodels.priors.categorical import CategoricalPrior
from rpmodels.priors.prior import IndependentSites, Posterior, Prior
from rpmodels.priors.simplex import DirichletSimplex, FixedSimplex, LearnedSimplex, Simplex

__all__ = [
    "CategoricalPrior",
    "DirichletSimplex",
    "FixedSimplex",
    "IndependentSites",
    "LearnedSimplex",
    "Posterior",
    "Prior",
    "Simplex",
]
