"""What states are called: p(label | state) of a factor of labels."""

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import errors
from rpmodels.families import FiniteSupport
from rpmodels.fitted import FittedRPM

SAME = 1e-6
"""Distance of potentials, relative to the largest, that rounding alone may make."""


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
    # Atoms are the labels' own potentials: the nearest is the label itself. Labels that say the same share theirs.
    apart = torch.cdist(atoms.g[0].double(), g.double())
    nearest = (apart <= apart.amin(-1, keepdim=True) + SAME * (1.0 + g.abs().max())).to(g.dtype)
    counts = (atoms.log_count[0].exp() / nearest.sum(-1)) @ nearest
    joint = (family.log_probabilities(atoms.reference[:1] + g) + counts.log()[:, None]).mT
    return torch.softmax(joint, -1)
