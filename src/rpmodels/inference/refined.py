"""The amortised E-step and whole natural-gradient steps after it, through which gradients flow.

One pass, q ∝ p ∏ exp(g_c), leaves out that factors are divided by F_c, and training with it moves parameters to where
that matters little, which need not be where the data want them (docs/results/populations.md). A step puts the best
normal site of f_c/F_c under the q of the pass in the place of exp(g_c). Nothing is detached: the recognition side is
trained by what follows from it.
"""

from dataclasses import replace

from jaxtyping import Float
from torch import Tensor

from rpmodels import checks
from rpmodels.carriers import Factors
from rpmodels.inference.amortised import Amortised
from rpmodels.inference.e_step import EStep, HasMarginals, summed_potentials
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior, Prior
from rpmodels.step import Step


class Refined(EStep):
    """λ = Σ_j (g_j − ∂⟨log F_j/r⟩/∂μ_q) of the amortised q, for populations; of other factors g_j as it is.

    Args:
        steps: how many times
        late: only in the last steps of a fit, whose rate falls, and afterwards; before that q is the amortised one
        temperature: τ of populations, q ∝ p ∏_c (f_c/F_c)^τ, in training as well; by default it is found after a fit

    """

    hears_mixtures = True

    def __init__(self, steps: int = 1, late: bool = False, temperature: float = 1.0) -> None:
        self.steps = self.refinements = checks.integer("steps", steps, 1)
        self.late = bool(late)
        self.temperature = checks.number("temperature", temperature, above=0.0)

    def tempered(self, temperature: float) -> EStep:
        """The same at another temperature."""
        return Refined(self.steps, self.late, temperature)

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
        return self.in_passes(step, lambda _, said: step.prior.condition(said, step.sites))

    def potentials(self, step: Step, before: HasMarginals | None = None) -> Float[Tensor, "N T D"]:
        """Σ_j g_j, refined near `before`; of populations times τ."""
        sites: Factors = step.factors
        if before is not None:
            sites = {
                name: step.mixtures[name].refined(factor, before.marginal(factor.targets))
                for name, factor in step.factors.items()
            }
        if self.temperature == 1.0:
            return summed_potentials(sites)
        weak = {
            name: each if each.channels is None else replace(each, g=self.temperature * each.g)
            for name, each in sites.items()
        }
        return summed_potentials(weak)
