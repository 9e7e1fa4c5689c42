"""The free energy (eq 5, A1) as named terms, the two conventions for its constants, scores and ceilings.

Nothing else in the library adds or drops a constant.

*independence*: nats above the model in which every observed variable is independent, per observation.
It drops Σ_j log p₀ⱼ (eq 5's "+C"); a fit that has learnt nothing is 0. This is what `score` returns.
*paper*: A1/A31 with Σ_j log p₀ⱼ = Σ log 1/(number of atoms), summed over observations.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from rpmodels.carriers import Factors, Rows
from rpmodels.families import Family
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior, Prior


@dataclass(frozen=True)
class FreeEnergy:
    """F per observation, in its named terms (independence convention)."""

    prior: Float[Tensor, "N"]
    """−KL(q‖p)."""
    recognition: Float[Tensor, "N"]
    """Σ_jt ⟨log f_j(z_t|x_jt)/r⟩."""
    mixture: Float[Tensor, "N"]
    """−Σ_jt ⟨log F_j(z_t)/r⟩."""
    parameters: Float[Tensor, "N"]
    """Each observation's share of −KL over the prior's own parameters (variational Bayes)."""
    log_atoms: Float[Tensor, "N"]
    """Σ_jt log(number of atoms) over what is present: −Σ log p₀, and the ceiling of one new observation."""

    @property
    def total(self) -> Float[Tensor, "N"]:
        """Nats above independence, per observation."""
        return self.prior + self.recognition + self.mixture + self.parameters

    @property
    def paper(self) -> Float[Tensor, "N"]:
        """The paper's convention (A1), per observation: the atoms' 1/N included."""
        return self.total - self.log_atoms

    def means(self, weights: Float[Tensor, "N"]) -> dict[str, Float[Tensor, ""]]:
        """Weighted means of the total and of every term, by name."""
        share = weights / weights.sum()
        terms = {
            "free_energy": self.total,
            "prior": self.prior,
            "recognition": self.recognition,
            "mixture": self.mixture,
            "parameters": self.parameters,
        }
        return {name: (share * values).sum() for name, values in terms.items()}


def free_energy(
    prior: Prior,
    posterior: Posterior,
    factors: Factors,
    mixtures: Mapping[str, Mixture],
    approximation: ExpectedLogMixture,
    rows: Rows,
    n_observations: float,
) -> FreeEnergy:
    """F of a batch: −KL(q‖p) + Σ_jt ⟨log f_j⟩ − ⟨log F_j⟩, a missing factor dropping its whole ratio."""
    kl = posterior.kl
    recognition = torch.zeros_like(kl)
    mixture_term = torch.zeros_like(kl)
    log_atoms = torch.zeros_like(kl)
    for name, factor in factors.items():
        mixture = mixtures[name]
        log_f = expected_log_factor(prior.family, posterior.mu, factor.g, mixture.reference)
        recognition = recognition + factor.masked(log_f).sum(-1)
        log_mixture = approximation(posterior.eta, mixture, rows)
        mixture_term = mixture_term - factor.masked(log_mixture).sum(-1)
        totals = mixture.log_total.expand(factor.present.shape)
        log_atoms = log_atoms + factor.masked(totals.detach()).sum(-1)
    parameters = (-prior.parameter_kl() / n_observations).expand(kl.shape)
    return FreeEnergy(-kl, recognition, mixture_term, parameters, log_atoms)


def expected_log_factor(
    family: Family,
    mu_q: Float[Tensor, "N T D"],
    g: Float[Tensor, "N T D"],
    reference: Float[Tensor, "S D"],
) -> Float[Tensor, "N T"]:
    """⟨log f_j/r⟩ = g·μ_q − Φ(η₀+g) + Φ(η₀)."""
    shift = family.log_normaliser(reference + g) - family.log_normaliser(reference)
    return (g * mu_q).sum(-1) - shift


class Score(float):
    """A mean score in nats above independence, which prints with its ceiling and its median.

    A plain float everywhere else, so scikit-learn's model selection takes it as it is.
    """

    ceiling: float
    median: float

    def __new__(cls, mean: float, ceiling: float, median: float) -> "Score":
        """Wrap a mean."""
        score = super().__new__(cls, mean)
        score.ceiling = ceiling
        score.median = median
        return score

    def __repr__(self) -> str:
        return (
            f"{float(self):.4f} nats above independence per observation "
            f"(median {self.median:.4f}, ceiling {self.ceiling:.4f})"
        )

    def __reduce__(self) -> tuple[type["Score"], tuple[float, float, float]]:
        return Score, (float(self), self.ceiling, self.median)


def fit_ceiling(
    present: Mapping[str, Bool[Tensor, "N T"]],
    log_atoms: Mapping[str, Float[Tensor, "S"]],
    n_states: int | None,
) -> float:
    """No set of recognition factors can lift the mean of log W over the training set above this.

    Two proofs, the smaller bound wins. (a) W averages to one over the grid of atoms, and the N
    observations with the same pattern of presence are N of its cells, so their mean log W is at most
    Σ log atoms − log N. (b) For one finite latent, each factor adds at most I_j ≤ log min(K, N_j) over
    the share N_j/N of observations that have it, and the prior's KL takes back at least the largest.
    """
    grid = _grid_ceiling(present, log_atoms)
    sites = next(iter(present.values())).shape[1]
    if n_states is None or sites != 1:
        return grid
    parts = [
        float(have.double().mean()) * min(math.log(n_states), float(log_atoms[name].max()))
        for name, have in present.items()
    ]
    return min(grid, sum(parts) - max(parts))


def _grid_ceiling(present: Mapping[str, Bool[Tensor, "N T"]], log_atoms: Mapping[str, Float[Tensor, "S"]]) -> float:
    stacked = torch.stack([present[name] for name in log_atoms], -1)
    values = torch.stack([atoms.expand(stacked.shape[1]) for atoms in log_atoms.values()], -1).double()
    patterns, members = torch.unique(stacked.flatten(1), dim=0, return_counts=True)
    zero = torch.zeros_like(values.flatten())
    sums = torch.where(patterns, values.flatten().nan_to_num(neginf=0.0), zero).sum(-1)
    per_pattern = (sums - members.double().log()).clamp_min(0.0)
    return float((per_pattern * members).sum() / members.sum())
