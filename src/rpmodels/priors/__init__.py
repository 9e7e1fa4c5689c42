"""Priors over the latents. Add a file to add a prior."""

from rpmodels.priors.categorical import CategoricalPrior
from rpmodels.priors.gaussian import GaussianPrior
from rpmodels.priors.gaussian_process import GaussianProcessPrior
from rpmodels.priors.inducing import HasInducing, InducingPosterior, InducingState
from rpmodels.priors.markov_chain import MarkovChainPosterior, MarkovChainPrior
from rpmodels.priors.prior import IndependentSites, Posterior, Prior
from rpmodels.priors.simplex import DirichletSimplex, FixedSimplex, LearnedSimplex, Simplex

__all__ = [
    "CategoricalPrior",
    "DirichletSimplex",
    "FixedSimplex",
    "GaussianPrior",
    "GaussianProcessPrior",
    "HasInducing",
    "IndependentSites",
    "InducingPosterior",
    "InducingState",
    "LearnedSimplex",
    "MarkovChainPosterior",
    "MarkovChainPrior",
    "Posterior",
    "Prior",
    "Simplex",
]
