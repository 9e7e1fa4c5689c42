"""The interior variational bound (8), (A9–A13): ⟨log F_j⟩ from above, in closed form.

With f̃ = exp(η̃·t) and a = η₀ − η̃,

    ⟨log F/r⟩ ≤ (η_q − a)·μ_q − Φ(η_q) + log Σ_m w_m exp(Φ(a + g_m) − Φ(η₀ + g_m) + Φ(η₀)).

Every g_m lies in the cone of potentials, so a + g_m is valid for every m whenever a is: no thresholding,
and always a bound. It is convex in a. At a = η_q it is Jensen's inequality on F/r.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import errors, linalg
from rpmodels.carriers import NamedTensors
from rpmodels.families import Family, HasDomain, HasStatisticCovariance
from rpmodels.families.family import F
from rpmodels.mixtures.approximation import ExpectedLogMixture, Kind, OfAtoms
from rpmodels.mixtures.mixture import AtomMixture

HALVINGS = 30
"""Of a Newton step that leaves the domain or raises the bound."""


class _InteriorBound(OfAtoms[F]):
    """The bound, for a choice of a = η₀ − η̃."""

    @property
    def kind(self) -> Kind:
        """An upper bound of ⟨log F⟩, so the free energy stays a lower bound."""
        return Kind.UPPER_BOUND

    @abstractmethod
    def auxiliary(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[F], local: NamedTensors
    ) -> Float[Tensor, "N T D"]:
        """a = η₀ − η̃ at every site."""

    def __call__(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[F], local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """The bound at the chosen a."""
        a = self.auxiliary(eta_q, mixture, local)
        family = mixture.family
        value = mixture.log_mean_normaliser(a) - family.log_normaliser(eta_q)
        if a is not eta_q:
            value = value + ((eta_q - a) * family.mean(eta_q)).sum(-1)
        return mixture.where_atoms(value)


class InteriorBound(_InteriorBound[Family]):
    """η̃ = η₀ − η_q: no auxiliary parameters, tight as F_j → p. The default."""

    def check(self, family: Family) -> None:
        """Any family: Φ and μ are all it reads."""

    def auxiliary(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture, local: NamedTensors
    ) -> Float[Tensor, "N T D"]:
        """a = η_q."""
        return eta_q


class ChosenAuxiliary(_InteriorBound[HasDomain]):
    """The bound at an a of its own, which atoms of no weight shall not constrain."""

    def __call__(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[HasDomain], local: NamedTensors
    ) -> Float[Tensor, "N T"]:
        """The bound over atoms that count."""
        return super().__call__(eta_q, mixture.filled(), local)


class OptimalInteriorBound(ChosenAuxiliary):
    """The best η̃ of every site by Newton's method; gradients by the envelope theorem.

    At the optimum Σ_m w_m μ(η_m − η̃) = μ_q. Only a + g_m must be valid, for every atom, not a itself: when all atoms
    coincide the optimum is a = η_q − g and the bound exact. Steps that leave that domain or raise the bound are halved.
    """

    def __init__(self, steps: int = 30) -> None:
        self.steps = steps

    def check(self, family: Family) -> None:
        """Newton's method must know where a is valid, and the covariance of the statistic."""
        if not isinstance(family, HasDomain):
            raise errors.needs_domain("the optimal interior bound", type(family).__name__)
        if not isinstance(family, HasStatisticCovariance):
            raise errors.needs_statistic_covariance("the optimal interior bound", type(family).__name__)

    @torch.no_grad()
    def auxiliary(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[HasDomain], local: NamedTensors
    ) -> Float[Tensor, "N T D"]:
        """a by Newton from a = η_q; constant for the gradient."""
        fixed = mixture.detached()
        mu_q = fixed.family.mean(eta_q)
        a = eta_q.clone()
        value = _objective(a, mu_q, fixed)
        moving = torch.ones_like(value, dtype=torch.bool)
        for _ in range(self.steps):
            direction, promised = _newton_direction(a, mu_q, fixed)
            # What a step still promises to gain (nats) is below rounding: done.
            moving = moving & (promised > 10.0 * torch.finfo(a.dtype).eps)
            if not bool(moving.any()):
                break
            before = value
            a, value = _line_search(a, value, direction, torch.where(moving, promised, 0.0), mu_q, fixed)
            # A site that no step could better would be offered the same steps again.
            moving = moving & (value < before)
        return a


