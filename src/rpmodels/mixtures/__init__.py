"""The mixtures F_j and the ways to ⟨log F_j⟩. Add a file to add an approximation."""

from rpmodels.mixtures import densities
from rpmodels.mixtures.approximation import ExpectedLogMixture, Kind, OfAtoms
from rpmodels.mixtures.atoms import AtomPolicy, PerSite, Pooled
from rpmodels.mixtures.densities import *
from rpmodels.mixtures.exact import Exact
from rpmodels.mixtures.extra_atoms import (
    AtomBank,
    ExtraAtoms,
    FreshAtoms,
    NoExtraAtoms,
    RememberedAtoms,
    joined_atoms,
)
from rpmodels.mixtures.fixed_grid import FixedGrid
from rpmodels.mixtures.gathering import of_all_processes
from rpmodels.mixtures.generative import GenerativeMixture
from rpmodels.mixtures.interior_bound import FreeInteriorBound, InteriorBound, OptimalInteriorBound
from rpmodels.mixtures.mixture import AtomMixture, Mixture
from rpmodels.mixtures.monte_carlo import MonteCarlo
from rpmodels.mixtures.population import PopulationMixture, collected, in_a_step, restored
from rpmodels.mixtures.quadrature import GaussHermite, SharedGrid, quadrature
from rpmodels.mixtures.second_order import SecondOrder
from rpmodels.mixtures.table import StateMixture, TableMixture
from rpmodels.mixtures.thresholded_bound import ThresholdedInteriorBound

__all__ = [
    "AtomBank",
    "AtomMixture",
    "AtomPolicy",
    "Exact",
    "ExpectedLogMixture",
    "ExtraAtoms",
    "FixedGrid",
    "FreeInteriorBound",
    "FreshAtoms",
    "GaussHermite",
    "GenerativeMixture",
    "InteriorBound",
    "Kind",
    "Mixture",
    "MonteCarlo",
    "NoExtraAtoms",
    "OfAtoms",
    "OptimalInteriorBound",
    "PerSite",
    "Pooled",
    "PopulationMixture",
    "RememberedAtoms",
    "SecondOrder",
    "SharedGrid",
    "StateMixture",
    "TableMixture",
    "ThresholdedInteriorBound",
    "collected",
    "in_a_step",
    "joined_atoms",
    "of_all_processes",
    "quadrature",
    "restored",
]
__all__ += densities.__all__
