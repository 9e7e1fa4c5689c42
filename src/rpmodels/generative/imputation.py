"""What a factor would have shown: p(x_j | the other factors) = ⟨p(x_j | z)⟩ under the posterior without factor j."""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.fitted import FittedRPM, Inferred
from rpmodels.generative.averages import DRAWS, Averaging, Places, averaging
from rpmodels.generative.conditional import Conditional, atoms_of_fit, atoms_on_rows, conditional_on_atoms
from rpmodels.mixtures.reduce import PAIR_BUDGET
from rpmodels.observations import Observations

FEW = 10.0
"""Effective draws, below which weights are those of one or two."""


@dataclass(frozen=True)
class Imputed:
    """Of every observation and site: V is A, the atoms, or the numbers of an observation."""

    values: Float[Tensor, "N T V"]
    """p(x_j = atom m | the other factors), zero where a site has no atoms; or ⟨x_j⟩, NaN there."""
    error: Float[Tensor, "N T V"]
    """Standard error of draws, what fewer nodes change, or zero."""
    effective: Float[Tensor, "N"]
    """So many independent draws would be as good; ∞ where nothing was drawn."""
    method: str
    spread: Float[Tensor, "N T V"] | None = None
    """Of ⟨x_j⟩: the sd of x_j given the other factors."""


@dataclass(frozen=True)
class Rows:
    """Observations of the factor that p₀ shall stand on, and the numbers of each, which are averaged."""

    observations: Observations
    numbers: Shaped[Tensor, "N T V"]

    def centre(self, name: str) -> Float[Tensor, "V"]:
        """Their mean, zero for labels: far from it, squares in single precision have no digits left for a spread."""
        there = torch.as_tensor(self.observations.present[name], device=self.numbers.device)
        mean = self.numbers[there].double().mean(0)
        return torch.zeros_like(mean) if self.observations.specs[name].is_label else mean

    def at(self, conditional: Conditional, centre: Float[Tensor, "V"]) -> Float[Tensor, "S A 2*V"]:
        """The numbers of every atom off the centre, and the squares of that."""
        own = (self.numbers - centre).to(conditional.eta)
        atoms = own.flatten(0, 1)[None] if len(conditional.eta) == 1 else own.transpose(0, 1)
        short = len(conditional.eta) - len(atoms)
        atoms = nn.functional.pad(atoms, (0, 0, 0, 0, 0, short)) if short > 0 else atoms[: len(conditional.eta)]
        return torch.cat([atoms, atoms.square()], -1)


@torch.no_grad()
def impute(
    model: FittedRPM,
    observations: Observations,
    name: str,
    *,
    rows: Rows | None = None,
    hide: bool = True,
    method: str = "auto",
    draws: int = DRAWS,
    nodes: int | None = None,
    seed: int = 0,
) -> Imputed:
    """p(x_j = atom m | the other factors), or with `rows` the mean and sd of x_j there.

    Args:
        model: fitted
        observations: new ones
        name: of the factor
        rows: observations of the factor that stand for its atoms; by default the atoms of the fit
        hide: whether the observations' own rows of the factor are hidden; if not, they are looked at where they are
            there, and what is found elsewhere is what was missed
        method: "quadrature" (one site, at most three latents or a circle), "importance" (draws of q with their
            weights), "q" (q taken for the posterior), or "auto"; finite latents are always summed over
        draws: of q, for what is drawn
        nodes: of the quadrature, along every latent
        seed: of the draws

    """
    if model.recogniser(name).curves() is not None:
        raise errors.population_predicts(name)
    hidden = {**observations.present, name: observations.present[name] & (not hide)}
    others = replace(observations, present=hidden)
    chosen = averaging(method, model, name, observations.n_sites, draws=draws, nodes=nodes, seed=seed)
    atoms = atoms_of_fit(model, name) if rows is None else atoms_on_rows(model, name, rows.observations)
    centre = None if rows is None else rows.centre(name)
    parts = []
    for inferred in model.posterior(others):
        here = conditional_on_atoms(model, name, atoms, inferred.batch.sites)
        contents = None if rows is None or centre is None else rows.at(here, centre)
        parts.append(_one_batch(model, name, inferred, chosen, here, contents).padded(observations.n_sites))
    found = _finished(parts, chosen, centre)
    fewest = float(found.effective.min()) if len(found.effective) else torch.inf
    if fewest < FEW:
        warnings.warn(errors.few_effective_draws(fewest, draws), stacklevel=2)
    return found


