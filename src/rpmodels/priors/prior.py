"""The contract of a prior: absorb per-site potentials, give back the posterior they imply."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import SiteMarginal, Sites, Targets
from rpmodels.families import Family, Samplable
from rpmodels.families.family import F_co
from rpmodels.priors.simplex import freed
from rpmodels.priors.symmetry import PLACES, Symmetry, of_normals

P = TypeVar("P", bound="Prior[Any]")


class Posterior(ABC):
    """q(Z) of a batch, as the free energy and the user read it."""

    @property
    @abstractmethod
    def eta(self) -> Float[Tensor, "N T D"]:
        """η_q of every site's marginal."""

    @property
    @abstractmethod
    def mu(self) -> Float[Tensor, "N T D"]:
        """μ_q = ⟨t(z)⟩ of every site's marginal."""

    @property
    @abstractmethod
    def kl(self) -> Float[Tensor, "N"]:
        """KL(q(Z)‖p(Z)) per observation."""

    @abstractmethod
    def draw(self, generator: torch.Generator) -> tuple[Shaped[Tensor, "N T *z"], Float[Tensor, "N"]]:
        """A joint draw of Z per observation, and its log p/q: an importance sampler of the prior."""

    def sample(self, generator: torch.Generator) -> Shaped[Tensor, "N T *z"]:
        """A joint draw of Z per observation."""
        return self.draw(generator)[0]

    def stationary(self) -> "Posterior":
        """The same where it is known to maximise F: the gradient of F by q is zero then, and need not be found."""
        return self

    def marginal(self, targets: Targets) -> SiteMarginal:
        """q of every site, over what a factor targets."""
        return SiteMarginal(lambda: targets.natural(self.eta), lambda: targets.mean(self.mu))

    def members(self, targets: Targets) -> "list[tuple[Float[Tensor, '...'], SiteMarginal]]":
        """Shares and members of the family that q of every site is made of: one, where q is itself a member."""
        return [(self.kl.new_ones(()), self.marginal(targets))]


class Prior(nn.Module, ABC, Generic[F_co]):
    """p(Z), over latents of the family in brackets. Every subclass is one file in this room."""

    @property
    @abstractmethod
    def family(self) -> F_co:
        """The family of one site's marginal, shared with the recognition factors."""

    @abstractmethod
    def reference(self, sites: Sites, shared: bool) -> Float[Tensor, "S D"]:
        """The natural parameters that factors are relative to: one per site, or one for all (S = 1)."""

    @abstractmethod
    def condition(self, potentials: Float[Tensor, "N T D"], sites: Sites) -> Posterior:
        """q(Z) ∝ p(Z) exp(Σ_t potentials_t·t(z_t)); sites that do not exist are ignored."""

    def numbers(self, trials: int, sites: int) -> int:
        """About how many numbers conditioning trials of so many sites keeps at once: what decides how many fit."""
        return trials * sites * 8 * self.family.natural_size

    @property
    @abstractmethod
    def couples_sites(self) -> bool:
        """Whether the sites of an observation depend on each other: else one factor alone teaches nothing."""

    @abstractmethod
    def sample(self, sites: Sites, generator: torch.Generator) -> Shaped[Tensor, "N T *z"]:
        """Draws of Z; under variational Bayes, with the mean of the parameters."""

    def sums(self, posterior: Posterior, weights: Float[Tensor, "N"]) -> dict[str, Tensor]:
        """What the closed-form part of the M-step needs, summed over observations: none when all is by gradient."""
        return {}

    def update(self, sums: Mapping[str, Tensor], fraction: float) -> None:
        """The closed-form part of the M-step, from the sums of a batch that is this fraction of the data."""

    @contextmanager
    def by_gradient(self) -> Iterator[None]:
        """Inside, what the closed-form M-step learns is among `parameters()`: for a search over all of them at once."""
        yield

    @abstractmethod
    def parameter_kl(self) -> Float[Tensor, ""]:
        """KL of the approximate posterior over the prior's own parameters (variational Bayes); else zero."""

    def symmetry(self, times: Float[Tensor, "T"]) -> Symmetry | None:
        """What it leaves free, by what it has learned, at times such as these; None where that is not known."""
        return None

    def freed(self: P) -> P:
        """A copy that other data can teach, known tables and those under Dirichlets too; its reference is the same."""
        return freed(self)


