"""Posterior-predictive checks: statistics of data beside those of data that the model itself draws.

A factor is seen through what it says of its latents (means of f_j, probabilities of states), a population through the
numbers of its channels. Draws are of (Z, X) at the same sites, with the same rows missing (eq 2).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import t as student
from torch import Tensor

from rpmodels.carriers import Factor, Sites
from rpmodels.families import Discrete, Family, Gaussian
from rpmodels.fitted import FittedRPM
from rpmodels.generative.conditional import Conditional, conditional_on_atoms
from rpmodels.generative.samples import observed
from rpmodels.mixtures import PopulationMixture
from rpmodels.observations import Observations
from rpmodels.recognition import ChannelCurves

REPLICATES = 32
MOST_ATOMS, MOST_SITES = 1024, 2048
"""Of every factor, and of a replicate: more are thinned out."""
SMALLEST = 1e-4
"""Variance that counts: a factor that shows less says nothing."""
LEAST = 0.1
"""Of correlations: the scale of differences between small ones."""


@dataclass(frozen=True)
class Seen:
    """What one factor shows at every site: numbers, and where they are there."""

    values: Float[Tensor, "N T K"]
    there: Float[Tensor, "N T K"]

    @property
    def count(self) -> Float[Tensor, "K"]:
        """Sites that have the number."""
        return self.there.sum((0, 1)).clamp_min(1.0)

    @property
    def mean(self) -> Float[Tensor, "K"]:
        """Over all sites."""
        return (self.values * self.there).sum((0, 1)) / self.count

    @property
    def centred(self) -> Float[Tensor, "N T K"]:
        """Off the mean, zero where nothing is."""
        return (self.values - self.mean) * self.there

    @property
    def variance(self) -> Float[Tensor, "K"]:
        """Over all sites."""
        return self.centred.square().sum((0, 1)) / self.count

    @property
    def standardised(self) -> Float[Tensor, "N T K"]:
        """With unit variance where there is some."""
        return self.centred / self.variance.clamp_min(SMALLEST).sqrt()

    def correlations(self, other: "Seen") -> Float[Tensor, "K L"]:
        """With another factor at the same sites."""
        counts = torch.einsum("ntk,ntl->kl", self.there, other.there).clamp_min(1.0)
        return torch.einsum("ntk,ntl->kl", self.standardised, other.standardised) / counts

    @property
    def neighbours(self) -> Float[Tensor, ""]:
        """Correlation of neighbouring sites, averaged over the numbers."""
        pairs = (self.there[:, 1:] * self.there[:, :-1]).sum((0, 1)).clamp_min(1.0)
        return ((self.standardised[:, 1:] * self.standardised[:, :-1]).sum((0, 1)) / pairs).mean()


@dataclass(frozen=True)
class Check:
    """One statistic of the data, and of draws of the model."""

    what: str
    """In words."""
    data: float
    draws: float
    """On average."""
    sd: float
    """Of the draws, widened by what the number of rows in the fit leaves uncertain."""
    probability: float
    """That draws are as far off, two-sided, times the number of statistics."""
    share: float
    """How far off, relative to the statistic's own scale."""


