"""The generative side that recognition factors imply: p(x_j = atom m | z) = p₀(m) f_j(z|x_m)/F_j(z) (eq 1–2)."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Sites, Targets
from rpmodels.families import FiniteSupport, FullGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.mixtures import PopulationMixture
from rpmodels.observations import Observations


@torch.no_grad()
def impute(model: FittedRPM, observations: Observations, name: str) -> Float[Tensor, "N T A"]:
    """p(x_j = atom m | the other factors): ⟨p(x_j = m | z)⟩ under the posterior without factor j."""
    recogniser = model.recogniser(name)
    family = recogniser.family
    if not isinstance(family, FiniteSupport):
        raise errors.needs_finite_support("imputation", type(family).__name__)
    hidden = {**observations.present, name: np.zeros_like(observations.present[name])}
    states = family.statistic(family.values().to(model.device))
    table = _conditional_weights(model, name, states[:, None].expand(-1, observations.n_sites, -1))
    results = []
    for inferred in model.posterior(replace(observations, present=hidden)):
        probabilities = family.log_probabilities(inferred.posterior.marginal(recogniser.targets).eta).exp()
        length = probabilities.shape[1]
        weights = torch.einsum("ntk,kta->nta", probabilities, table[:, :length])
        results.append(nn.functional.pad(weights, (0, 0, 0, observations.n_sites - length)))
    return torch.cat(results)


@torch.no_grad()
def sample(
    model: FittedRPM, n: int, generator: torch.Generator, sites: Sites | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """n draws of (Z, X) from the RPM's joint: Z and, per factor, the index of an atom at every site.

    Of a population it is the index of a value of every channel (n, T, C), in its grid. The sites are those of the
    training data unless given; −1 stands where a factor has no atoms.
    """
    z = model.prior.sample(sites or model.sites(n), generator)
    return z, {name: _drawn(model, name, z, generator) for name in model.names}


@torch.no_grad()
def conditional_weights(model: FittedRPM, name: str, z: Shaped[Tensor, "n T *z"]) -> Float[Tensor, "n T A"]:
    """p(x_j = atom m | z) = c_m f_j(z|x_m) / Σ c f_j: the implied generative conditional on the atoms.

    All zero at a site where training saw nothing of the factor.
    """
    return _conditional_weights(model, name, model.recogniser(name).targets.mean(model.prior.family.statistic(z)))


def _conditional_weights(model: FittedRPM, name: str, t: Float[Tensor, "n T D"]) -> Float[Tensor, "n T A"]:
    """The same from t(z) of the latents that the factor speaks of."""
    fitted = model.atoms(name)
    if fitted.drawn:
        raise errors.atoms_are_draws(name)
    t = t.to(fitted.g.dtype)
    atoms = fitted.at_sites(t.shape[1], fitted.reference[: t.shape[1]])
    eta = atoms.reference[:, None] + atoms.g
    # [n, T, A] = t · η_m − Φ(η_m) + log c_m
    products = torch.einsum("ntd,tad->nta", t, eta.expand(t.shape[1], -1, -1))
    scores = products - fitted.family.log_normaliser(eta) + atoms.log_count
    return torch.softmax(scores, -1).nan_to_num(0.0)


def _drawn(
    model: FittedRPM, name: str, z: Shaped[Tensor, "n T *z"], generator: torch.Generator
) -> Shaped[Tensor, "n T *C"]:
    """An atom for every site from p(x_j | z); −1 where there is none."""
    population = model.summary(name)
    if isinstance(population, PopulationMixture):
        return _values(population, model.recogniser(name).targets, z, generator)
    weights = conditional_weights(model, name, z)
    nothing = weights.sum(-1) == 0
    safe = torch.where(nothing[..., None], torch.ones_like(weights), weights).flatten(0, -2)
    picked = torch.multinomial(safe, 1, generator=generator).reshape(nothing.shape)
    return torch.where(nothing, -1, picked)


def _values(
    population: PopulationMixture, targets: Targets, z: Shaped[Tensor, "n T K"], generator: torch.Generator
) -> Shaped[Tensor, "n T C"]:
    """A value for every channel from p(x_c | u_c)."""
    family = population.family
    seen = targets.mean(FullGaussian(z.shape[-1]).statistic(z))[..., : family.latents]
    u = population.curves.along(seen.to(population.reference.dtype))
    probabilities = population.log_probabilities(u[:, :, None])[:, :, 0].exp()
    return torch.multinomial(probabilities.flatten(0, -2), 1, generator=generator).reshape(u.shape)


@torch.no_grad()
def label_table(model: FittedRPM, name: str) -> Float[Tensor, "K L"]:
    """p(label | state) of a factor of labels: n_l f_j(k|l) / Σ_l′ n_l′ f_j(k|l′), n how often training data had it."""
    recogniser = model.recogniser(name)
    vocabulary = model.specs[name].vocabulary
    if vocabulary is None:
        raise errors.network_needs_labels(name)
    family = recogniser.family
    if not isinstance(family, FiniteSupport):
        raise errors.needs_finite_support("naming states by labels", type(family).__name__)
    codes = torch.arange(len(vocabulary), device=model.device)[:, None]
    atoms = model.atoms(name)
    g = recogniser(codes, torch.ones_like(codes, dtype=torch.bool), atoms.g).g[:, 0]
    # Atoms are the labels' own potentials: the nearest is the label itself.
    which = torch.cdist(atoms.g[0].double(), g.double()).argmin(-1)
    counts = torch.zeros(len(vocabulary), dtype=g.dtype, device=g.device).index_add(0, which, atoms.log_count[0].exp())
    joint = (family.log_probabilities(atoms.reference[:1] + g) + counts.log()[:, None]).mT
    return torch.softmax(joint, -1)
