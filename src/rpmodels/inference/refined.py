"""The amortised E-step and whole natural-gradient steps after it, through which gradients flow.

One pass, q ∝ p ∏ exp(g_c), leaves out that factors are divided by F_c, and training with it moves parameters to where
that matters little, which need not be where the data want them (docs/results/populations.md). A step puts the best
normal site of f_c/F_c under the q of the pass in the place of exp(g_c). Nothing is detached: the recognition side is
trained by what follows from it.
"""

from rpmodels import checks
from rpmodels.free_energy import site_marginal
from rpmodels.inference.amortised import Amortised
from rpmodels.inference.e_step import EStep, summed_potentials
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior, Prior
from rpmodels.step import Step


class Refined(EStep):
    """λ = Σ_j (g_j − ∂⟨log F_j/r⟩/∂μ_q) of the amortised q, for populations; of other factors g_j as it is.

    Args:
        steps: how many times
        late: only in the last steps of a fit, whose rate falls, and afterwards; before that q is the amortised one

    """

    def __init__(self, steps: int = 1, late: bool = False) -> None:
        self.steps = checks.integer("steps", steps, 1)
        self.late = bool(late)

    def on_the_way(self) -> EStep:
        """One pass, where refinement is for the end."""
        return Amortised() if self.late else self

    @property
    def passes(self) -> int:
        """A slope for every step, and a value."""
        return 1 + self.steps

    def check(self, prior: Prior, mixture: Mixture, relative: bool) -> None:
        """What the amortised E-step needs."""
        Amortised().check(prior, mixture, relative)

    def __call__(self, step: Step, approximation: ExpectedLogMixture) -> Posterior:
        """The prior conditioned on λ."""
        posterior = step.prior.condition(summed_potentials(step.factors), step.sites)
        for _ in range(self.steps):
            sites = {
                name: step.mixtures[name].refined(factor, site_marginal(posterior, factor))
                for name, factor in step.factors.items()
            }
            posterior = step.prior.condition(summed_potentials(sites), step.sites)
        return posterior
