"""Draws of (Z, X) from the joint of an RPM (eq 2), and p(x_j | z) at given latents."""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from rpmodels.carriers import Sites, Targets
from rpmodels.families import FullGaussian
from rpmodels.fitted import FittedRPM
from rpmodels.generative.conditional import Conditional, conditional
from rpmodels.mixtures import PopulationMixture
from rpmodels.mixtures.reduce import PAIR_BUDGET


@torch.no_grad()
def sample(
    model: FittedRPM,
    n: int,
    generator: torch.Generator,
    sites: Sites | None = None,
    given: Mapping[str, Conditional] | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """n draws of (Z, X) from the RPM's joint: Z and, per factor, the index of an atom at every site.

    Of a population it is the index of a value of every channel (n, T, C), in its grid. The sites are those of the
    training data unless given; −1 stands where a factor has no atoms. `given`: conditionals in the place of those on
    the atoms of the fit.
    """
    where = sites or model.sites(n)
    z = model.prior.sample(where, generator)
    return z, {name: observed(model, name, z, where, generator, (given or {}).get(name)) for name in model.names}


@torch.no_grad()
def observed(
    model: FittedRPM,
    name: str,
    z: Shaped[Tensor, "n T *z"],
    sites: Sites,
    generator: torch.Generator,
    given: Conditional | None = None,
) -> Shaped[Tensor, "n T *C"]:
    """x_j for every site, from p(x_j | z): an atom, −1 where there is none, or a value of every channel."""
    population = model.summary(name)
    targets = model.recogniser(name).targets
    if isinstance(population, PopulationMixture):
        return _values(population, targets, z, generator)
    here = given or conditional(model, name, sites)
    t = targets.mean(model.prior.family.statistic(z).to(here.eta.dtype))[:, :, None]
    size = max(1, PAIR_BUDGET // max(1, 4 * z.shape[1] * here.atoms))
    return torch.cat([_picked(here.weights(each)[:, :, 0], generator) for each in torch.split(t, size)])


def _picked(weights: Float[Tensor, "n T A"], generator: torch.Generator) -> Shaped[Tensor, "n T"]:
    nothing = weights.sum(-1) == 0
    safe = torch.where(nothing[..., None], torch.ones_like(weights), weights).flatten(0, -2)
    picked = torch.multinomial(safe, 1, generator=generator).reshape(nothing.shape)
    return torch.where(nothing, -1, picked)


@torch.no_grad()
def conditional_weights(model: FittedRPM, name: str, z: Shaped[Tensor, "n T *z"]) -> Float[Tensor, "n T A"]:
    """p(x_j = atom m | z) = c_m f_j(z|x_m) / Σ c f_j: the implied generative conditional on the atoms.

    All zero at a site where training saw nothing of the factor.
    """
    here = conditional(model, name).at(z.shape[1])
    t = here.targets.mean(model.prior.family.statistic(z).to(here.eta.dtype))
    return here.weights(t[:, :, None])[:, :, 0]


def _values(
    population: PopulationMixture, targets: Targets, z: Shaped[Tensor, "n T K"], generator: torch.Generator
) -> Shaped[Tensor, "n T C"]:
    """A value for every channel from p(x_c | u_c)."""
    family = population.family
    seen = targets.mean(FullGaussian(z.shape[-1]).statistic(z))[..., : family.latents]
    u = population.curves.along(seen.to(population.reference.dtype))
    probabilities = population.log_probabilities(u[:, :, None])[:, :, 0].exp()
    return torch.multinomial(probabilities.flatten(0, -2), 1, generator=generator).reshape(u.shape)
