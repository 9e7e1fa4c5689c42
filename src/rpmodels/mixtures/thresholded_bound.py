"""The interior bound with the eigenvalues of a free η̃ soft-thresholded (the paper's RP-GPFA, after A31).

η_j(x_m) − η̃ = a + g_m must be a natural parameter for every atom m. Every g_m lies in the cone of potentials, so it is
as soon as the precision of a = η₀ − η̃ is positive definite: its eigenvalues are kept above one threshold, whichever the
atom. A threshold for every pair of a site and an atom would change η̃ with m, and the number would be no bound.
"""

from collections.abc import Callable, Mapping

from jaxtyping import Float
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import NamedTensors
from rpmodels.families import Family, Gaussian, HasDomain, HasStatisticCovariance
from rpmodels.families.gaussian import BROADEST_PRECISION
from rpmodels.mixtures.approximation import ExpectedLogMixture
from rpmodels.mixtures.interior_bound import ChosenAuxiliary, OptimalInteriorBound
from rpmodels.mixtures.mixture import AtomMixture

LEAST = 1e-3 * BROADEST_PRECISION
"""The threshold: of the precision that absolute factors are relative to, so that next to nothing is ruled out."""


class ThresholdedInteriorBound(ChosenAuxiliary):
    """η̃ as unconstrained parameters of every trial, factor and site; started at a = η_q."""

    def check(self, family: Family) -> None:
        """There must be eigenvalues; and what the bound of new data needs, which is the optimal one."""
        if not isinstance(family, Gaussian):
            raise errors.needs_gaussian("the thresholded interior bound", type(family).__name__)
        if not isinstance(family, HasStatisticCovariance):
            what = "the thresholded interior bound, which is the optimal one on new data,"
            raise errors.needs_statistic_covariance(what, type(family).__name__)

    def initial_parameters(
        self, family: Family, eta_q: Callable[[], Float[Tensor, "N T D"]]
    ) -> Mapping[str, Float[Tensor, "N T R"]]:
        """What the threshold makes η_q of."""
        assert isinstance(family, Gaussian)
        return {"auxiliary": family.before_threshold(eta_q(), LEAST)}

    def for_new_data(self) -> ExpectedLogMixture:
        """New data have no parameters of their own; the optimum is what these would be trained to."""
        return OptimalInteriorBound()

    def auxiliary(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[HasDomain], local: NamedTensors
    ) -> Float[Tensor, "N T D"]:
        """a from the parameters, its precision above the threshold."""
        assert isinstance(mixture.family, Gaussian)
        return mixture.family.thresholded(local["auxiliary"][:, : eta_q.shape[1]], LEAST)
