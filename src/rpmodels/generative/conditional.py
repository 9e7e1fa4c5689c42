"""p(x_j | z), the generative conditional that an RPM implies (paper, unnumbered, after eq 4), on the atoms of p₀.

    p(x_j | z) = p₀(x_j) f_j(z | x_j)/F_j(z) = χ_j(x_j) exp(η_j(x_j)·t(z) − Φ_{x_j}(t(z)))

It is an exponential family over the x_j, whose natural parameter is t(z): η_j(x_j) is its statistic, and χ_j its base
measure. The reference that factors are relative to is part of η_j.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import errors
from rpmodels.carriers import Factor, Sites, Targets
from rpmodels.families import Family
from rpmodels.fitted import FittedRPM
from rpmodels.mixtures import AtomMixture
from rpmodels.observations import Observations


@dataclass(frozen=True)
class Conditional:
    """p(x_j | z) of one factor at every site; S is 1 where one mixture serves all sites."""

    family: Family
    """Of the latents that the factor speaks of."""
    targets: Targets
    eta: Float[Tensor, "S A d"]
    """η_j of every atom."""
    log_p0: Float[Tensor, "S A"]
    """Of the atoms; −∞ at all of them where a site has none."""

    @property
    def atoms(self) -> int:
        """A."""
        return int(self.eta.shape[1])

    @cached_property
    def log_constant(self) -> Float[Tensor, "S"]:
        """log C = log Σ p₀ exp(−Φ(η_j)): with it χ_j sums to one, and Φ_{x_j}(0) = 0."""
        return torch.logsumexp(self._log_unscaled, -1)

    @cached_property
    def _log_unscaled(self) -> Float[Tensor, "S A"]:
        return self.log_p0 - self.family.log_normaliser(self.eta)

    @cached_property
    def log_chi(self) -> Float[Tensor, "S A"]:
        """log χ_j = log p₀ − Φ(η_j) − log C."""
        known = torch.nan_to_num(self.log_constant, neginf=0.0)
        return self._log_unscaled - known[:, None]

    def log_normaliser(self, t: Float[Tensor, "n #T Q d"]) -> Float[Tensor, "n T Q"]:
        """Φ_{x_j}(t) = log Σ_x χ_j(x) exp(η_j(x)·t); −∞ at a site without atoms. F_j(z) = C exp(Φ_{x_j}(t(z)))."""
        return torch.logsumexp(self._terms(t), -1)

    def weights(self, t: Float[Tensor, "n #T Q d"]) -> Float[Tensor, "n T Q A"]:
        """p(x_j | z) of every atom, given t(z) of the latents that the factor speaks of; zero where there are none."""
        return torch.softmax(self._terms(t), -1).nan_to_num(0.0)

    def _terms(self, t: Float[Tensor, "n #T Q d"]) -> Float[Tensor, "n T Q A"]:
        """log χ_j + η_j·t."""
        t = t.to(self.eta.dtype)
        if len(self.eta) == 1:
            return t @ self.eta[0].mT + self.log_chi[0]
        return t @ self.eta.mT + self.log_chi[:, None]

    def at(self, sites: int) -> "Conditional":
        """At the first so many sites of those that it was made for; further ones have no atoms."""
        have = len(self.eta)
        if have in (1, sites):
            return self
        index = torch.arange(sites, device=self.eta.device).clamp_max(have - 1)
        beyond = torch.arange(sites, device=self.eta.device)[:, None] >= have
        log_p0 = torch.where(beyond, -torch.inf, self.log_p0[index])
        return replace(self, eta=self.eta[index], log_p0=log_p0)


@torch.no_grad()
def conditional(model: FittedRPM, name: str, sites: Sites | None = None) -> Conditional:
    """On the atoms of the fit; `sites` are those of new observations, by default those of training."""
    return conditional_on_atoms(model, name, atoms_of_fit(model, name), sites)


def atoms_of_fit(model: FittedRPM, name: str) -> AtomMixture:
    """F_j of a factor over the observations of the fit."""
    atoms = model.atoms(name)
    if atoms.drawn:
        raise errors.atoms_are_draws(name)
    return atoms


@torch.no_grad()
def conditional_on_rows(model: FittedRPM, name: str, rows: Observations, sites: Sites | None = None) -> Conditional:
    """The same where p₀ stands on these rows of the factor, each with the weight of its observation.

    On the rows that the model was fitted to it is that of the fit; others may be candidates.
    """
    return conditional_on_atoms(model, name, atoms_on_rows(model, name, rows), sites)


@torch.no_grad()
def atoms_on_rows(model: FittedRPM, name: str, rows: Observations) -> AtomMixture:
    """F_j of a factor over these rows, by one look at them."""
    if model.recogniser(name).curves() is not None:
        raise errors.no_atoms(name)
    if not rows.present[name].any():
        raise errors.no_rows(name)
    pattern = model.pattern
    parts = [factors[name] for _, factors in pattern.recognised(rows)]
    weights = torch.as_tensor(rows.weights, dtype=model.dtype, device=model.device)
    # Of their own sites, which may be fewer than those of the fit.
    shared = pattern.atoms.shared
    reference = model.atoms(name).reference if shared else pattern.references(rows.sites(model.device))[name]
    joint = Factor.joined(parts, rows.n_sites)
    if model.recogniser(name).is_generative:  # p₀ f/F is p(y|z) where a row weighs what normalises f_j (eq 1–2)
        weights = weights[:, None] * model.atoms(name).log_shift(joint.g).exp()
    return pattern.atoms.collect(model.recogniser(name).family, reference, joint, weights)


@torch.no_grad()
def conditional_on_atoms(model: FittedRPM, name: str, atoms: AtomMixture, sites: Sites | None) -> Conditional:
    """Of these atoms, at the sites of new observations or at those that the atoms have."""
    recogniser = model.recogniser(name)
    if sites is not None and not atoms.shared:
        atoms = atoms.at_sites(sites.exists.shape[1], model.pattern.references(sites)[name])
    eta = atoms.reference[:, None] + atoms.g
    counted = torch.where(torch.isneginf(atoms.log_total), 0.0, atoms.log_total)
    return Conditional(recogniser.family, recogniser.targets, eta, atoms.log_count - counted[:, None])
