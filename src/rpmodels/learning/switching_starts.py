"""Where dynamics that switch begin, and how they are tried anew: clusters of steps, then EM on the latents.

Steps that begin and lead alike on average over their neighbours are a state at first: around a place that is all that
an affine map says. From these clusters EM of regressions along a Markov chain goes on, and of several tries
the most probable one is taken. What it finds is where learning begins, or a rival that training may prefer.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import one_hot, pad

from rpmodels import linalg
from rpmodels.carriers import Sites
from rpmodels.families import Gaussian
from rpmodels.inference import summed_potentials
from rpmodels.learning.moves import Move
from rpmodels.learning.series_clusters import averaged, gaussian
from rpmodels.learning.starts import Lesson, SmoothStart, Start
from rpmodels.learning.teaching import MANY, features, k_means
from rpmodels.model import RPM
from rpmodels.observations import Observations
from rpmodels.priors import SwitchingDynamicsPrior
from rpmodels.priors.regimes import Counted, of_path
from rpmodels.recognition import MLP

TRIES = 6
"""Of EM, each from clusters of its own."""
STEPS = 30
"""Of EM."""
WIDTHS = (1.0, 2.0, 4.0)
"""Sites (sd of a Gaussian) that a local regression sees, in turn."""
RIDGE = 1.0
"""Squares that regressions of the latents have beside those of the data, in units of scaled inputs."""
LEAST = 1e-4
"""Variance that they leave over at least, of latents whose variance is one."""
STAY = 0.9
"""Probability of staying where EM begins."""


class SwitchingStart(SmoothStart):
    """Smooth latents, with the dynamics that they are told apart by."""

    name = "GPFA, switching"

    def find(self, model: RPM, observations: Observations, seed: int) -> Lesson | None:
        """Of covariance I, as the reference has it."""
        lesson = super().find(model, observations, seed)
        if lesson is None:
            return None
        there = lesson.observations.exists
        z = lesson.latents[there]
        values, vectors = np.linalg.eigh(np.cov(z.T).reshape(z.shape[1], z.shape[1]))
        white = vectors / np.sqrt(np.maximum(values, 1e-3 * values.max())) @ vectors.T
        return replace(lesson, latents=(lesson.latents - z.mean(0)) @ white * there[..., None])

    def begin(self, model: RPM, lesson: Lesson | None, seed: int) -> int | None:
        """The states, then the lesson; of linear maps its end."""
        if lesson is None:
            return super().begin(model, lesson, seed)
        regroup(cast(SwitchingDynamicsPrior, model.prior), lesson.latents, _sites(lesson.observations), seed)
        taken = super().begin(model, lesson, seed)
        regress(model, lesson)
        return taken


@torch.no_grad()
def regress(model: RPM, lesson: Lesson) -> None:
    """Linear networks of numbers at the end of their lesson: the regression of the latents, and what it leaves over.

    Latents that are known to a hundredth have natural parameters in thousands, which steps are slow to reach; and where
    sites say little, states that differ little become one.
    """
    observations, family = lesson.observations, cast(Gaussian, model.prior.family)
    reference = model.prior.reference(observations.sites(model.device), True)
    for name, recogniser in model.recognisers():
        network = recogniser.network
        if not isinstance(network, MLP) or network.hidden or recogniser.family.natural_size != family.natural_size:
            continue
        have = observations.present[name].reshape(-1)
        x = torch.as_tensor(features(model, observations, [name])[0][0][have]).double()
        z = torch.as_tensor(lesson.latents.reshape(len(have), -1)[have]).double()
        rows = torch.cat([x, torch.ones_like(x[:, :1])], 1)
        squares = rows.mT @ rows + RIDGE * torch.eye(rows.shape[1]).to(rows)
        maps = linalg.inverse_and_log_det(squares, "what a linear map sees")[0] @ (rows.mT @ z)
        off = z - rows @ maps
        left = off.mT @ off / len(off) + LEAST * torch.eye(z.shape[1]).to(z)
        whole = family.natural(torch.zeros_like(z[:1]), family.spread(left[None, None])) - reference.double().cpu()
        raw = family.to_raw(whole)[0]
        precision = linalg.inverse_and_log_det(left, "what a linear map leaves over")[0]
        last = cast(nn.Linear, network[-1])
        last.weight.zero_()
        last.bias.copy_(raw)
        last.weight[: z.shape[1]].copy_((maps[:-1] @ precision).mT)
        last.bias[: z.shape[1]].copy_(maps[-1] @ precision)


class Grouped(Start):
    """Another start, and then the states by the latents that it has led to."""

    def __init__(self, start: Start) -> None:
        self.start, self.name = start, f"{start.name}, switching"
        self.taught = start.taught  # type: ignore[misc]

    def __call__(self, model: RPM, observations: Observations, seed: int) -> int | None:
        """One after the other."""
        taken = self.start(model, observations, seed)
        _regroup_by_model(model, observations, seed)
        return taken


class Regroup(Move):
    """The states found anew from the latents as the model sees them now."""

    patience = 2

    def __call__(self, model: RPM, observations: Observations, seed: int, failed: int = 0) -> int | None:
        """No lesson: what is recognised stays as it is."""
        _regroup_by_model(model, observations, seed)
        return 0


def _regroup_by_model(model: RPM, observations: Observations, seed: int) -> None:
    observations = observations.some(MANY)
    prior, start = cast(SwitchingDynamicsPrior, model.prior), 0
    z = np.zeros((*observations.exists.shape, prior.latents))
    for batch, factors in model.recognised(observations):
        with torch.no_grad():
            mean = prior.condition(summed_potentials(factors), batch.sites).latent_mean
        z[start : start + len(mean), : mean.shape[1]] = mean.cpu().numpy()
        start += len(mean)
    regroup(prior, z, _sites(observations), seed)


def _sites(observations: Observations) -> Sites:
    return observations.sites(torch.device("cpu"))


@torch.no_grad()
def regroup(prior: SwitchingDynamicsPrior, latents: NDArray[np.floating], sites: Sites, seed: int) -> float:
    """Let the dynamics and the transitions begin at what is found in these latents (N, T, K); its log p(Z)."""
    z = torch.as_tensor(np.asarray(latents, np.float64))
    found = max(_tries(prior, z, sites, seed), key=lambda each: each[0])
    device = prior.regimes.steps.device
    prior.regimes.restart(Counted(*(each.to(device) for each in found[1])))
    prior.chain.transition.restart(found[2].to(device))
    return found[0]


def _tries(
    prior: SwitchingDynamicsPrior, z: Float[Tensor, "N T K"], sites: Sites, seed: int
) -> Iterator[tuple[float, Counted, Tensor]]:
    there = sites.exists[:, 1:]
    u = of_path(z)
    for number in range(TRIES):
        width = WIDTHS[number % len(WIDTHS)]
        clusters = local_maps(z.numpy(), sites.exists.numpy(), prior.n_states, width, seed + number)
        weights = one_hot(torch.as_tensor(clusters), prior.n_states).double() * there[..., None]
        yield _climbed(prior, u, weights, sites)


def _climbed(
    prior: SwitchingDynamicsPrior, u: Float[Tensor, "N S E"], weights: Float[Tensor, "N S M"], sites: Sites
) -> tuple[float, Counted, Tensor]:
    """EM of regressions along a chain."""
    size, states = prior.latents, prior.n_states
    there, eye = sites.exists[:, 1:, None], torch.eye(states, dtype=torch.float64)
    transition = STAY * eye + (1.0 - STAY) / states
    initial = torch.full((states,), 1.0 / states, dtype=torch.float64).log()
    for _ in range(STEPS):
        counted = Counted.from_steps(weights.flatten(0, 1), u.flatten(0, 1), size)
        said = torch.where(there, u @ prior.regimes.most_probable(counted).natural().mT, 0.0)
        q = replace(
            prior.chain.condition(pad(said, (0, 0, 1, 0)), sites).stationary(),
            log_initial=initial,
            log_transition=transition.log(),
        )
        weights = q.mu[:, 1:] * there
        pairs = q.messages.pairs(torch.ones(len(u), dtype=torch.float64)) + eye  # as if each had stayed once
        transition = pairs / pairs.sum(-1, keepdim=True)
    return float(q.log_partition.sum()), Counted.from_steps(weights.flatten(0, 1), u.flatten(0, 1), size), transition


def local_maps(
    z: NDArray[np.float64], exists: NDArray[np.bool_], n_states: int, width: float, seed: int
) -> NDArray[np.int64]:
    """(N, T − 1) clusters of steps, by where they are and where they lead on average over some neighbours."""
    there = exists[:, 1:] & exists[:, :-1]
    steps = np.diff(z, axis=1)
    local = averaged(np.concatenate([z[:, :-1], steps], -1), there, gaussian(width))
    rows = local[there]
    spread = rows.std(0)
    found = np.zeros(there.shape, np.int64)
    if len(rows) >= n_states:
        found[there] = k_means(rows / np.where(spread > 0, spread, 1.0), n_states, seed, 1)
    return found
