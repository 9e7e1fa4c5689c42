"""One discrete latent per site: p(z = k) = π_k. Conditioning is a softmax (peer supervision, A14)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import Sites
from rpmodels.families import Categorical
from rpmodels.linalg.shares import best_shares
from rpmodels.priors.prior import HasLogDensity, HasOptimum, IndependentSites, Posterior
from rpmodels.priors.simplex import DirichletSimplex, FixedSimplex, LearnedSimplex, Simplex
from rpmodels.priors.symmetry import Symmetry, of_states


class CategoricalPrior(HasLogDensity[Categorical], HasOptimum[Categorical]):
    """Sites independent, each over the same K states.

    The reference is log π only while π is fixed. A π that is learned in closed form must not drag the
    factors along (then its M-step would no longer be the maximiser), so there the reference is uniform.
    """

    _reference: Tensor

    def __init__(self, simplex: Simplex) -> None:
        super().__init__()
        self.simplex = simplex
        log_weights = simplex.log_weights()
        if log_weights.shape[0] != 1 or log_weights.shape[1] < 2:
            raise errors.too_few_states(log_weights.shape[-1])
        fixed = isinstance(simplex, FixedSimplex)
        self.register_buffer("_reference", log_weights.clone() if fixed else torch.zeros_like(log_weights))

    @staticmethod
    def uniform(n_states: int) -> "CategoricalPrior":
        """π = 1/K, fixed (the paper's)."""
        return CategoricalPrior(FixedSimplex(_uniform(n_states)))

    @staticmethod
    def fixed(probabilities: Float[Tensor, "K"]) -> "CategoricalPrior":
        """Known π."""
        return CategoricalPrior(FixedSimplex(_checked(probabilities)[None]))

    @staticmethod
    def learned(n_states: int) -> "CategoricalPrior":
        """π by maximum likelihood, started uniform."""
        return CategoricalPrior(LearnedSimplex(_uniform(n_states)))

    @staticmethod
    def dirichlet(n_states: int, concentration: float) -> "CategoricalPrior":
        """π ~ Dirichlet(concentration, …), learned by variational Bayes."""
        if not concentration > 0:
            raise errors.bad_value("the Dirichlet concentration", "a positive number", concentration)
        return CategoricalPrior(DirichletSimplex(_uniform(n_states) * n_states * concentration))

    @property
    def family(self) -> Categorical:
        """Categorical over K states."""
        return Categorical(int(self._reference.shape[-1]))

    @property
    def probabilities(self) -> Float[Tensor, "K"]:
        """π (its posterior mean under variational Bayes)."""
        return self.simplex.probabilities()[0]

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """The same for all sites."""
        return self._reference

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> Posterior:
        """q(k) ∝ π_k exp(potential_k) at every site."""
        log_weights = self.simplex.log_weights()
        return IndependentSites(self.family, log_weights, log_weights.new_zeros(1), potentials, sites)

    @property
    def couples_sites(self) -> bool:
        """Sites are independent."""
        return False

    def symmetry(self, times: Float[Tensor, "T"]) -> Symmetry:
        """States that are as frequent."""
        return of_states([self.probabilities.detach()])

    def sample(self, sites: Sites, generator: torch.Generator) -> Int[Tensor, "N T"]:
        """States by their (mean) probabilities."""
        return self.family.sample(self.probabilities.log().expand(*sites.exists.shape, -1), generator)

    def log_density(self, z: Int[Tensor, "*draws N T"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """Σ_t log π(z_t)."""
        return torch.where(sites.exists, self.probabilities.log()[z], 0.0).sum(-1)

    def sums(self, posterior: Posterior, weights: Float[Tensor, "N"]) -> dict[str, Tensor]:
        """Expected counts Σ_n w_n Σ_t q_nt(k) over sites that exist."""
        assert isinstance(posterior, IndependentSites)
        counted = weights[:, None] * posterior.sites.exists
        return {"states": torch.einsum("nt,ntk->k", counted, posterior.mu)[None]}

    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """π from the expected counts."""
        self.simplex.update(sums["states"], fraction)

    def maximise(self, batches: Sequence[tuple[Tensor, Sites, Tensor]]) -> None:
        """π of the highest Σ_n w_n Σ_t log Σ_k π_k exp(potential_ntk), which is concave."""
        said = torch.cat([potentials.flatten(0, 1) for potentials, _, _ in batches])
        counted = torch.cat([(weights[:, None] * sites.exists).flatten() for _, sites, weights in batches])
        self.simplex.restart(best_shares(said, counted)[None])

    @contextmanager
    def by_gradient(self) -> Iterator[None]:
        """π."""
        with self.simplex.by_gradient():
            yield

    def parameter_kl(self) -> Float[Tensor, ""]:
        """KL(q(π)‖p(π))."""
        return self.simplex.kl()


def _uniform(n_states: int) -> Float[Tensor, "1 K"]:
    if n_states < 2:
        raise errors.too_few_states(n_states)
    return torch.full((1, n_states), 1.0 / n_states, dtype=torch.float64)


def _checked(probabilities: Float[Tensor, "K"]) -> Float[Tensor, "K"]:
    total = float(probabilities.sum())
    if not bool((probabilities > 0).all()) or abs(total - 1.0) > 1e-3:
        raise errors.bad_value(
            "prior probabilities", "positive numbers that sum to 1", f"{probabilities.tolist()} (sum {total:.4g})"
        )
    return probabilities.double() / probabilities.double().sum()
