"""What a model says of every trial, a site: its score, how far q is from the prior, and how much each factor tells."""

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels.fitted import FittedRPM
from rpmodels.mixtures import AtomMixture
from rpmodels.observations import Observations
from rpmodels.profile import Told
from rpmodels.profile.trials import LOW_IS_BAD

PAIRS = 2**24
"""Of sites and atoms that are looked at in new data: of more, evenly spaced trials."""
DISTANCE = "KL of the posterior from the prior (nats a site)"

Array = NDArray[np.float64]


def told_of(model: FittedRPM, observations: Observations) -> Told:
    """Of new data, each trial by itself."""
    index = np.arange(len(observations))
    limit = max(1, int(len(index) * min(1.0, PAIRS / max(1, work(model, observations)))))
    if limit < len(index):
        index = np.linspace(0, len(index) - 1, limit).astype(np.int64)
    energies = model.free_energies(observations.subset(index))
    everywhere = np.full((2, len(observations)), np.nan)
    everywhere[:, index] = energies.values, -energies.prior.double().cpu().numpy()
    return told_by(model, observations, everywhere[0], everywhere[1])


def told_by(model: FittedRPM, observations: Observations, scores: Array, distances: Array) -> Told:
    """With scores and distances (N,) that are known already; where a factor is missing these are not compared."""
    exists = observations.exists
    sites = np.maximum(exists.sum(1), 1)
    whole = np.all([(have | ~exists).all(1) for have in observations.present.values()], axis=0)
    found = {LOW_IS_BAD: np.where(whole, scores / sites, np.nan), DISTANCE: np.where(whole, distances / sites, np.nan)}
    return found | {
        f"what factor '{name}' tells (nats a site)": each for name, each in _said(model, observations).items()
    }


@torch.no_grad()
def _said(model: FittedRPM, observations: Observations) -> dict[str, Array]:
    """KL of f_j from its reference, averaged over the sites at which a factor is; NaN where it is at none."""
    parts: dict[str, list[Array]] = {name: [] for name in model.names}
    for batch, factors in model.pattern.recognised(observations):
        references = model.pattern.references(batch.sites)
        for name, factor in factors.items():
            family, reference = model.recogniser(name).family, references[name]
            told = family.kl(reference + factor.g, reference).expand(factor.present.shape)
            count = factor.present.sum(1)
            mean = torch.where(factor.present, told, 0.0).sum(1) / count.clamp_min(1)
            parts[name].append(torch.where(count > 0, mean, torch.nan).double().cpu().numpy())
    return {name: np.concatenate(each) for name, each in parts.items()}


def work(model: FittedRPM, observations: Observations) -> int:
    """Pairs of sites and atoms, times what is done with each: numbers that a score of all of them goes through."""
    summaries = [model.summary(name) for name in model.names]
    atoms = sum(each.g.shape[1] for each in summaries if isinstance(each, AtomMixture))
    return int(model.pattern.expected_log_mixture.numbers_per_pair * atoms * int(observations.exists.sum()))
