"""log W(X), the exact log-likelihood ratio behind the free energy (eq 4): by quadrature, or by importance sampling.

log W = log ∫ p(Z) ∏_jt f_j/F_j dZ. The free energy is a bound of it; these are the number itself, with its error.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rpmodels import checks, integration
from rpmodels.fitted import FittedRPM
from rpmodels.observations import Observations


@dataclass(frozen=True)
class LogWeight:
    """log W of every observation in nats, with the standard error of each.

    By quadrature that is the difference from twice as many nodes (along every latent).
    """

    values: NDArray[np.float64]
    standard_error: NDArray[np.float64]
    effective_samples: NDArray[np.float64]


def by_method(
    method: str, model: FittedRPM, observations: Observations, draws: int, nodes: int, seed: int
) -> LogWeight:
    """By the name of the method: "importance" or "quadrature"."""
    checks.Word("importance", "quadrature").check("method", method)
    if method == "quadrature":
        return by_quadrature(model, observations, nodes)
    return importance(model, observations, draws, torch.Generator(model.device).manual_seed(seed))


@torch.no_grad()
def importance(model: FittedRPM, observations: Observations, draws: int, generator: torch.Generator) -> LogWeight:
    """From `draws` joint samples of q: unbiased for W; the standard error is that of log W by the delta method."""
    checks.integer("draws", draws, 2, integration.MOST_DRAWS)
    logs, spreads, sizes = [], [], []
    for each in model.posterior(observations):
        weights = torch.stack([integration.drawn(model.prior.family, each, generator)[1] for _ in range(draws)])
        top = torch.logsumexp(weights, 0)
        logs.append(top - math.log(draws))
        shares = (weights - top).exp()
        sizes.append(1.0 / shares.square().sum(0))
        spreads.append((shares * draws).std(0) / math.sqrt(draws))
    return LogWeight(*(torch.cat(each).double().cpu().numpy() for each in (logs, spreads, sizes)))


@torch.no_grad()
def by_quadrature(model: FittedRPM, observations: Observations, nodes: int) -> LogWeight:
    """For one site per observation and priors with a density.

    On a grid over the whole space of the latent where its family has one, else Gauss–Hermite around q, for at most
    three latents.
    """
    integration.check_grid(model, observations.n_sites, nodes)
    logs = []
    for each in model.posterior(observations):
        rules = [integration.on_a_grid(model.prior, each, count)[1] for count in (nodes, 2 * nodes)]
        logs.append(torch.stack([torch.logsumexp(rule, -1) for rule in rules]))
    values, finer = torch.cat(logs, 1).double().cpu().numpy()
    return LogWeight(values, np.abs(values - finer), np.full_like(values, np.inf))
