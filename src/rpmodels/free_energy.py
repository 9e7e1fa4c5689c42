"""The free energy (eq 5, A1) as named terms, the two conventions for its constants, scores and ceilings.

Nothing else in the library adds or drops a constant.

*independence*: nats above the model in which every observed variable is independent, per observation.
It drops Σ_j log p₀ⱼ (eq 5's "+C"); a fit that has learnt nothing is 0. This is what `score` returns.
*paper*: A1/A31 with Σ_j log p₀ⱼ = Σ log 1/(number of atoms), summed over observations.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from rpmodels.carriers import Batch, Factors
from rpmodels.families import Family, FiniteSupport
from rpmodels.mixtures import ExpectedLogMixture, Mixture
from rpmodels.priors import Posterior
from rpmodels.step import Step


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
    """−Σ_jt log p₀(x_jt) over what is present, p₀ = own count/total: Σ log(atoms) when all weights are 1.

    Also the ceiling of one observation: f_j/F_j ≤ total/own count. ∞ where p₀ is a density.
    """

    @property
    def total(self) -> Float[Tensor, "N"]:
        """Nats above independence, per observation."""
        return self.prior + self.recognition + self.mixture + self.parameters

    @property
    def values(self) -> NDArray[np.float64]:
        """The same, for the user."""
        return np.asarray(self.total.detach().double().cpu().numpy())

    @property
    def paper(self) -> Float[Tensor, "N"]:
        """The paper's convention (A1), per observation: the atoms' 1/N included. −∞ where p₀ is a density."""
        return self.total - self.log_atoms

    @staticmethod
    def joined(parts: "Sequence[FreeEnergy]") -> "FreeEnergy":
        """Batches one after the other."""
        names = [each.name for each in fields(FreeEnergy)]
        return FreeEnergy(**{name: torch.cat([getattr(part, name) for part in parts]) for name in names})

    def means(
        self, weights: Float[Tensor, "N"], total: Float[Tensor, ""] | None = None
    ) -> dict[str, Float[Tensor, ""]]:
        """Weighted means of the total and of every term, by name.

        `total`: the weights of all observations, when these are a part whose share of the means is wanted.
        """
        share = weights / (weights.sum() if total is None else total)
        terms = {
            "free_energy": self.total,
            "prior": self.prior,
            "recognition": self.recognition,
            "mixture": self.mixture,
            "parameters": self.parameters,
        }
        return dict(zip(terms, torch.stack(list(terms.values())) @ share, strict=True))


def free_energy(
    step: Step,
    posterior: Posterior,
    approximation: ExpectedLogMixture,
    own_count: Float[Tensor, "N"],
    n_observations: float,
) -> FreeEnergy:
    """F of a batch: −KL(q‖p) + Σ_jt ⟨log f_j⟩ − ⟨log F_j⟩, a missing factor dropping its whole ratio.

    `own_count` is the weight that every observation has among its atoms.
    """
    kl = posterior.kl
    recognition = torch.zeros_like(kl)
    mixture_term = torch.zeros_like(kl)
    log_atoms = torch.zeros_like(kl)
    for name, factor in step.factors.items():
        mixture = step.mixtures[name]
        q = posterior.marginal(factor.targets)
        log_f = (factor.g * q.mu).sum(-1) - mixture.log_normaliser_of(factor)  # ⟨log f_j/r⟩
        recognition = recognition + factor.masked(log_f).sum(-1)
        local = step.local.of(name)
        each = [
            (share, mixture.expected_log(factor, member, approximation, local))
            for share, member in posterior.members(factor.targets)
        ]
        log_mixture = each[0][1] if len(each) == 1 else torch.stack([share * value for share, value in each]).sum(0)
        mixture_term = mixture_term - factor.masked(log_mixture).sum(-1)
        log_atoms = log_atoms + factor.masked(mixture.surprise(factor, own_count)).sum(-1)
    parameters = (-step.prior.parameter_kl() / n_observations).expand(kl.shape)
    return FreeEnergy(-kl, recognition, mixture_term, parameters, log_atoms)


class Score(float):
    """A mean score in nats above independence, which prints with its ceiling, its median and what kind of number it is.

    A plain float everywhere else, so scikit-learn's model selection takes it as it is. `standard_error` is zero where
    every observation was scored, else that of a sample of them. `quadrature_error`, where there is a quadrature, is
    about how far the numbers of single observations are from those by twice the nodes.
    """

    ceiling: float
    median: float
    label: str
    standard_error: float
    quadrature_error: float

    def __new__(
        cls,
        mean: float,
        ceiling: float,
        median: float,
        label: str = "",
        standard_error: float = 0.0,
        quadrature_error: float = 0.0,
    ) -> "Score":
        """Wrap a mean."""
        score = super().__new__(cls, mean)
        score.ceiling = ceiling
        score.median = median
        score.label = label
        score.standard_error = standard_error
        score.quadrature_error = quadrature_error
        return score

    def __repr__(self) -> str:
        kind = f", {self.label} score" if self.label else ""
        if self.quadrature_error:
            kind += f", by quadrature to about {self.quadrature_error:.0e}"
        return (
            f"{float(self):.4f}{self.error} nats above independence per observation{kind} "
            f"(median {self.median:.4f}, {self.limit})"
        )

    @property
    def limit(self) -> str:
        """Its ceiling in words: there is none where p₀ is a density."""
        return f"ceiling {self.ceiling:.4f}" if math.isfinite(self.ceiling) else "no ceiling"

    @property
    def error(self) -> str:
        """± its standard error, where the score is that of a sample."""
        return f" ± {self.standard_error:.2g}" if self.standard_error else ""

    def called(self, label: str) -> "Score":
        """The same number as another kind."""
        return Score(float(self), self.ceiling, self.median, label, self.standard_error, self.quadrature_error)

    @property
    def plain(self) -> tuple[float, float, float, str, float, float]:
        """What makes it again."""
        return float(self), self.ceiling, self.median, self.label, self.standard_error, self.quadrature_error

    def __reduce__(self) -> tuple[type["Score"], tuple[float, float, float, str, float, float]]:
        return Score, self.plain


def fit_ceiling(
    present: Mapping[str, Bool[Tensor, "N T"]],
    weights: Float[Tensor, "N"],
    log_totals: Mapping[str, Float[Tensor, "S"]],
    family: Family,
) -> float:
    """No set of recognition factors can lift the weighted mean of log W over the training set above this.

    Two proofs, the smaller bound wins. (a) W averages to one over the grid of atoms, and the observations
    with the same pattern of presence are cells of it with known probability; Jensen does the rest (with equal
    weights: Σ log atoms − log N). (b) For one finite latent, factor j adds at most s_j I_j, with s_j the share
    of weight that has it and I_j ≤ min(log K, entropy of those weights) the information between observation
    and state; the prior's KL takes back at least the largest of these.
    """
    counted = weights > 0
    have = {name: each[counted] for name, each in present.items()}
    w = weights[counted].double()
    grid = _grid_ceiling(have, w, log_totals)
    if not isinstance(family, FiniteSupport) or next(iter(have.values())).shape[1] != 1:
        return grid
    parts = [_information(w[each[:, 0]], w.sum(), family.n_states) for each in have.values()]
    return min(grid, sum(parts) - max(parts))


def _information(weights: Float[Tensor, "n"], total: Float[Tensor, ""], n_states: int) -> float:
    """s_j min(log K, H_j)."""
    if not len(weights):
        return 0.0
    share = weights / weights.sum()
    entropy = float(-(share * share.log()).sum())
    return float(weights.sum() / total) * min(math.log(n_states), entropy)


def _grid_ceiling(
    present: Mapping[str, Bool[Tensor, "N T"]],
    weights: Float[Tensor, "N"],
    log_totals: Mapping[str, Float[Tensor, "S"]],
) -> float:
    """Σ_p S_p/S [Σ_jt∈p log C_jt − (|p| − 1) Σ_n∈p v_n log w_n − log S_p] over patterns p of presence."""
    stacked = torch.stack([present[name] for name in log_totals], -1)
    logs = torch.stack([each.expand(stacked.shape[1]) for each in log_totals.values()], -1).double().flatten()
    patterns, member = torch.unique(stacked.flatten(1), dim=0, return_inverse=True)
    zeros = torch.zeros(len(patterns), dtype=torch.float64)
    mass = zeros.index_add(0, member, weights)
    mean_log = zeros.index_add(0, member, weights * weights.log()) / mass
    atoms = torch.where(patterns, logs, torch.zeros_like(logs)).sum(-1)
    bounds = atoms - (patterns.sum(-1) - 1) * mean_log - mass.log()
    return float((mass * bounds.clamp_min(0.0)).sum() / mass.sum())


def least_surprise(
    parts: Iterable[tuple[Batch, Factors]], mixture: Callable[[str], Mixture], weights: NDArray[np.float64]
) -> float:
    """The same where there are populations: mean −Σ log p₀ of what was seen, as f_j/F_j ≤ 1/p₀."""
    found = []
    for batch, factors in parts:
        each = [
            factor.masked(mixture(name).surprise(factor, torch.ones_like(batch.weights))).sum(-1)
            for name, factor in factors.items()
        ]
        found.append(torch.stack(each).sum(0).double().cpu())
    share = torch.as_tensor(weights, dtype=torch.float64)
    return float(share @ torch.cat(found) / share.sum())
