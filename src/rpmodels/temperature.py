"""How much the channels of a population are to be believed: as much as halves of them agree.

Where a posterior is right, that of a half A of the channels says how far that of all of them will be from it:
⟨(m − m_A)²⟩ = V_A − V. Where channels are surer than they may be (tuning that is no function of one projection, noise
that some of them share), halves of them are further apart. Weakened by a temperature τ < 1, q ∝ p ∏_c (f_c/F_c)^τ, they
say what their agreement allows. No labels are asked for; what all channels share cannot be told from latents by this.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from rpmodels.carriers import Factor, Factors
from rpmodels.families import Gaussian
from rpmodels.fitted import FittedRPM
from rpmodels.inference import EStep
from rpmodels.observations import Observations

HALVES = 8
"""Drawn at random, the same whatever the seed of a fit."""
WORK = 2**16
"""Channels of all sites that are looked at."""
FEWEST = 4
"""Channels that can be halved."""
LOWEST = 0.05
STEPS = 2
"""Of the search between it and one."""


@torch.no_grad()
def found_temperature(model: FittedRPM, observations: Observations) -> float:
    """The highest τ ≤ 1 at which halves differ by no more than they say; 1 where there is no population."""
    names = [name for name, each in model.pattern.recognisers() if each.curves() is not None]
    channels = sum(observations.specs[name].event_shape[0] for name in names)
    e_step = model.pattern.e_step.for_new_data()
    if channels < FEWEST or e_step.tempered(LOWEST) is e_step:
        return 1.0
    sites = observations.exists.sum(1)
    enough = int(np.searchsorted(np.cumsum(sites) * channels, WORK)) + 1
    some = observations.subset(_spread(len(observations), enough))
    known = [(0.0, _excess(model, some, names, e_step, 1.0))]
    if known[0][1] <= 0.0:
        return 1.0
    # By secants, log excess being nearly straight in log τ, and about as steep as it.
    place = -known[0][1]
    for _ in range(STEPS):
        place = min(max(place, math.log(LOWEST)), 0.0)
        known.append((place, _excess(model, some, names, e_step, math.exp(place))))
        (before, high), (now, low) = known[-2:]
        if now == before or high == low:
            break
        place = now - low * (now - before) / (low - high)
    return math.exp(min(max(place, math.log(LOWEST)), 0.0))


def _spread(total: int, count: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """So many of all, evenly."""
    return np.unique(np.linspace(0, total - 1, min(total, count)).round().astype(np.int64))


@torch.no_grad()
def _excess(model: FittedRPM, observations: Observations, names: list[str], e_step: EStep, temperature: float) -> float:
    """log of Σ (m − m_A)² over Σ (V_A − V), over halves, sites and latents."""
    family, chosen = model.prior.family, e_step.tempered(temperature)
    assert isinstance(family, Gaussian)
    approximation = model.pattern.expected_log_mixture.for_new_data()
    apart = stated = 0.0
    generator = torch.Generator().manual_seed(0)
    for inferred in model.posterior(observations, chosen):
        exists = inferred.batch.sites.exists
        mean, variance = _moments(family, inferred.posterior.eta)
        for factors in _halves(inferred.factors, names, generator):
            half = chosen(replace(inferred.step, factors=factors), approximation)
            half_mean, half_variance = _moments(family, half.eta)
            apart += float((mean - half_mean)[exists].square().sum())
            stated += float((half_variance - variance)[exists].sum())
    return float(np.log(max(apart, 1e-300) / max(stated, 1e-300)))


def _moments(family: Gaussian, eta: Tensor) -> tuple[Tensor, Tensor]:
    return family.moments(eta)[0], family.covariance(eta).diagonal(dim1=-2, dim2=-1)


def _halves(factors: Factors, names: list[str], generator: torch.Generator) -> Iterator[Factors]:
    """With half of the channels of every population."""
    for _ in range(HALVES):
        drawn = dict(factors)
        for name in names:
            channels = factors[name].channels
            assert channels is not None
            count = channels.present.shape[-1]
            heard = torch.zeros(count, dtype=torch.bool)
            heard[torch.randperm(count, generator=generator)[: (count + 1) // 2]] = True
            drawn[name] = _only(factors[name], heard.to(channels.present.device))
        yield drawn


def _only(factor: Factor, heard: Bool[Tensor, "C"]) -> Factor:
    """As if the other channels were missing."""
    channels = factor.channels
    assert channels is not None
    there = channels.present & heard
    a, b = (torch.where(there, each, 0.0) for each in (channels.a, channels.b))
    return replace(
        factor, g=channels.curves.potential(a, b), present=factor.present & there.any(-1),
        channels=replace(channels, a=a, b=b, present=there),
    )  # fmt: skip
