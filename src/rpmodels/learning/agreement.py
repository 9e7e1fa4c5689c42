"""Whether independent starts have found the same: then no comparison between them can change what a fit returns.

Two starts have found the same when their scores differ by less than the noise of the difference, and their latents are
the same up to what is free in the model: the order of states, an orthogonal map of numbers.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from rpmodels import alignment
from rpmodels.families import FiniteSupport, Gaussian, JointStates
from rpmodels.fitted import FittedRPM
from rpmodels.learning.contenders import Contender
from rpmodels.learning.trainable import Model
from rpmodels.model import RPM
from rpmodels.observations import Observations

SAME = 0.95
"""R² of one start's latents from another's, or the share of equal states beyond chance, from which on they agree."""
BEYOND = 2.0
"""Standard errors by which a score must be higher to be better."""
SITES = 10_000
"""That are enough to tell."""


def independent(alive: Sequence[Contender[Model]]) -> Contender[Model] | None:
    """The best of those that the leader, which is the first, has nothing in common with: of two one may be taught."""
    leader, *others = alive
    return next((each for each in others if not (each.start.taught and leader.start.taught)), None)


def agreed(one: Contender[Model], other: Contender[Model], observations: Observations) -> float | None:
    """How far two starts agree; None where they do not, or where nothing tells."""
    difference, error = one.ahead_of(other)
    models = one.run.model, other.run.model
    if not abs(difference) <= BEYOND * error or not all(isinstance(each, RPM) for each in models):
        return None
    found = agreement(*models, observations.some(max(2, SITES // observations.n_sites)))  # type: ignore[arg-type]
    return found if found >= SAME else None


def agreement(one: RPM, other: RPM, observations: Observations) -> float:
    """Of the latents of the same observations: 1 where they are the same up to what is free, about 0 by chance."""
    found, reference = (_latents(each, observations) for each in (one, other))
    if isinstance(one.prior.family, JointStates):
        each = zip(one.prior.family.states, found.T.astype(np.int64), reference.T.astype(np.int64), strict=True)
        return min(_beyond_chance(a, b, size) for size, a, b in each)
    if isinstance(one.prior.family, FiniteSupport):
        return _beyond_chance(found.argmax(-1), reference.argmax(-1), found.shape[-1])
    aligned = alignment.align_latents(found, reference)
    total = float(np.square(reference - reference.mean(0)).sum())
    return 1.0 - float(np.square(aligned - reference).sum()) / total if total > 0 else 0.0


def _beyond_chance(states: NDArray[np.int64], reference: NDArray[np.int64], n_states: int) -> float:
    """Cohen's κ in the best order: one state for everything agrees with anything, and tells nothing."""
    matched = alignment.order_of(states, reference, n_states)[states]
    shares = [np.bincount(each, minlength=n_states) / len(each) for each in (matched, reference)]
    chance = float(shares[0] @ shares[1])
    equal = float((matched == reference).mean())
    return (equal - chance) / (1.0 - chance) if not math.isclose(chance, 1.0) else 0.0


@torch.no_grad()
def _latents(model: RPM, observations: Observations) -> Float[NDArray[np.float64], "n K"]:
    """Probabilities of states (of several latents the states), means of numbers (of angles their cosines and sines).

    Of every site that exists.
    """
    family, training = model.prior.family, model.training
    fitted = FittedRPM.collected(model.eval(), observations)
    parts = []
    for each in fitted.posterior(observations):
        posterior, exists = each.posterior, each.batch.sites.exists
        values = family.moments(posterior.eta)[0] if isinstance(family, Gaussian) else posterior.mu
        if isinstance(family, JointStates):
            values = family.most_probable(posterior.eta)
        parts.append(values[exists].double().cpu().numpy())
    model.train(training)
    return np.concatenate(parts)
