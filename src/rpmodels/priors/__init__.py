"""Priors over the latents. Add a file to add a prior."""

from rpmodels.priors.categorical import CategoricalPrior
from rpmodels.priors.circular import CircularPrior
from rpmodels.priors.dirichlet import DirichletPosterior, DirichletPrior, FixedConcentration, LearnedConcentration
from rpmodels.priors.discrete_graph import DiscreteGraph
from rpmodels.priors.gaussian import GaussianPrior
from rpmodels.priors.gaussian_mixture import GaussianMixturePosterior, GaussianMixturePrior
from rpmodels.priors.gaussian_process import GaussianProcessPrior
from rpmodels.priors.graph_posterior import GraphPosterior
from rpmodels.priors.inducing import HasInducing, InducingState
from rpmodels.priors.joint_chain import JointChain, JointChainPosterior
from rpmodels.priors.kalman import LatentState
from rpmodels.priors.linear_dynamics import LinearDynamicsPrior
from rpmodels.priors.linear_dynamics_posterior import LinearDynamicsPosterior
from rpmodels.priors.markov_chain import MarkovChainPrior, stationary
from rpmodels.priors.markov_chain_posterior import MarkovChainPosterior
from rpmodels.priors.markovian_process import MarkovianProcessPrior
from rpmodels.priors.prior import HasCovariance, HasLogDensity, IndependentSites, Posterior, Prior
from rpmodels.priors.simplex import DirichletSimplex, FixedSimplex, LearnedSimplex, Simplex
from rpmodels.priors.structured import AgeSimplex, ProductSimplex
from rpmodels.priors.switching_dynamics import SwitchingDynamicsPrior

__all__ = [
    "AgeSimplex",
    "CategoricalPrior",
    "CircularPrior",
    "DirichletPosterior",
    "DirichletPrior",
    "DirichletSimplex",
    "DiscreteGraph",
    "FixedConcentration",
    "FixedSimplex",
    "GaussianMixturePosterior",
    "GaussianMixturePrior",
    "GaussianPrior",
    "GaussianProcessPrior",
    "GraphPosterior",
    "HasCovariance",
    "HasInducing",
    "HasLogDensity",
    "IndependentSites",
    "InducingState",
    "JointChain",
    "JointChainPosterior",
    "LatentState",
    "LearnedConcentration",
    "LearnedSimplex",
    "LinearDynamicsPosterior",
    "LinearDynamicsPrior",
    "MarkovChainPosterior",
    "MarkovChainPrior",
    "MarkovianProcessPrior",
    "Posterior",
    "Prior",
    "ProductSimplex",
    "Simplex",
    "SwitchingDynamicsPrior",
    "stationary",
]
