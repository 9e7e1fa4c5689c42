"""Places of z with shares, for averages under p(Z | X): all states, a grid, weighted draws of q, or q itself."""

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import checks, errors, integration
from rpmodels.carriers import Targets
from rpmodels.families import Family, FiniteSupport, HasGrid, Reparametrised, Samplable
from rpmodels.fitted import FittedRPM, Inferred
from rpmodels.mixtures.quadrature import GaussHermite, hermite

NODES = {1: 96, 2: 24, 3: 12}
"""Of Gauss–Hermite, along each of so many latents."""
ON_A_CIRCLE = 512
DRAWS = 200
METHODS = ("auto", "quadrature", "importance", "q")


@dataclass(frozen=True)
class Places:
    """Q values of z for every site, and their shares of an average."""

    t: Float[Tensor, "#N #T Q d"]
    """t(z) of the latents that the factor speaks of."""
    share: Float[Tensor, "N #T Q"]
    effective: Float[Tensor, "N"]
    """So many independent draws are as good; ∞ where nothing was drawn."""


class Averaging(ABC):
    """One way to averages of a function of z_t under the posterior."""

    name: str
    is_drawn = False
    """Whether shares are those of draws, whose error is statistical."""

    @abstractmethod
    def places(self, model: FittedRPM, inferred: Inferred, targets: Targets, family: Family) -> Places:
        """For the latents of these targets, whose family it is."""

    def coarser(self) -> "Averaging | None":
        """The same with fewer nodes: the difference is its error. None where it has none, or a statistical one."""
        return None


class OverStates(Averaging):
    """The states of a finite latent, with their probabilities under q: exact wherever q is."""

    name = "sum over states"

    def places(self, model: FittedRPM, inferred: Inferred, targets: Targets, family: Family) -> Places:
        """Every state."""
        assert isinstance(family, FiniteSupport)
        share = family.log_probabilities(inferred.posterior.marginal(targets).eta).exp()
        t = family.statistic(family.values().to(model.device)).to(share.dtype)
        return Places(t[None, None], share, _nothing_drawn(share))


