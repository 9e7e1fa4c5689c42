"""The contract of an exponential family, p(z) = exp(η·t(z) − Φ(η)), with η flat in the last axis.

Abilities are families that can more, each named by what uses it. An approximation, an E-step or a prior names the
ability it needs, and a family without it is refused, by that name, when the model is built.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from typing_extensions import TypeVar

from rpmodels import checks
from rpmodels.carriers import AllLatents, Targets


class Family(ABC):
    """An exponential family with uniform base measure (paper, "Exponential-Family Parametrisation")."""

    @property
    @abstractmethod
    def natural_size(self) -> int:
        """Length D of the flat natural parameter."""

    @property
    @abstractmethod
    def raw_size(self) -> int:
        """How many unconstrained numbers a network must give for one member."""

    @abstractmethod
    def log_normaliser(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b"]:
        """Φ(η)."""

    @abstractmethod
    def mean(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        """μ = ⟨t(z)⟩ = ∂Φ/∂η."""

    @abstractmethod
    def statistic(self, z: Shaped[Tensor, "..."]) -> Float[Tensor, "*b D"]:
        """t(z)."""

    @abstractmethod
    def to_valid(self, raw: Float[Tensor, "*b R"]) -> Float[Tensor, "*b D"]:
        """A valid natural parameter from a network's output (the paper's absolute parametrisation)."""

    @abstractmethod
    def to_potential(self, raw: Float[Tensor, "*b R"]) -> Float[Tensor, "*b D"]:
        """A potential g from a network's output, in the cone that keeps η + g valid for every valid η."""

    def broadest(self) -> Float[Tensor, "D"]:
        """The member that absolute factors (the paper's) are relative to: uniform, or as near as there is one.

        In double precision, as all constants are before a model has its own.
        """
        return torch.zeros(self.natural_size, dtype=torch.float64)

    def log_density(self, eta: Float[Tensor, "*b D"], t: Float[Tensor, "*c D"]) -> Float[Tensor, "..."]:
        """log p(z) = η·t(z) − Φ(η), given t = t(z)."""
        return (eta * t).sum(-1) - self.log_normaliser(eta)

    def kl(self, eta_q: Float[Tensor, "*b D"], eta_p: Float[Tensor, "*c D"]) -> Float[Tensor, "..."]:
        """KL(q‖p) = (η_q − η_p)·μ_q − Φ(η_q) + Φ(η_p)."""
        inner = ((eta_q - eta_p) * self.mean(eta_q)).sum(-1)
        return inner - self.log_normaliser(eta_q) + self.log_normaliser(eta_p)

    def cross_entropy(self, eta_q: Float[Tensor, "*b D"], eta_p: Float[Tensor, "*c D"]) -> Float[Tensor, "..."]:
        """−⟨log p⟩_q."""
        return self.log_normaliser(eta_p) - (eta_p * self.mean(eta_q)).sum(-1)

    def entropy(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b"]:
        """−⟨log q⟩_q."""
        return self.cross_entropy(eta, eta)


class Samplable(Family):
    """Draws of z."""

    @abstractmethod
    def sample(self, eta: Float[Tensor, "*b D"], generator: torch.Generator) -> Shaped[Tensor, "..."]:
        """One z for every leading index of η."""


class Reparametrised(Samplable):
    """Draws of z as a differentiable function of η and fixed noise (paper, "Reparametrised Monte-Carlo")."""

    @abstractmethod
    def noise_size(self) -> int:
        """How many standard normal numbers one draw takes."""

    @abstractmethod
    def reparametrise(self, eta: Float[Tensor, "*b D"], noise: Float[Tensor, "*c E"]) -> Float[Tensor, "..."]:
        """z(η, ε); leading axes broadcast."""

    def sample(self, eta: Float[Tensor, "*b D"], generator: torch.Generator) -> Shaped[Tensor, "..."]:
        """One z for every leading index of η."""
        shape = (*eta.shape[:-1], self.noise_size())
        options: dict[str, Any] = {"dtype": eta.dtype, "device": eta.device}
        return self.reparametrise(eta, torch.randn(shape, generator=generator, **options))


class InPlacePairs(Family):
    """Computes Φ(a + g_m) of all pairs of sites and atoms in buffers that are handed to it; of K latents.

    a is [n, T, D], g [S, A, D] with S = T or 1; buffers are [n, T, A].
    """

    latents: int

    @property
    @abstractmethod
    def spare_buffers(self) -> int:
        """How many it needs beside the one of the terms."""

    @abstractmethod
    def precision_form(self) -> Float[Tensor, "D E"]:
        """By what η is multiplied for the numbers that compiled loops read: h, and those of Λ, each of them once."""

    @property
    @abstractmethod
    def loops(self) -> str:
        """The compiled loops for such pairs (rpmodels.kernels)."""

    @abstractmethod
    def add_pairs(
        self,
        terms: Float[Tensor, "n T A"],
        a: Float[Tensor, "n T D"],
        g: Float[Tensor, "S A D"],
        spare: Sequence[Float[Tensor, "n T A"]],
    ) -> None:
        """terms += Φ(a + g_m)."""

    @abstractmethod
    def pull_pairs(
        self,
        share: Float[Tensor, "n T A"],
        a: Float[Tensor, "n T D"],
        g: Float[Tensor, "S A D"],
        spare: Sequence[Float[Tensor, "n T A"]],
        by_a: Float[Tensor, "n T D"],
        by_g: Float[Tensor, "S A D"],
    ) -> None:
        """by_a += Σ_m share μ(a + g_m), and by_g += the same summed over sites that have the atom."""


class HasStatisticCovariance(Family):
    """Knows V_q, the covariance of t(z), through its root: (A6–A8) without building the matrix."""

    @abstractmethod
    def covariance_root(self, eta_q: Float[Tensor, "*b D"], g: Float[Tensor, "*c D"]) -> Float[Tensor, "..."]:
        """u with u·u′ = gᵀ V_q g′ for any two potentials g, g′ (leading axes broadcast)."""

    @abstractmethod
    def basis(self) -> Float[Tensor, "P D"]:
        """Linearly independent potentials that span all potentials: coordinates in which V_q is not singular."""


class HasDomain(Family):
    """Knows which natural parameters are valid: for what searches among them, or learns them by gradient."""

    @abstractmethod
    def valid(self, eta: Float[Tensor, "*b D"]) -> Bool[Tensor, "*b"]:
        """Where η is a natural parameter at all."""

    @abstractmethod
    def to_raw(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b R"]:
        """The inverse of `to_valid`."""


class HasGrid(Family):
    """z lies in a bounded space that equally spaced points cover: integrals are sums, wherever the mass is."""

    @abstractmethod
    def grid(self, points: int) -> tuple[Shaped[Tensor, "Q *z"], float]:
        """So many values of z in double precision, and what each of them stands for in ∫ dz."""


class HasTargets(Family):
    """Several latents, of which a factor may speak of some."""

    latents: int

    def index(self, what: str, latent: object) -> int:
        """The place of a latent as `what` calls it: by number, unless latents have names."""
        return checks.integer(what, latent, 0)

    @abstractmethod
    def targets(self, indices: Sequence[int]) -> tuple[Family, Targets]:
        """The family of some of the latents, and the way between it and this one."""

    def everything(self) -> tuple[Family, Targets]:
        """The same of all latents."""
        return self, AllLatents()


class Gaussian(Reparametrised, HasDomain, HasTargets):
    """z in ℝᴷ, normal: for priors of Gaussian latents, and for all that goes through mean and spread."""

    @property
    @abstractmethod
    def groups(self) -> int:
        """G, how many groups of latents are independent of each other: K, or one group of all."""

    @abstractmethod
    def moments(self, eta: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, "*b K"], Float[Tensor, "..."]]:
        """Mean, and spread in the family's own form: variances, or a covariance."""

    @abstractmethod
    def natural(self, mean: Float[Tensor, "*b K"], spread: Float[Tensor, "..."]) -> Float[Tensor, "*b D"]:
        """η from mean and spread: the inverse of `moments`."""

    @abstractmethod
    def mean_parameter(self, mean: Float[Tensor, "*b K"], spread: Float[Tensor, "..."]) -> Float[Tensor, "*b D"]:
        """μ from mean and spread."""

    @abstractmethod
    def spread(self, blocks: Float[Tensor, "*b G B B"]) -> Float[Tensor, "..."]:
        """Spread from the covariance of every group."""

    @abstractmethod
    def covariance(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b K K"]:
        """The covariance as a matrix."""

    @abstractmethod
    def thresholded(self, eta: Float[Tensor, "*b D"], least: float) -> Float[Tensor, "*b D"]:
        """η with the eigenvalues of its precision, which may be anything, soft-thresholded: above `least`."""

    @abstractmethod
    def before_threshold(self, eta: Float[Tensor, "*b D"], least: float) -> Float[Tensor, "*b D"]:
        """What `thresholded` makes this η of."""

    @abstractmethod
    def slope(
        self, mean: Float[Tensor, "*b K"], by_mean: Float[Tensor, "*b K"], by_spread: Float[Tensor, "..."]
    ) -> Float[Tensor, "*b D"]:
        """∂E/∂μ from ∂E/∂mean and ∂E/∂spread."""


class Discrete(Family):
    """z is a whole number, a state, or several of them."""


class FiniteSupport(Discrete):
    """z takes finitely many values, and the statistic can express every function on them."""

    @property
    @abstractmethod
    def n_states(self) -> int:
        """K, the number of values."""

    @abstractmethod
    def values(self) -> Shaped[Tensor, "K *z"]:
        """Every value of z, in the order of the states."""

    @abstractmethod
    def log_probabilities(self, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b K"]:
        """log p(z = k) for every k."""

    @abstractmethod
    def potential(self, values: Float[Tensor, "*b K"]) -> Float[Tensor, "*b D"]:
        """The g with g·t(z = k) = values[k]."""


F = TypeVar("F", bound=Family, default=Family)
F_co = TypeVar("F_co", bound=Family, covariant=True, default=Family)
"""Of what has a family: a `Mixture` or `Prior` without a name in brackets is one of any family."""
