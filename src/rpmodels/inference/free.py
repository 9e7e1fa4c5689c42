"""Free E-steps: q as parameters of every trial, trained with the rest (the paper's way).

`FreePotentials` gives every trial and site its own potential; `FreeInducing` is the paper's literal
q(U) = N(μ, Σ) (A24–A31), in whitened coordinates, for priors with inducing points.
"""

from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from rpmodels import errors, linalg
from rpmodels.carriers import Sites
from rpmodels.families import Gaussian, HasDomain
from rpmodels.families.gaussian import inverse_softplus
from rpmodels.inference.e_step import EStep
from rpmodels.inference.natural_gradient import NaturalGradient
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import HasInducing, InducingState, Posterior, Prior
from rpmodels.step import Step

REFINEMENT = 50
"""Natural-gradient steps for new data, whose own parameters nobody has trained."""


class FreePotentials(EStep[Prior[HasDomain]]):
    """A potential per trial and site, started at what the untrained factors say."""

    def check(self, prior: Prior, mixture: Mixture, relative: bool) -> None:
        """Where potentials start must be a valid parameter; and what the E-step of new data needs."""
        if not isinstance(prior.family, HasDomain):
            raise errors.needs_domain("the E-step of free potentials", type(prior.family).__name__)
        if not isinstance(prior.family, Gaussian):
            what = "the E-step of free potentials, which is one of natural gradients on new data,"
            raise errors.needs_gaussian(what, type(prior.family).__name__)

    def initial_parameters(
        self, prior: Prior[HasDomain], sites: Sites, potentials: Callable[[], Float[Tensor, "N T D"]]
    ) -> Mapping[str, Tensor]:
        """Raw numbers of the potentials."""
        start = potentials()
        broadest = prior.family.broadest().to(start)  # a site where nothing is known still needs a finite raw number
        return {"potentials": prior.family.to_raw(start + broadest)}

    def for_new_data(self) -> EStep:
        """The optimum that the parameters of new data would be trained to."""
        return NaturalGradient(REFINEMENT, tol=1e-3)

    def __call__(self, step: Step[Prior[HasDomain]], approximation: ExpectedLogMixture) -> Posterior:
        """The prior conditioned on the trials' own potentials."""
        own = step.local.e_step["potentials"][:, : step.sites.exists.shape[1]]
        return step.prior.condition(step.prior.family.to_potential(own), step.sites)


class FreeInducing(EStep[HasInducing]):
    """q(U) = N(μ, Σ) per trial: μ and a triangular root of Σ are the parameters."""

    def check(self, prior: Prior, mixture: Mixture, relative: bool) -> None:
        """A prior with inducing points."""
        if not isinstance(prior, HasInducing):
            raise errors.needs_inducing(type(prior).__name__)

    def initial_parameters(
        self, prior: HasInducing, sites: Sites, potentials: Callable[[], Float[Tensor, "N T D"]]
    ) -> Mapping[str, Tensor]:
        """μ and the root, from the untrained factors."""
        state = prior.state_of(potentials(), sites)
        lower = linalg.cholesky(state.covariance, "the covariance of the inducing points")
        diagonal = torch.diag_embed(inverse_softplus(lower.diagonal(dim1=-2, dim2=-1)))
        return {"mean": state.mean, "root": lower.tril(-1) + diagonal}

    def for_new_data(self) -> EStep:
        """The optimum that the parameters of new data would be trained to."""
        return NaturalGradient(REFINEMENT, tol=1e-3)

    def __call__(self, step: Step[HasInducing], approximation: ExpectedLogMixture) -> Posterior:
        """The latents under the trials' own q(U)."""
        own = step.local.e_step
        spread = softplus(own["root"].diagonal(dim1=-2, dim2=-1))
        lower = own["root"].tril(-1) + torch.diag_embed(spread)
        state = InducingState(own["mean"], lower @ lower.mT, 2.0 * spread.log().sum(-1))
        return step.prior.from_state(state, step.sites)
