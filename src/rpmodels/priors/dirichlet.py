"""A mixture of its own for every observation: ω_n ~ Dirichlet(α), z_t | ω_n ~ Categorical(ω_n) (RP-LDA, A15–A18)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rpmodels import checks, errors
from rpmodels.carriers import Sites
from rpmodels.families import Categorical
from rpmodels.priors.dirichlet_sweeps import expected_log, fixed_point, log_beta, most_likely_alpha
from rpmodels.priors.prior import HasLogDensity, Posterior


class Concentration(nn.Module, ABC):
    """α, as a Dirichlet prior holds it: fixed or learned."""

    alpha: Tensor

    def __init__(self, alpha: Float[Tensor, "K"]) -> None:
        super().__init__()
        if len(alpha) < 2:
            raise errors.too_few_states(len(alpha))
        if not bool((torch.isfinite(alpha) & (alpha > 0)).all()):
            raise errors.bad_value("the Dirichlet concentration α", "positive numbers", alpha.tolist())
        self.register_buffer("alpha", alpha.clone())

    @abstractmethod
    def update(self, log_omega: Float[Tensor, "K"], count: Float[Tensor, ""], fraction: float) -> None:
        """The M-step from Σ_n w_n ⟨log ω_n⟩ and Σ_n w_n of a batch that is this fraction of the data."""


class FixedConcentration(Concentration):
    """Known α (the paper's)."""

    def update(self, log_omega: Float[Tensor, "K"], count: Float[Tensor, ""], fraction: float) -> None:
        """Nothing to learn."""


class LearnedConcentration(Concentration):
    """The α that maximises the free energy given q(ω): every category its own, or (`symmetric`) one for all."""

    count: Tensor
    log_omega: Tensor

    def __init__(self, alpha: Float[Tensor, "K"], symmetric: bool = False) -> None:
        super().__init__(alpha)
        if symmetric and not bool((alpha == alpha[0]).all()):
            raise errors.bad_value("a symmetric α", "the same number for every category", alpha.tolist())
        self.symmetric = symmetric
        self.register_buffer("count", torch.zeros_like(alpha[0]))
        self.register_buffer("log_omega", torch.zeros_like(alpha))

    def update(self, log_omega: Float[Tensor, "K"], count: Float[Tensor, ""], fraction: float) -> None:
        """The maximum given running sums c ← (1 − fraction) c + batch; all of EM when the batch is the data."""
        if not bool(self.count > 0):  # as if all the data had so far agreed with where α starts
            self.count.copy_(count / fraction)
            self.log_omega.copy_(expected_log(self.alpha) * self.count)
        self.count.copy_((1 - fraction) * self.count + count)
        self.log_omega.copy_((1 - fraction) * self.log_omega + log_omega)
        if not bool(self.count > 0):
            return
        statistic = self.log_omega / self.count
        if self.symmetric:  # from equal numbers, equal statistics lead to equal numbers
            statistic = statistic.mean().expand_as(statistic)
        self.alpha.copy_(most_likely_alpha(statistic.double(), self.alpha.double()))


class DirichletPrior(HasLogDensity[Categorical]):
    """p(Z) = ∏_n ∫ Dirichlet(ω_n|α) ∏_t ω_n,z_t dω_n: sites of one observation share a mixture, in any order.

    q(ω) and q(z_t) are taken as independent (A17), so the free energy is below log W even after the exact
    E-step. The factors are relative to a uniform member: an α that is learned must not drag them along.
    """

    def __init__(self, concentration: Concentration) -> None:
        super().__init__()
        self.concentration = concentration

    @staticmethod
    def fixed(n_states: int, alpha: float | Sequence[float] = 1.0) -> "DirichletPrior":
        """Known α: one number for all categories, or one for each."""
        return DirichletPrior(FixedConcentration(_per_category(n_states, alpha)))

    @staticmethod
    def learned(n_states: int, alpha: float | Sequence[float] = 1.0, symmetric: bool = False) -> "DirichletPrior":
        """α by maximum of the free energy, started from `alpha`; `symmetric` for one number for all categories."""
        return DirichletPrior(LearnedConcentration(_per_category(n_states, alpha), symmetric))

    @property
    def alpha(self) -> Float[Tensor, "K"]:
        """α_k."""
        return self.concentration.alpha

    @property
    def family(self) -> Categorical:
        """Categorical over K states."""
        return Categorical(len(self.alpha))

    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """Uniform, the same for all sites."""
        return torch.zeros_like(self.alpha)[None]

    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> "DirichletPosterior":
        """q(ω) ∏_t q(z_t) at the fixed point of (A18).

        The fixed point itself is found without gradients, and only the last half-sweep, from ⟨log ω⟩ to
        q(z) and α̂, is differentiable. After the exact E-step that is the whole gradient: the potentials are
        then what the free energy weighs q by, so it is stationary in q(z) and α̂, and how these move
        with the potentials matters to second order only.
        """
        # A site about which nothing is known (padding, a missing patch) says nothing of ω: integrated out, exactly.
        informed = sites.exists & (potentials != potentials[..., :1]).any(-1)
        known = torch.where(informed[..., None], potentials, 0.0)
        log_omega = expected_log(fixed_point(known.detach(), informed, self.alpha))
        return DirichletPosterior(self.family, self.alpha.clone(), known, log_omega, sites, informed)

    @property
    def couples_sites(self) -> bool:
        """Through ω."""
        return True

    def sample(self, sites: Sites, generator: torch.Generator) -> Int[Tensor, "N T"]:
        """z_1, z_2, … with ω integrated out: a Pólya urn for every observation."""
        everywhere = torch.ones_like(sites.exists)
        nothing = torch.zeros_like(sites.exists, dtype=torch.int64)
        return _from_urn(self.alpha.expand(len(nothing), -1), nothing, everywhere, generator)

    def log_density(self, z: Int[Tensor, "*draws N T"], sites: Sites) -> Float[Tensor, "*draws N"]:
        """log B(α + counts)/B(α), with ω integrated out."""
        counts = torch.nn.functional.one_hot(z, len(self.alpha)) * sites.exists[..., None]
        return log_beta(self.alpha + counts.sum(-2)) - log_beta(self.alpha)

    def sums(self, posterior: Posterior, weights: Float[Tensor, "N"]) -> dict[str, Tensor]:
        """Σ_n w_n ⟨log ω_n⟩ and Σ_n w_n."""
        assert isinstance(posterior, DirichletPosterior)
        return {"log_omega": weights @ posterior.log_proportions, "count": weights.sum()}

    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """α from these."""
        self.concentration.update(sums["log_omega"], sums["count"], fraction)

    def parameter_kl(self) -> Float[Tensor, ""]:
        """Zero: ω belongs to the observations, and α is a point estimate."""
        return self.alpha.new_zeros(())


@dataclass(frozen=True)
class DirichletPosterior(Posterior):
    """q(ω) = Dirichlet(α̂) and q(z_t) for every observation.

    Sites that are not `informed` are the exception to the independence of z_t and ω: q(z_t|ω) = ω there.
    """

    family: Categorical
    alpha: Float[Tensor, "K"]
    potentials: Float[Tensor, "N T K"]
    log_omega: Float[Tensor, "N K"]
    """⟨log ω⟩ at the fixed point, without gradients."""
    sites: Sites
    informed: Bool[Tensor, "N T"]

    @cached_property
    def _eta(self) -> Float[Tensor, "N T K"]:
        """potential_tk + ⟨log ω_k⟩."""
        return self.potentials + self.log_omega[:, None]

    @cached_property
    def concentration(self) -> Float[Tensor, "N K"]:
        """α̂_k = α_k + Σ_t q(z_t = k) (A18)."""
        counted = torch.where(self.informed[..., None], self.family.mean(self._eta), 0.0)
        return self.alpha + counted.sum(1)

    @cached_property
    def proportions(self) -> Float[Tensor, "N K"]:
        """ω̄ = ⟨ω⟩ = α̂/Σα̂: how much of every category an observation has."""
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def log_proportions(self) -> Float[Tensor, "N K"]:
        """⟨log ω⟩ = Ψ(α̂_k) − Ψ(Σα̂)."""
        return expected_log(self.concentration)

    @cached_property
    def eta(self) -> Float[Tensor, "N T K"]:
        """log q(z_t = k) but for a constant; log ω̄_k where nothing is known."""
        return torch.where(self.informed[..., None], self._eta, self.proportions.log()[:, None])

    @cached_property
    def mu(self) -> Float[Tensor, "N T K"]:
        """q(z_t = k)."""
        return self.family.mean(self.eta)

    @cached_property
    def kl(self) -> Float[Tensor, "N"]:
        """KL(q(ω)‖p(ω)) + Σ_t ⟨KL(q(z_t)‖Categorical(ω))⟩ = Σ_tk q log q + log B(α) − log B(α̂).

        Σ_k (α̂ − α)_k ⟨log ω_k⟩ of the first term is what the second takes away, by the definition of α̂.
        """
        log_q = self.family.log_probabilities(self._eta)
        negentropy = torch.where(self.informed, (log_q.exp() * log_q).sum(-1), 0.0).sum(-1)
        return negentropy + log_beta(self.alpha) - log_beta(self.concentration)

    def draw(self, generator: torch.Generator) -> tuple[Int[Tensor, "N T"], Float[Tensor, "N"]]:
        """z ~ q, and log p(z)/q(z) with ω integrated out of both.

        That is a better importance weight than the one of (z, ω), of which it is the mean given z:
        p(z) = B(α + counts)/B(α) is known in closed form. Where nothing is known z is drawn from
        p(z_t | the other z), which leaves the weight alone.
        """
        z = self.family.sample(self._eta, generator)
        one_hot = torch.nn.functional.one_hot(z, len(self.alpha)) * self.informed[..., None]
        urn = self.alpha + one_hot.sum(1)
        log_q = (self.family.log_probabilities(self._eta) * one_hot).sum((-2, -1))
        drawn = _from_urn(urn, z, ~self.informed, generator)
        return drawn, log_beta(urn) - log_beta(self.alpha) - log_q


def _from_urn(
    urn: Float[Tensor, "N K"], z: Int[Tensor, "N T"], wanted: Bool[Tensor, "N T"], generator: torch.Generator
) -> Int[Tensor, "N T"]:
    """z with the wanted sites drawn one after the other, each adding one of its colour to the urn."""
    z = z.clone()
    for t in range(z.shape[1]):
        here = wanted[:, t]
        if bool(here.any()):
            drawn = torch.multinomial(urn, 1, generator=generator)
            z[:, t] = torch.where(here, drawn[:, 0], z[:, t])
            urn = urn + torch.nn.functional.one_hot(drawn[:, 0], urn.shape[1]) * here[:, None]
    return z


def _per_category(n_states: int, alpha: float | Sequence[float]) -> Float[Tensor, "K"]:
    if n_states < 2:
        raise errors.too_few_states(n_states)
    if not isinstance(alpha, Sequence):
        return torch.full((n_states,), checks.number("alpha", alpha, above=0.0), dtype=torch.float64)
    if len(alpha) != n_states:
        raise errors.bad_value("alpha", f"one number, or {n_states} of them", f"{len(alpha)} numbers")
    return torch.tensor([checks.number("alpha", each, above=0.0) for each in alpha], dtype=torch.float64)
