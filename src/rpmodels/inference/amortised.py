"""The amortised E-step: q(Z) ∝ p(Z) ∏_jt exp(g_j(x_jt)·t(z_t)).

The exact posterior (4) is this times ∏ p/F_j, which goes to one as F_j → p (the in-model limit). There are no
per-trial parameters, the gradient flows through the conditioning, and new trials cost one forward pass.
"""

from rpmodels import errors
from rpmodels.inference.e_step import EStep, summed_potentials
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior, Prior
from rpmodels.step import Step


class Amortised(EStep):
    """Potentials: what the recognition factors know beyond the prior, added up."""

    def check(self, prior: Prior, mixture: Mixture, relative: bool) -> None:
        """Factors must be relative to the prior: what an absolute factor adds to it may be negative."""
        if not relative:
            raise errors.absolute_factors("the amortised E-step")

    def __call__(self, step: Step, approximation: ExpectedLogMixture) -> Posterior:
        """The prior conditioned on Σ_j g_j."""
        return step.prior.condition(summed_potentials(step.factors), step.sites)
