"""Moves out of poor optima, tried on the best run before it is trained to the end.

The usual poor optimum of a discrete latent holds two classes in one state and one class in two. What a
merger of two states would cost can be computed from the atoms (merging adds their f_j, F_j and π; exact
for fixed and maximum-likelihood π): about 0 nats for the halves of one class. So: merge the cheapest pair,
split the heaviest state with the freed one, train on, and keep the result only if its free energy is higher.
"""

from abc import ABC, abstractmethod
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from rpmodels.families import FiniteSupport
from rpmodels.learning.teaching import MANY, compact_features, k_means, teach
from rpmodels.model import RPM
from rpmodels.observations import Observations

SAMPLE = 10_000


class Move(ABC):
    """Changes a model into a rival that training may prefer."""

    patience: int = 1
    """Proposals that may fail in a row before no more are asked for."""

    def __init__(self, longest: int | None = None) -> None:
        self.longest = longest
        """Steps of the fit: a lesson takes a share of them."""

    @abstractmethod
    def __call__(self, model: Any, observations: Observations, seed: int, failed: int = 0) -> int | None:
        """Change the model in place; None, and no change, when there is nothing worth trying.

        The steps of its lesson are returned: they are counted in `max_iter`.

        `failed`: how many proposals in a row have failed, after which this should be another.
        """


class SplitMerge(Move):
    """Merge the two states that cost least, split the heaviest (after a failure the next)."""

    patience = 2

    def __call__(self, model: RPM, observations: Observations, seed: int, failed: int = 0) -> int | None:
        """Propose when the split could gain more than the merger costs."""
        if observations.n_sites != 1:
            return None
        observations = observations.some(MANY)
        part = _sample(observations, seed)
        terms = _log_terms(model, part)
        weights = torch.as_tensor(part.weights / part.weights.sum(), dtype=terms.whole.dtype, device=terms.whole.device)
        mass = weights @ torch.softmax(terms.whole, -1)
        cost, kept, freed = cheapest_merger(terms, weights)
        mass[[kept, freed]] = -1.0
        heavy = int(mass.argsort(descending=True)[min(failed, len(mass) - 1)])
        # Two equally large classes in one state: telling them apart gains mass · log 2 per further factor.
        gain = float(mass[heavy]) * np.log(2.0) * (len(model.names) - 1)
        if cost > gain:
            return None
        states = torch.softmax(_log_terms(model, observations).whole, -1).argmax(-1).cpu().numpy()
        states[states == freed] = kept
        members = np.flatnonzero(states == heavy)
        if len(members) < 2:
            return None
        features = compact_features(model, observations.subset(members), seed)
        halves = k_means(features, 2, seed)
        states[members[halves == 1]] = freed
        return teach(model, observations, states[:, None], seed, self.longest)


class Terms:
    """log p(k) ∏ f_j(k)/F_j(k) of every observation and state, and the parts that a merger changes.

    p(k) is one for all observations, (K,), or one for each, (N, K).
    """

    def __init__(self, log_prior: Tensor, log_f: list[Tensor], log_mixture: list[Tensor], have: list[Tensor]) -> None:
        self.log_prior, self.log_f, self.log_mixture, self.have = log_prior, log_f, log_mixture, have
        self.whole: Float[Tensor, "N K"] = log_prior + sum(
            torch.where(here[:, None], f - mixture, 0.0)
            for f, mixture, here in zip(log_f, log_mixture, have, strict=True)
        )

    def merged(self, a: int, b: int) -> Float[Tensor, "N"]:
        """The term of the state that a and b would be together."""
        pair = [a, b]
        total = torch.logsumexp(self.log_prior[..., pair], -1)
        for f, mixture, here in zip(self.log_f, self.log_mixture, self.have, strict=True):
            ratio = torch.logsumexp(f[:, pair], -1) - torch.logsumexp(mixture[pair], 0)
            total = total + torch.where(here, ratio, 0.0)
        return total


@torch.no_grad()
def _log_terms(model: RPM, observations: Observations) -> Terms:
    """All in the training form, F_j over these observations, in double precision."""
    family = cast(FiniteSupport, model.prior.family)
    weights = torch.as_tensor(observations.weights, device=model.device).double()
    log_f: dict[str, list[Tensor]] = {name: [] for name in model.names}
    for batch, factors in model.recognised(observations):
        references = model.references(batch.sites)
        for name, factor in factors.items():
            log_f[name].append(family.log_probabilities(references[name] + factor.g)[:, 0].double())
    joined = [torch.cat(parts) for parts in log_f.values()]
    have = [torch.as_tensor(observations.present[name][:, 0], device=model.device) for name in model.names]
    mixtures = []
    for f, here in zip(joined, have, strict=True):
        log_weight = (weights * here).log()[:, None]
        mixtures.append(torch.logsumexp(f + log_weight, 0) - torch.logsumexp(log_weight, 0))
    nothing = torch.zeros(1, 1, model.prior.family.natural_size, dtype=model.dtype, device=model.device)
    where = observations.batch(np.array([0]), model.dtype, model.device).sites
    log_prior = family.log_probabilities(model.prior.condition(nothing, where).eta)[0, 0].double()
    return Terms(log_prior, joined, mixtures, have)


def cheapest_merger(terms: Terms, weights: Float[Tensor, "N"]) -> tuple[float, int, int]:
    """(nats lost, state kept, state freed) over all pairs."""
    log_w = torch.logsumexp(terms.whole, -1)
    posterior = torch.softmax(terms.whole, -1)
    best = (np.inf, 0, 0)
    for a in range(posterior.shape[1]):
        for b in range(a):
            # W loses the terms of a and b and gains that of their union.
            share = posterior[:, a] + posterior[:, b]
            change = (1.0 - share + (terms.merged(a, b) - log_w).exp()).clamp_min(1e-300).log()
            best = min(best, (-float(weights @ change), a, b))
    return best


def _sample(observations: Observations, seed: int) -> Observations:
    if len(observations) <= SAMPLE:
        return observations
    picked: NDArray[Any] = np.random.default_rng(seed).choice(len(observations), SAMPLE, replace=False)
    return observations.subset(np.sort(picked))
