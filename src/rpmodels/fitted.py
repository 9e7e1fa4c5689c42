"""Every F_j of a fitted model: the atoms' natural parameters (never raw data), and what they imply of the data."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import Factor
from rpmodels.mixtures import AtomMixture, Mixture

Summarise = Callable[[AtomMixture], Mixture]


class FittedAtoms(nn.Module):
    """The atoms of one F_j, with the reference they are relative to."""

    reference: Tensor
    g: Tensor
    log_count: Tensor

    def __init__(self, mixture: AtomMixture) -> None:
        super().__init__()
        self.family = mixture.family
        # Contiguous: from a file they come so, and sums in another order would round otherwise.
        self.register_buffer("reference", mixture.reference.detach().contiguous())
        self.register_buffer("g", mixture.g.detach().contiguous())
        self.register_buffer("log_count", mixture.log_count.detach().contiguous())


class FittedMixtures(nn.Module):
    """F_j of every factor over all the training data. Empty before a fit."""

    def __init__(self, mixtures: Mapping[str, AtomMixture], n_observations: float) -> None:
        super().__init__()
        self._names = tuple(mixtures)
        self._shared = any(mixture.shared for mixture in mixtures.values())
        # A list, because a user's factor names need not be valid names of submodules.
        self._atoms = nn.ModuleList(FittedAtoms(mixture) for mixture in mixtures.values())
        self._summaries: dict[str, Mixture] = {}
        self.n_observations = n_observations

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "FittedMixtures":
        self._summaries = {}  # they follow the atoms to another device or precision
        return cast("FittedMixtures", super()._apply(fn, recurse))  # type: ignore[no-untyped-call]

    def atoms(self, name: str) -> AtomMixture:
        """The atoms of one F_j."""
        if not self._names:
            raise errors.not_fitted("This RPM")
        if name not in self._names:
            raise errors.unknown_factor(name, list(self._names))
        stored = cast(FittedAtoms, self._atoms[self._names.index(name)])
        return AtomMixture(stored.family, stored.reference, self._shared, stored.g, stored.log_count)

    @torch.no_grad()
    def summary(self, name: str, summarise: Summarise) -> Mixture:
        """One F_j in the form that an approximation reads, made once."""
        if name not in self._summaries:
            self._summaries[name] = summarise(self.atoms(name))
        return self._summaries[name]

    @torch.no_grad()
    def conditional_weights(self, name: str, z: Shaped[Tensor, "n T *z"]) -> Float[Tensor, "n T A"]:
        """p(x_j = atom m | z) = c_m f_j(z|x_m) / Σ c f_j: the implied generative conditional on the atoms.

        All zero at a site where training saw nothing of the factor.
        """
        fitted = self.atoms(name)
        t = fitted.family.statistic(z).to(fitted.g.dtype)
        atoms = fitted.at_sites(t.shape[1], fitted.reference[: t.shape[1]])
        eta = atoms.reference[:, None] + atoms.g
        # [n, T, A] = t · η_m − Φ(η_m) + log c_m
        products = torch.einsum("ntd,tad->nta", t, eta.expand(t.shape[1], -1, -1))
        scores = products - fitted.family.log_normaliser(eta) + atoms.log_count
        return torch.softmax(scores, -1).nan_to_num(0.0)

    def draw(self, name: str, z: Shaped[Tensor, "n T *z"], generator: torch.Generator) -> Shaped[Tensor, "n T"]:
        """An atom for every site from p(x_j | z); −1 where there is none."""
        weights = self.conditional_weights(name, z)
        nothing = weights.sum(-1) == 0
        safe = torch.where(nothing[..., None], torch.ones_like(weights), weights).flatten(0, -2)
        picked = torch.multinomial(safe, 1, generator=generator).reshape(nothing.shape)
        return torch.where(nothing, -1, picked)


def joined(parts: list[Factor], sites: int) -> Factor:
    """Batches of one factor as one, padded to the same number of sites."""
    padded = [_padded(part, sites) for part in parts]
    return replace(
        padded[0], g=torch.cat([part.g for part in padded]), present=torch.cat([part.present for part in padded])
    )


def _padded(factor: Factor, sites: int) -> Factor:
    missing = sites - factor.present.shape[1]
    pad = nn.functional.pad
    return replace(factor, g=pad(factor.g, (0, 0, 0, missing)), present=pad(factor.present, (0, missing)))