@dataclass(frozen=True)
class _Averages:
    """⟨·⟩ of a batch, its error, and where there are atoms."""

    mean: Float[Tensor, "N T V"]
    error: Float[Tensor, "N T V"]
    known: Float[Tensor, "N T 1"]
    effective: Float[Tensor, "N"]

    def padded(self, sites: int) -> "_Averages":
        """To so many sites."""
        missing = (0, 0, 0, sites - self.mean.shape[1])
        mean, error, known = (nn.functional.pad(each, missing) for each in (self.mean, self.error, self.known))
        return _Averages(mean, error, known, self.effective)


def _one_batch(
    model: FittedRPM,
    name: str,
    inferred: Inferred,
    chosen: Averaging,
    here: Conditional,
    contents: Float[Tensor, "S A V"] | None,
) -> _Averages:
    recogniser = model.recogniser(name)
    places = chosen.places(model, inferred, recogniser.targets, recogniser.family)
    shape = inferred.batch.sites.exists.shape
    mean, error = _averaged(here, places, contents, shape[1], chosen.is_drawn)
    coarser = chosen.coarser()
    if coarser is not None:
        fewer = coarser.places(model, inferred, recogniser.targets, recogniser.family)
        error = (mean - _averaged(here, fewer, contents, shape[1], False)[0]).abs()
    some = torch.isfinite(here.log_p0).any(-1).to(mean.dtype)
    return _Averages(mean, error, some[None, :, None].expand(*shape, 1), places.effective)


def _averaged(
    here: Conditional, places: Places, contents: Float[Tensor, "S A V"] | None, sites: int, is_drawn: bool
) -> tuple[Float[Tensor, "N T V"], Float[Tensor, "N T V"]]:
    """Σ_q share p(·|z_q) and its standard error, block by block of observations and places."""
    n, size = len(places.share), here.atoms if contents is None else contents.shape[-1]
    mean = places.share.new_zeros(n, sites, size)
    square, cross = (torch.zeros_like(mean) for _ in range(2)) if is_drawn else (mean, mean)
    for rows, block in _blocks(n, places.share.shape[-1], sites * here.atoms):
        t = places.t[:, :, block] if len(places.t) == 1 else places.t[rows, :, block]
        weights = here.weights(t)
        values = weights if contents is None else weights @ contents.to(weights)
        share = places.share[rows, :, block]
        mean[rows] += _contracted(share, values)
        if is_drawn:
            square[rows] += _contracted(share.square(), values.square())
            cross[rows] += _contracted(share.square(), values)
    if not is_drawn:
        return mean, torch.zeros_like(mean)
    total = places.share.square().sum(-1)[..., None]
    return mean, (square - 2.0 * mean * cross + mean.square() * total).clamp_min(0.0).sqrt()


def _contracted(share: Float[Tensor, "n #T q"], values: Float[Tensor, "#n #T q V"]) -> Float[Tensor, "n T V"]:
    """Σ_q share · values, without copies of what is the same for all observations."""
    if len(values) > 1 or len(share) == 1:
        return (share[..., None, :] @ values)[..., 0, :]
    if values.shape[1] == 1:
        return share @ values[0, 0]
    return (share.transpose(0, 1) @ values[0]).transpose(0, 1)


def _blocks(n: int, places: int, numbers: int) -> Iterator[tuple[slice, slice]]:
    """Observations and places whose pairs with all atoms are held at once."""
    together = max(1, min(places, PAIR_BUDGET // max(1, 4 * numbers)))
    at_once = max(1, PAIR_BUDGET // max(1, 4 * numbers * together))
    for row in range(0, n, at_once):
        for place in range(0, places, together):
            yield slice(row, row + at_once), slice(place, place + together)


def _finished(parts: list[_Averages], chosen: Averaging, centre: Float[Tensor, "V"] | None) -> Imputed:
    mean, error, known, effective = (
        torch.cat([getattr(part, each.name) for part in parts]) for each in fields(_Averages)
    )
    if centre is None:
        return Imputed(mean, error, effective, chosen.name)
    there = known > 0
    first, second = mean.chunk(2, -1)
    spread = (second - first.square()).clamp_min(0.0).sqrt()
    gaps = (torch.where(there, each, torch.nan) for each in (first + centre.to(first), error.chunk(2, -1)[0], spread))
    values, off, sd = gaps
    return Imputed(values, off, effective, chosen.name, sd)
