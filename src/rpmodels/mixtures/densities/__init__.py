"""p₀, which stands behind F_j: empirical, a kernel density, or parametric. Add a file to add another."""

from rpmodels.mixtures.densities.kernel_density import KernelDensity
from rpmodels.mixtures.densities.marginals import Density, Drawn, Empirical, Marginal, MarginalByFactor
from rpmodels.mixtures.densities.parametric import (
    CategoricalMarginal,
    GaussianMarginal,
    MomentMatched,
    Parametric,
    PoissonMarginal,
)

__all__ = [
    "CategoricalMarginal",
    "Density",
    "Drawn",
    "Empirical",
    "GaussianMarginal",
    "KernelDensity",
    "Marginal",
    "MarginalByFactor",
    "MomentMatched",
    "Parametric",
    "PoissonMarginal",
]