class HasOptimum(Prior[F_co]):
    """A prior whose maximum-likelihood estimate, given all potentials, is found whole."""

    @abstractmethod
    def maximise(self, batches: "Sequence[tuple[Tensor, Sites, Tensor]]") -> None:
        """Move to the unique maximum of Σ_n w_n log ∫ p(Z) exp(Σ_t potentials_nt·t(z_t)).

        Batches of potentials (N, T, D), sites and weights (N,).
        """


class HasLogDensity(Prior[F_co]):
    """A prior whose p(Z) is a number: for log W by quadrature."""

    @abstractmethod
    def log_density(self, z: Shaped[Tensor, "..."], sites: Sites) -> Float[Tensor, "*draws N"]:
        """log p(Z) of joint draws `[*draws, N, T, *z]` over the sites that exist, the others integrated out.

        Of what `sample` draws: under variational Bayes, with the mean of the parameters.
        """


class HasCovariance(Prior[F_co]):
    """A prior of normal latents that says how they hang together over the sites of one observation."""

    @property
    def driven(self) -> bool:
        """Whether a mean function or inputs move latents, so that they are not alike at all sites."""
        return False

    @abstractmethod
    def covariances(self, times: Float[Tensor, "T"], kept: Int[Tensor, "S"]) -> Float[Tensor, "S S K K"]:
        """Cov[z_t, z_s] between those of these sites that are kept, inputs left out."""

    @torch.no_grad()
    def symmetry(self, times: Float[Tensor, "T"]) -> Symmetry | None:
        """Orthogonal maps; not asked where a mean function or inputs move latents, which fix signs as well."""
        if self.driven:
            return None
        kept = torch.tensor([each for each in PLACES if each < len(times)], device=times.device)
        return of_normals(self.covariances(times, kept))


class Predicts(Posterior):
    """A posterior that reaches beyond its own sites."""

    @abstractmethod
    def at(self, sites: Sites) -> Posterior:
        """The same q, seen from other sites: predictions at new times."""


@dataclass(frozen=True)
class IndependentSites(Posterior):
    """The posterior when sites are independent given nothing: each is the prior's member plus its potential.

    `log_normaliser` is that of the prior's member; under variational Bayes exp⟨log π⟩ is not normalised,
    and its normaliser is taken as 0 rather than Φ(η₀).
    """

    family: Family
    eta_0: Float[Tensor, "S D"]
    log_normaliser: Float[Tensor, "S"]
    potentials: Float[Tensor, "N T D"]
    sites: Sites

    @cached_property
    def eta(self) -> Float[Tensor, "N T D"]:
        """η₀ + potentials."""
        return self.eta_0 + self.potentials

    @cached_property
    def mu(self) -> Float[Tensor, "N T D"]:
        """Mean parameters of every site."""
        return self.family.mean(self.eta)

    def _summed(self, values: Float[Tensor, "N T"]) -> Float[Tensor, "N"]:
        return torch.where(self.sites.exists, values, torch.zeros_like(values)).sum(-1)

    @cached_property
    def log_partition(self) -> Float[Tensor, "N"]:
        """log ∫ p(Z) exp(Σ potentials·t) = Σ_t Φ(η_q) − Φ(η₀): with the exact potentials, log W (eq 4)."""
        return self._summed(self.family.log_normaliser(self.eta) - self.log_normaliser)

    @cached_property
    def kl(self) -> Float[Tensor, "N"]:
        """Σ_t potentials·μ_q − Φ(η_q) + Φ(η₀)."""
        return self._summed((self.potentials * self.mu).sum(-1)) - self.log_partition

    def draw(self, generator: torch.Generator) -> tuple[Shaped[Tensor, "N T *z"], Float[Tensor, "N"]]:
        """Every site by itself; log p/q = Σ_t Φ(η_q) − Φ(η₀) − potentials·t(z)."""
        if not isinstance(self.family, Samplable):
            raise errors.needs_samples(type(self.family).__name__)
        z = self.family.sample(self.eta, generator)
        t = self.family.statistic(z).to(self.eta.dtype)
        return z, self.log_partition - self._summed((self.potentials * t).sum(-1))
