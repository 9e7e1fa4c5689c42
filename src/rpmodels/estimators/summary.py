"""What a fitted estimator says of itself, under scikit-learn's line of its arguments."""

from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from rpmodels.observations import FactorSpec
from rpmodels.priors.process import ProcessPrior

MOST_FACTORS = 6
CHOICE = "channels"
"""The argument by which channels are recognised one by one or together."""
MOVE = " + move"
"""How the kind of a start ends that a move made out of another one."""


def text(estimator: Any, longest: int) -> str:
    """scikit-learn's representation, and a line about the fit where there was one."""
    usual = _usual(estimator, longest)
    return f"{usual}\n{fitted(estimator)}" if hasattr(estimator, "score_") else usual


def fitted(estimator: Any) -> str:
    """Score with its ceiling, inducing points, steps, starts, why training stopped, and what it was fitted to."""
    score = estimator.score_
    label = f", {score.label} score" if score.label else ""
    value = f"{float(score):.4g}{score.error}"
    parts = [
        f"fitted: {value} nats above independence per observation{label} (ceiling {score.ceiling:.4g})",
        f"{estimator.n_iter_} steps",
        starts(estimator.restarts_),
        f"stopped: {estimator.stop_reason_}",
    ]
    if isinstance(estimator.model_.prior, ProcessPrior):
        parts.insert(1, estimator.model_.prior.approach)
    found = _populations(estimator.model_)
    return f"{', '.join(parts)}; {factors(estimator.model_.specs, found, CHOICE in estimator.declared)}"


def starts(attempts: Sequence[Any]) -> str:
    """How many there were, and how far apart when they were first compared."""
    first = [each for each in attempts if not each.again and not each.kind.endswith(MOVE)]
    count = f"{len(first)} start{'s' * (len(first) != 1)}"
    values = np.array([each.free_energies[0] for each in first if each.free_energies])
    finite = values[np.isfinite(values)]
    if len(finite) < 2:
        return count
    same = [each for each in attempts if each.agreement is not None]
    agreed = f", two found the same at comparison {len(same[-1].free_energies)}" if same else ""
    return f"{count} (spread {np.ptp(finite):.2g} when first compared{agreed})"


def factors(specs: dict[str, FactorSpec], populations: Collection[str] = (), choice: bool = False) -> str:
    """Names with the shape of an observation, the number of its labels, or that of the channels of a population.

    Where there is a `choice`, of other vectors too: their channels are recognised together.
    """
    shapes = [f"{name} {_shape(spec, name in populations, choice)}" for name, spec in specs.items()]
    more = len(shapes) - MOST_FACTORS
    shown = shapes if more <= 0 else [*shapes[:MOST_FACTORS], f"and {more} more"]
    return f"factor{'s' * (len(shapes) != 1)} {', '.join(shown)}"


def _shape(spec: FactorSpec, population: bool, choice: bool) -> str:
    if spec.vocabulary is not None:
        return f"({len(spec.vocabulary)} labels)"
    if population:
        return f"({spec.event_shape[0]} channels, each by itself)"
    several = choice and len(spec.event_shape) == 1 and spec.event_shape[0] > 1
    return f"({spec.event_shape[0]} channels together)" if several else str(spec.event_shape)


def _populations(model: Any) -> list[str]:
    return [name for name, each in model.pattern.recognisers() if each.curves() is not None]


def _usual(estimator: Any, longest: int) -> str:
    """scikit-learn's own text. It breaks lines only for classes that have its __repr__, so a twin has it."""
    twin = object.__new__(_twin(estimator.__class__))
    vars(twin).update(estimator.get_params(deep=False))
    return str(BaseEstimator.__repr__(twin, longest))


@cache
def _twin(kind: Any) -> Any:
    """A class of the same name and arguments, with nothing of ours."""
    return type(kind.__name__, (BaseEstimator,), {"__init__": kind.__init__})
