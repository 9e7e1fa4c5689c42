"""q that hears a part of the sites in training, and is judged by all of them.

Any q gives a bound. One that was not told what some sites show does well only by what these share with others: latents
that one site alone would have (what happens to all channels of a bin at once, say) gain nothing. What makes *sites*
depend on each other weighs more than in the likelihood itself, and latents become slower.
"""

import torch

from rpmodels import checks, errors
from rpmodels.inference.amortised import Amortised
from rpmodels.inference.e_step import EStep, summed_potentials
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior, Prior
from rpmodels.step import Step


class PartlyHeard(EStep):
    """The amortised E-step on a random part of the sites, drawn anew in every step; new data are heard whole.

    For priors that couple sites: a site that stands alone would have nothing but its prior to be judged by.

    Args:
        share: of the sites, that are heard

    """

    def __init__(self, share: float = 0.5) -> None:
        self.share = checks.number("share", share, above=0.0, below=1.0)

    def check(self, prior: Prior, mixture: Mixture, relative: bool) -> None:
        """What the amortised E-step needs, and sites that know of each other."""
        if not prior.couples_sites:
            raise errors.uncoupled_sites(type(self).__name__, type(prior).__name__)
        Amortised().check(prior, mixture, relative)

    def for_new_data(self) -> EStep:
        """Everything is heard."""
        return Amortised()

    def __call__(self, step: Step, approximation: ExpectedLogMixture) -> Posterior:
        """The prior conditioned on Σ_j g_j of the sites that are heard."""
        potentials = summed_potentials(step.factors)
        # From torch's generator, which the training loop seeds step by step.
        heard = torch.rand(potentials.shape[:2], device=potentials.device) < self.share
        return step.prior.condition(torch.where(heard[..., None], potentials, 0.0), step.sites)
