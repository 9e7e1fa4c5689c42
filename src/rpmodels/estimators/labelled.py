"""Factors of labels that say p(label | state) themselves: what `rp.Pinned` and `rp.Generative` stand for."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rpmodels import checks, errors
from rpmodels.observations import Generative, Observations, Pinned
from rpmodels.recognition import GenerativeTable, pinned_table

Given = Mapping[str, Any] | None


def tables(factors: Given, observations: Observations, states: Mapping[str, int]) -> dict[str, GenerativeTable]:
    """Of every factor that was said to have one, with the (joint) states that it speaks of."""
    found = {}
    for name, said in _said(factors).items():
        if name not in observations.specs:
            raise errors.unknown_factor(name, list(observations.specs))
        vocabulary = observations.specs[name].vocabulary
        if vocabulary is None:
            raise errors.no_labels(name, type(said).__name__)
        known = None
        if isinstance(said, Pinned):
            error = checks.number(f"the error of factor '{name}'", said.error, least=0.0, below=1.0)
            known = pinned_table(name, states[name], len(vocabulary), error, said.table)
        have = observations.present[name]
        weights = np.broadcast_to(observations.weights[:, None], have.shape)[have]
        codes = np.asarray(observations.values[name])[have]
        found[name] = GenerativeTable.of(codes, weights, len(vocabulary), states[name], known)
    return found


def refuse(factors: Given, latents: str) -> None:
    """Where latents are no states."""
    for name, said in _said(factors).items():
        raise errors.labels_need_states(name, type(said).__name__, latents)


def is_pinned(factors: Given) -> bool:
    """Whether labels say which state is which."""
    return any(isinstance(each, Pinned) for each in _said(factors).values())


def _said(factors: Given) -> dict[str, Pinned | Generative]:
    return {str(name): each for name, each in (factors or {}).items() if isinstance(each, Pinned | Generative)}
