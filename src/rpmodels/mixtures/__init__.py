"""The mixtures F_j and the ways to ⟨log F_j⟩. Add a file to add an approximation."""

from rpmodels.mixtures.approximation import ExpectedLogMixture, Kind
from rpmodels.mixtures.atoms import AtomPolicy, PerSite, Pooled
from rpmodels.mixtures.exact import Exact
from rpmodels.mixtures.mixture import AtomMixture, Mixture, TableMixture

__all__ = [
    "AtomMixture",
    "AtomPolicy",
    "Exact",
    "ExpectedLogMixture",
    "Kind",
    "Mixture",
    "PerSite",
    "Pooled",
    "TableMixture",
]
