"""The generative side that recognition factors imply: p(x_j = atom m | z) = p₀(m) f_j(z|x_m)/F_j(z) (eq 1–2)."""

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Sites
from rpmodels.families import FiniteSupport
from rpmodels.model import RPM
from rpmodels.observations import Observations


@torch.no_grad()
def impute(model: RPM, observations: Observations, name: str) -> Float[Tensor, "N T A"]:
    """p(x_j = atom m | the other factors): ⟨p(x_j = m | z)⟩ under the posterior without factor j."""
    if name not in model.names:
        raise errors.unknown_factor(name, list(model.names))
    family = model.prior.family
    if not isinstance(family, FiniteSupport):
        raise errors.needs_finite_support("imputation", type(family).__name__)
    hidden = {**observations.present, name: np.zeros_like(observations.present[name])}
    states = family.values().to(model.device)
    every = states[:, None].expand(-1, observations.n_sites, *states.shape[1:])
    table = model.fitted.conditional_weights(name, every)
    results = []
    for inferred in model.infer(replace(observations, present=hidden)):
        probabilities = family.log_probabilities(inferred.posterior.eta).exp()
        length = probabilities.shape[1]
        weights = torch.einsum("ntk,kta->nta", probabilities, table[:, :length])
        results.append(nn.functional.pad(weights, (0, 0, 0, observations.n_sites - length)))
    return torch.cat(results)


@torch.no_grad()
def sample(
    model: RPM, n: int, generator: torch.Generator, sites: Sites | None = None
) -> tuple[Tensor, dict[str, Tensor]]:
    """n draws of (Z, X) from the RPM's joint: Z and, per factor, the index of an atom at every site.

    The sites are those of the training data unless given; −1 stands where a factor has no atoms.
    """
    times = model.times.values.expand(n, -1)
    z = model.prior.sample(sites or Sites(times, torch.ones_like(times, dtype=torch.bool)), generator)
    return z, {name: model.fitted.draw(name, z, generator) for name in model.names}


@torch.no_grad()
def label_table(model: RPM, name: str) -> Float[Tensor, "K L"]:
    """p(label | state) of a factor of labels: n_l f_j(k|l) / Σ_l′ n_l′ f_j(k|l′), n how often training data had it."""
    if name not in model.names:
        raise errors.unknown_factor(name, list(model.names))
    vocabulary = model.specs[name].vocabulary
    if vocabulary is None:
        raise errors.network_needs_labels(name)
    family = model.prior.family
    if not isinstance(family, FiniteSupport):
        raise errors.needs_finite_support("naming states by labels", type(family).__name__)
    recogniser = dict(model.recognisers())[name]
    codes = torch.arange(len(vocabulary), device=model.device)[:, None]
    recogniser.eval()
    g = recogniser(codes, torch.ones_like(codes, dtype=torch.bool), model._like).g[:, 0]
    atoms = model.fitted.atoms(name)
    # Atoms are the labels' own potentials: the nearest is the label itself.
    which = torch.cdist(atoms.g[0].double(), g.double()).argmin(-1)
    counts = torch.zeros(len(vocabulary), dtype=g.dtype, device=g.device).index_add(0, which, atoms.log_count[0].exp())
    joint = (family.log_probabilities(atoms.reference[:1] + g) + counts.log()[:, None]).mT
    return torch.softmax(joint, -1)