class OnAGrid(Averaging):
    """Quadrature of p(z) ∏ f_j/F_j: one site, at most three latents or a circle."""

    name = "quadrature"

    def __init__(self, nodes: int) -> None:
        self.nodes = checks.integer("nodes", nodes, 2, integration.MOST_ANGLES)

    def places(self, model: FittedRPM, inferred: Inferred, targets: Targets, family: Family) -> Places:
        """Nodes around q, or all around the circle."""
        z, log_weight = integration.on_a_grid(model.prior, inferred, self.nodes)
        share = torch.softmax(log_weight, -1)[:, None]
        return Places(targets.mean(model.prior.family.statistic(z)), share, _nothing_drawn(share))

    def coarser(self) -> "OnAGrid":
        """Two thirds of the nodes."""
        return OnAGrid(max(2, 2 * self.nodes // 3))


class Drawn(Averaging):
    """Importance sampling: joint draws of q, each with its weight p(Z) ∏ f_j/F_j / q(Z)."""

    name = "importance"
    is_drawn = True

    def __init__(self, draws: int, generator: torch.Generator) -> None:
        self.draws = checks.integer("draws", draws, 2, integration.MOST_DRAWS)
        self.generator = generator

    def places(self, model: FittedRPM, inferred: Inferred, targets: Targets, family: Family) -> Places:
        """As many for every observation, the same weights at all of its sites."""
        every = model.prior.family
        found = [integration.drawn(every, inferred, self.generator) for _ in range(self.draws)]
        share = torch.softmax(torch.stack([log_weight for _, log_weight in found], -1), -1)
        t = torch.stack([targets.mean(every.statistic(z)) for z, _ in found], 2)
        return Places(t.to(share.dtype), share[:, None], 1.0 / share.square().sum(-1))


class UnderQ(Averaging):
    """q at every site, taken for the posterior: nodes around it where that can be, else draws."""

    name = "q"

    def __init__(self, family: Family, nodes: int, draws: int, generator: torch.Generator) -> None:
        self.nodes = checks.integer("nodes", nodes, 1, integration.MOST_NODES)
        self.draws, self.generator = checks.integer("draws", draws, 2, integration.MOST_DRAWS), generator
        self.is_drawn = _dimensions(family) is None

    def places(self, model: FittedRPM, inferred: Inferred, targets: Targets, family: Family) -> Places:
        """For every site by itself; of several normals that q consists of, those of each with its share."""
        parts = []
        for of_q, member in inferred.posterior.members(targets):
            t, share = self._of_member(family, member.eta)
            parts.append((t, of_q.expand(member.eta.shape[:2])[..., None] * share))
        t, share = (torch.cat(each, 2) for each in zip(*parts, strict=True))
        effective = share.new_full((len(share),), float(self.draws)) if self.is_drawn else _nothing_drawn(share)
        return Places(t, share, effective)

    def _of_member(
        self, family: Family, eta: Float[Tensor, "N T d"]
    ) -> tuple[Float[Tensor, "N T Q d"], Float[Tensor, "#N #T Q"]]:
        if self.is_drawn:
            if not isinstance(family, Samplable):
                raise errors.needs_samples(type(family).__name__)
            z = family.sample(eta[:, :, None].expand(-1, -1, self.draws, -1), self.generator)
            return family.statistic(z).to(eta.dtype), eta.new_full((1, 1, self.draws), 1.0 / self.draws)
        if isinstance(family, HasGrid):
            t = family.statistic(integration.all_over(family, eta, self.nodes)[0])
            return t, torch.softmax((eta[:, :, None] * t).sum(-1), -1)
        assert isinstance(family, Reparametrised)
        points, share = hermite(self.nodes, family.noise_size(), eta)
        t = family.statistic(family.reparametrise(eta[:, :, None], points.expand(*eta.shape[:2], -1, -1)))
        return t, share.expand(1, 1, -1)

    def coarser(self) -> "UnderQ | None":
        """Two thirds of the nodes."""
        if self.is_drawn:
            return None
        fewer = copy.copy(self)
        fewer.nodes = max(2, 2 * self.nodes // 3)
        return fewer


def averaging(
    method: str, model: FittedRPM, name: str, sites: int, *, draws: int = DRAWS, nodes: int | None = None, seed: int = 0
) -> Averaging:
    """By the name of the method, or what suits the latents and the number of sites best ("auto").

    That is the sum over finite latents; quadrature for one site and at most three latents; else importance sampling
    for one site, and q itself along series, of which no draws are as probable as all that was seen demands.
    """
    checks.Word(*METHODS).check("method", method)
    every, own = model.prior.family, model.recogniser(name).family
    if isinstance(own, FiniteSupport):
        return OverStates()
    generator = torch.Generator(model.device).manual_seed(seed)
    if method == "auto":
        one = "importance" if _dimensions(every) is None else "quadrature"
        method = one if sites == 1 else "q"
    if method == "importance":
        return Drawn(draws, generator)
    if method == "q":
        return UnderQ(own, _usual_nodes(own) if nodes is None else nodes, draws, generator)
    chosen = OnAGrid(_usual_nodes(every) if nodes is None else nodes)
    integration.check_grid(model, sites, chosen.nodes)
    return chosen


def _dimensions(family: Family) -> int | None:
    """Over how many a grid integrates; None where there are too many, or none can be made."""
    if isinstance(family, HasGrid):
        return 1
    if not isinstance(family, Reparametrised) or family.noise_size() > GaussHermite.largest:
        return None
    return family.noise_size()


def _usual_nodes(family: Family) -> int:
    return ON_A_CIRCLE if isinstance(family, HasGrid) else NODES.get(_dimensions(family) or 1, NODES[3])


def _nothing_drawn(like: Float[Tensor, "N *more"]) -> Float[Tensor, "N"]:
    return like.new_full((len(like),), math.inf)
