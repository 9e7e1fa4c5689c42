"""Split and merge where sites teach each other (topics of patches, states of a chain).

What the other sites say of a site stands where π stood in `moves`: log q(z_t) less the site's own potential. With it
a merger costs what it costs there, up to what its neighbours lose; and a heavy state is split by it, into sites
with one kind of company and sites with another. Both are proposals: training has the last word.
"""

from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels.carriers import Batch, Factor
from rpmodels.families import FiniteSupport
from rpmodels.learning.moves import SAMPLE, Move, Terms, cheapest_merger
from rpmodels.learning.teaching import MANY, k_means, teach
from rpmodels.model import RPM
from rpmodels.observations import Observations


class SplitMergeSites(Move):
    """Merge the two states that cost least, split the heaviest (then the next) by the company that its sites keep."""

    patience = 3

    def __call__(self, model: RPM, observations: Observations, seed: int, failed: int = 0) -> int | None:
        """Propose when the split could gain more than twice what the merger costs."""
        observations = observations.some(MANY)
        terms = site_terms(model, _some(observations, seed))
        weights = torch.full_like(terms.whole[:, 0], 1.0 / len(terms.whole))
        mass = weights @ torch.softmax(terms.whole, -1)
        cost, kept, freed = cheapest_merger(terms, weights)
        mass[[kept, freed]] = -1.0
        heavy = int(mass.argsort(descending=True)[min(failed, len(mass) - 1)])
        # Two equally large kinds in one state: telling them apart gains mass · log 2.
        if 2.0 * cost > float(mass[heavy]) * np.log(2.0):
            return None
        everywhere = site_terms(model, observations)
        found = everywhere.whole.argmax(-1).cpu().numpy()
        found[found == freed] = kept
        members = np.flatnonzero(found == heavy)
        if len(members) < 2:
            return None
        company = torch.softmax(everywhere.log_prior, -1).cpu().numpy()[members]
        found[members[k_means(company, 2, seed) == 1]] = freed
        states = np.zeros(observations.exists.shape, np.int64)
        states[observations.exists] = found
        return teach(model, observations, states, seed, self.longest)


@torch.no_grad()
def site_terms(model: RPM, observations: Observations) -> Terms:
    """log p(k) ∏_j f_j(k)/F_j(k) of every site that exists, p(k) being what the others make of it.

    F_j is pooled over sites, in double precision.
    """
    family = cast(FiniteSupport, model.prior.family)
    seen: list[tuple[Batch, dict[str, Factor], dict[str, Tensor]]] = []
    for batch, factors in model.recognised(observations):
        references = model.references(batch.sites)
        log_f = {name: family.log_probabilities(references[name] + each.g).double() for name, each in factors.items()}
        seen.append((batch, factors, log_f))
    mixtures = {name: _mixture(name, seen) for name in model.names}
    parts = []
    for batch, factors, log_f in seen:
        have = {name: factors[name].present for name in model.names}
        own = sum(torch.where(have[name][..., None], log_f[name] - mixtures[name], 0.0) for name in model.names)
        potentials = family.potential(cast(Tensor, own).to(model.dtype))
        others = torch.log_softmax(model.prior.condition(potentials, batch.sites).eta.double() - own, -1)
        there = batch.sites.exists
        parts.append((others[there], *(log_f[n][there] for n in model.names), *(have[n][there] for n in model.names)))
    others, *rest = (torch.cat(each) for each in zip(*parts, strict=True))
    count = len(model.names)
    return Terms(others, rest[:count], list(mixtures.values()), rest[count:])


def _mixture(name: str, seen: list[tuple[Batch, dict[str, Factor], dict[str, Tensor]]]) -> Float[Tensor, "K"]:
    """log F_j over every site where the factor is present, weighted."""
    rows = torch.cat([log_f[name][factors[name].present] for _, factors, log_f in seen])
    weights = [batch.weights[:, None].expand_as(factors[name].present) for batch, factors, _ in seen]
    used = torch.cat([w[factors[name].present] for w, (_, factors, _) in zip(weights, seen, strict=True)]).double()
    return torch.logsumexp(rows + used.log()[:, None], 0) - used.sum().log()


def _some(observations: Observations, seed: int) -> Observations:
    """As many observations as have `SAMPLE` sites."""
    count = max(1, round(SAMPLE / max(1.0, float(observations.exists.sum(1).mean()))))
    if count >= len(observations):
        return observations
    return observations.subset(np.sort(np.random.default_rng(seed).choice(len(observations), count, replace=False)))