class FreeInteriorBound(ChosenAuxiliary):
    """η̃ as parameters of every trial, factor and site, as in the paper; started at a = η_q."""

    def check(self, family: Family) -> None:
        """Where a is valid must be known; and what the bound of new data needs, which is the optimal one."""
        if not isinstance(family, HasDomain):
            raise errors.needs_domain("the free interior bound", type(family).__name__)
        if not isinstance(family, HasStatisticCovariance):
            what = "the free interior bound, which is the optimal one on new data,"
            raise errors.needs_statistic_covariance(what, type(family).__name__)

    def initial_parameters(
        self, family: Family, eta_q: Callable[[], Float[Tensor, "N T D"]]
    ) -> Mapping[str, Float[Tensor, "N T R"]]:
        """Raw numbers of a."""
        assert isinstance(family, HasDomain)
        return {"auxiliary": family.to_raw(eta_q())}

    def for_new_data(self) -> ExpectedLogMixture:
        """New data have no parameters of their own; the optimum is what these would be trained to."""
        return OptimalInteriorBound()

    def auxiliary(
        self, eta_q: Float[Tensor, "N T D"], mixture: AtomMixture[HasDomain], local: NamedTensors
    ) -> Float[Tensor, "N T D"]:
        """a from the parameters."""
        return mixture.family.to_valid(local["auxiliary"][:, : eta_q.shape[1]])


def _objective(
    a: Float[Tensor, "N T D"], mu_q: Float[Tensor, "N T D"], mixture: AtomMixture[HasDomain]
) -> Float[Tensor, "N T"]:
    """What of the bound depends on a; +∞ where a + g_m is not valid for some atom."""
    family = mixture.family
    valid = mixture.for_all(lambda g: family.valid(a[:, :, None] + g), a.numel())
    inside = torch.where(valid[..., None], a, family.broadest().to(a))
    value = mixture.log_mean_normaliser(inside) - (inside * mu_q).sum(-1)
    return torch.where(valid, value, torch.full_like(value, torch.inf))


def _newton_direction(
    a: Float[Tensor, "N T D"], mu_q: Float[Tensor, "N T D"], mixture: AtomMixture
) -> tuple[Float[Tensor, "N T D"], Float[Tensor, "N T"]]:
    """−H⁻¹∇ in coordinates of the family's basis, H = Σ_m w_m V(a+g_m) + Cov_w μ(a+g_m), and ∇ᵀH⁻¹∇."""
    family = mixture.family
    assert isinstance(family, HasStatisticCovariance)
    covariance_root = family.covariance_root
    basis = family.basis().to(a)
    size = len(basis)

    def pairs(g: Tensor, log_weight: Tensor) -> tuple[Tensor, Tensor]:
        eta = a[:, :, None] + g
        offset = (family.mean(eta) - mu_q[:, :, None]) @ basis.mT
        roots = covariance_root(eta[..., None, :], basis)
        second = roots @ roots.mT + offset[..., :, None] * offset[..., None, :]
        return family.log_normaliser(eta) + log_weight, torch.cat([offset, second.flatten(-2)], -1)

    _, averages = mixture.log_mean_and_averages(pairs, a.numel() * size * 2)
    gradient, second = averages[..., :size], torch.unflatten(averages[..., size:], -1, (size, size))
    hessian = second - gradient[..., :, None] * gradient[..., None, :]
    # Scaled to a unit diagonal: means and squares differ by orders of magnitude.
    scale = hessian.diagonal(dim1=-2, dim2=-1).clamp_min(torch.finfo(a.dtype).tiny).rsqrt()
    scaled = hessian * scale[..., :, None] * scale[..., None, :]
    eye = torch.eye(size, dtype=a.dtype, device=a.device)
    # Sites without atoms, and Hessians that rounding has spoilt: a step along the gradient there.
    scaled = torch.where(linalg.is_positive_definite(scaled)[..., None, None], scaled, eye)
    factor = linalg.cholesky(scaled, "the Hessian of the interior bound")
    coordinates = -scale * linalg.solve(factor, scale * gradient)
    return coordinates @ basis, -(coordinates * gradient).sum(-1)


def _line_search(
    a: Float[Tensor, "N T D"],
    value: Float[Tensor, "N T"],
    direction: Float[Tensor, "N T D"],
    promised: Float[Tensor, "N T"],
    mu_q: Float[Tensor, "N T D"],
    mixture: AtomMixture[HasDomain],
) -> tuple[Float[Tensor, "N T D"], Float[Tensor, "N T"]]:
    """The longest of the steps 1, ½, ¼, … that lowers the bound, per site; none where that promises too little."""
    eps = torch.finfo(a.dtype).eps
    step = 1.0
    for _ in range(HALVINGS):
        worthwhile = step * promised > eps
        if not bool(worthwhile.any()):
            break
        candidate = a + step * direction
        reached = _objective(candidate, mu_q, mixture)
        better = worthwhile & (reached < value)
        a = torch.where(better[..., None], candidate, a)
        value = torch.where(better, reached, value)
        promised = torch.where(better, 0.0, promised)
        step *= 0.5
    return a, value
