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
WORK, TRIALS = 2**16, 10
"""Channels of all sites that are looked at, and observations at least."""
BEYOND = 2.0
"""Standard errors of the excess, from which on halves are said to disagree."""
NOTHING = 1e-6
"""Of the variance that channels take away, for every observation: rounding."""
FEWEST = 4
"""Channels that can be halved."""
LOWEST = 0.05
STEPS = 2
"""Of the search between it and one."""


@torch.no_grad()
def found_temperature(model: FittedRPM, observations: Observations) -> float:
    """The highest τ ≤ 1 at which halves differ by no more than they say, beyond the noise of so few observations.

    1 where there is no population; the E-step's own where it has one.
    """
    names = [name for name, each in model.pattern.recognisers() if each.curves() is not None]
    channels = sum(observations.specs[name].event_shape[0] for name in names)
    e_step = model.pattern.e_step.for_new_data()
    if channels < FEWEST or e_step.temperature != 1.0 or e_step.tempered(LOWEST) is e_step:
        return e_step.temperature
    usable = observations.subset(observations.usable())
    some = usable.some(max(TRIALS, int(WORK / (channels * usable.exists.sum(1).mean()))))
    excess, error = _excess(model, some, names, e_step, 1.0)
    if len(some) < 2 or excess <= BEYOND * error:
        return 1.0
    # By secants, log excess being nearly straight in log τ, and about as steep as it.
    known, place = [(0.0, excess)], -excess
    for _ in range(STEPS):
        place = min(max(place, math.log(LOWEST)), 0.0)
        known.append((place, _excess(model, some, names, e_step, math.exp(place))[0]))
        (before, high), (now, low) = known[-2:]
        if now == before or high == low:
            break
        place = now - low * (now - before) / (low - high)
    return math.exp(min(max(place, math.log(LOWEST)), 0.0))


@torch.no_grad()
def _excess(
    model: FittedRPM, observations: Observations, names: list[str], e_step: EStep, temperature: float
) -> tuple[float, float]:
    """log of Σ (m − m_A)² over Σ (V_A − V), over halves, sites and latents, and its standard error by observations."""
    family, chosen = model.prior.family, e_step.tempered(temperature)
    assert isinstance(family, Gaussian)
    approximation = model.pattern.expected_log_mixture.for_new_data()
    apart, stated = [], []
    generator = torch.Generator().manual_seed(0)
    for inferred in model.posterior(observations, chosen):
        exists = inferred.batch.sites.exists
        mean, variance = _moments(family, inferred.posterior.eta)
        sums = torch.zeros(2, len(exists), dtype=torch.float64)
        for factors in _halves(inferred.factors, names, generator):
            half = chosen(replace(inferred.step, factors=factors), approximation)
            half_mean, half_variance = _moments(family, half.eta)
            parts = ((mean - half_mean).square().sum(-1), (half_variance - variance).sum(-1))
            sums += torch.stack([torch.where(exists, each, 0.0).sum(-1).cpu().double() for each in parts])
        apart.append(sums[0])
        stated.append(sums[1])
    one, two = torch.cat(apart).numpy(), torch.cat(stated).numpy()
    # Channels that say nothing have nothing to agree on.
    if not two.sum() > NOTHING * len(two) or not one.sum() > 0.0:
        return 0.0, 0.0
    ratio = float(one.sum() / two.sum())
    error = float(np.sqrt(np.square(one - ratio * two).sum()) / one.sum())
    return math.log(ratio), error


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