@torch.no_grad()
def predictive_checks(
    model: FittedRPM, observations: Observations, *, replicates: int = REPLICATES, seed: int = 0
) -> list[Check]:
    """Means and variances of what every factor shows; correlations of factors, of channels, of neighbouring sites."""
    part = observations.some(max(2, MOST_SITES // observations.n_sites))
    sites = part.sites(model.device)
    generator = torch.Generator(model.device).manual_seed(seed)
    # Where p₀ is a density its draws are as good as observations: none of them is asked for by number.
    given = {name: _thinned(conditional_on_atoms(model, name, model.atoms(name), sites), generator)
             for name in model.names if not isinstance(model.summary(name), PopulationMixture)}  # fmt: skip
    data = _of_the_data(model, part, given)
    found = dict(_statistics(model, data))
    drawn: dict[str, list[float]] = {what: [] for what in found}
    for _ in range(replicates):
        again = {name: Seen(each, data[name].there) for name, each in _replicate(model, sites, given, generator)}
        for what, (value, _) in _statistics(model, again):
            drawn[what].append(value)
    known = min([here.atoms for here in given.values()], default=model.n_observations)
    asked = part.exists.sum() if given and model.pattern.atoms.shared else len(part)
    wider = float(np.sqrt(1.0 + float(asked) / known))
    return [_checked(what, *found[what], drawn[what], wider, len(found)) for what in found]


def _checked(what: str, data: float, scale: float, drawn: list[float], wider: float, count: int) -> Check:
    values = np.array(drawn)
    sd = max(float(values.std(ddof=1)), 1e-12) * wider
    off = abs(data - float(values.mean()))
    probability = min(1.0, 2.0 * float(student.sf(off / sd, len(values) - 1)) * count)
    return Check(
        what, data, float(values.mean()), sd, probability, off / max(scale, float(np.abs(values).mean()) * 1e-3)
    )


# ---- what is compared ---------------------------------------------------------------------------------


def _statistics(model: FittedRPM, seen: Mapping[str, Seen]) -> Iterator[tuple[str, tuple[float, float]]]:
    """Statistics by their words, each with the scale that a difference is measured by."""
    for name, each in seen.items():
        variances = each.variance.tolist()
        called = _called(model, name)
        for k, (mean, variance) in enumerate(zip(each.mean.tolist(), variances, strict=True)):
            scale = max(variance, SMALLEST)
            yield f"the mean of {called} {k} as factor '{name}' shows it", (mean, scale**0.5)
            yield f"the variance of {called} {k} as factor '{name}' shows it", (variance, scale)
        if each.values.shape[1] > 1:
            yield f"the correlation of neighbouring sites of factor '{name}'", _related(each.neighbours)
        if called == "channel" and len(variances) > 1:
            own = each.correlations(each)
            yield f"the correlation between channels of factor '{name}'", _related(own - torch.diag(own.diagonal()))
    for (name, one), (beside, other) in combinations(seen.items(), 2):
        yield f"the correlation between factors '{name}' and '{beside}'", _related(one.correlations(other))


def _called(model: FittedRPM, name: str) -> str:
    """What the numbers of a factor are numbers of."""
    if isinstance(model.summary(name), PopulationMixture):
        return "channel"
    family = model.recogniser(name).family
    return "latent" if isinstance(family, Gaussian) else "state" if isinstance(family, Discrete) else "coordinate"


def _related(correlations: Float[Tensor, "*K"]) -> tuple[float, float]:
    """Correlations as one number, √ of their mean square, or the one there is with its sign; and its scale."""
    size = float(correlations if correlations.ndim == 0 else correlations.square().mean().sqrt())
    return size, max(abs(size), LEAST)


def _of_the_data(model: FittedRPM, part: Observations, given: Mapping[str, Conditional]) -> dict[str, Seen]:
    """What the factors show of these observations, where they are there and the model has atoms."""
    batches: dict[str, list[Factor]] = {name: [] for name in model.names}
    references: dict[str, list[Tensor]] = {name: [] for name in model.names}
    for batch, factors in model.pattern.recognised(part):
        for name, reference in model.pattern.references(batch.sites).items():
            batches[name].append(factors[name])
            references[name].append(reference)
    found = {}
    for name in model.names:
        family = model.recogniser(name).family
        if name not in given:
            values, there = _channels(model, name, part)
        else:
            joint = Factor.joined(batches[name], part.n_sites)
            longest = max(references[name], key=len)
            values = _said(family, longest + joint.g[:, : part.n_sites])
            known = torch.isfinite(given[name].log_p0).any(-1)
            there = (joint.present & known)[..., None].expand_as(values).to(values.dtype)
        found[name] = Seen(values, there)
    return found


def _said(family: Family, eta: Float[Tensor, "*b D"]) -> Float[Tensor, "*b K"]:
    """Means of Gaussian latents, otherwise of t(z): probabilities of states, cosine and sine."""
    return family.moments(eta)[0] if isinstance(family, Gaussian) else family.mean(eta)


def _channels(model: FittedRPM, name: str, part: Observations) -> tuple[Float[Tensor, "N T C"], Float[Tensor, "N T C"]]:
    """Numbers of a population, and where they are there."""
    values = torch.as_tensor(np.asarray(part.values[name], np.float64), device=model.device)
    present = torch.as_tensor(part.present[name], device=model.device)[..., None]
    there = torch.isfinite(values) & present
    return torch.where(there, values, 0.0), there.double()


# ---- what the model draws -----------------------------------------------------------------------------


def _replicate(
    model: FittedRPM, sites: Sites, given: Mapping[str, Conditional], generator: torch.Generator
) -> Iterator[tuple[str, Float[Tensor, "N T K"]]]:
    """What every factor shows of one draw."""
    z = model.prior.sample(sites, generator)
    for name in model.names:
        index = observed(model, name, z, sites, generator, given.get(name))
        population = model.summary(name)
        if isinstance(population, PopulationMixture):
            curves = cast(ChannelCurves, model.recogniser(name).network)
            grid = curves.grid.values.to(index.device)
            yield name, grid.expand(*index.shape, -1).gather(-1, index[..., None])[..., 0]
            continue
        said = _said(given[name].family, given[name].eta)
        site = torch.arange(index.shape[1], device=index.device) if len(said) > 1 else torch.zeros_like(index[0])
        yield name, said[site, index.clamp_min(0)]


def _thinned(here: Conditional, generator: torch.Generator) -> Conditional:
    """At most so many atoms, the same at all sites."""
    if here.atoms <= MOST_ATOMS:
        return here
    usable = torch.isfinite(here.log_p0).any(0).nonzero()[:, 0]
    order = torch.randperm(len(usable), generator=generator, device=usable.device)
    chosen = usable[order[:MOST_ATOMS]]
    total = torch.logsumexp(here.log_p0[:, chosen], -1, keepdim=True).nan_to_num(neginf=0.0)
    return replace(here, eta=here.eta[:, chosen], log_p0=here.log_p0[:, chosen] - total)
