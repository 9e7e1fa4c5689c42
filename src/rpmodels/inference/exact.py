"""The exact posterior (eq 4) for discrete latents: every ratio f_j/F_j is itself a potential."""

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import Targets
from rpmodels.families import FiniteSupport
from rpmodels.inference.e_step import EStep, HasMarginals, added
from rpmodels.mixtures import ExpectedLogMixture, Mixture, StateMixture
from rpmodels.priors import Posterior, Prior
from rpmodels.step import Step


class ExactEStep(EStep[Prior]):
    """Potentials Σ_j log f_j(k|x_j)/F_j(k) (A14): then log W is the posterior's log-partition.

    k are the states of the latent, or the joint states of those latents that a factor speaks of.
    """

    hears_mixtures = True

    def check(self, prior: Prior, mixture: Mixture, relative: bool) -> None:
        """What a factor speaks of must take finitely many values, and F_j come as a table of them."""
        if not isinstance(mixture.family, FiniteSupport):
            raise errors.needs_finite_support("the exact E-step", type(mixture.family).__name__)
        if not isinstance(mixture, StateMixture):
            raise errors.needs_a_table(type(mixture).__name__)

    def __call__(self, step: Step[Prior], approximation: ExpectedLogMixture) -> Posterior:
        """q(Z) ∝ p(Z) ∏_jt f_j/F_j over what is present: F does not change with q there, and no gradient is lost."""
        return step.prior.condition(self.potentials(step).detach(), step.sites).stationary()

    def potentials(self, step: Step[Prior], before: HasMarginals | None = None) -> Float[Tensor, "N T D"]:
        """Σ_j log f_j/F_j, whatever q is."""
        potentials: list[tuple[Targets, Tensor]] = []
        for name, factor in step.factors.items():
            mixture = step.mixtures[name]
            assert isinstance(mixture, StateMixture)
            log_ratio = mixture.log_weights(factor)
            known = torch.where(factor.present[..., None], log_ratio, torch.zeros_like(log_ratio))
            potentials.append((factor.targets, mixture.family.potential(known)))
        return added(potentials)
