"""What a user says of a factor beside its numbers, and what its numbers say."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

FEWEST = 8
"""Channels that are a population by themselves: fewer say too little of what they share."""


@dataclass(frozen=True)
class Population:
    """A factor whose channels are recognised one by one: `factors={"spikes": rp.Population()}`.

    Args:
        columns: which columns of one array it has; None where data are named

    """

    columns: Any = None


@dataclass(frozen=True)
class Pinned:
    """A factor of labels whose p(label | state) is known, so that states mean them: `{"label": rp.Pinned()}`.

    State k has label k mod L, in the order of the labels (of K = L states each has its own); or a table says so.

    Args:
        columns: which column of one array it has; None where data are named
        error: probability of another label than that of the state
        table: p(label | state) instead, (K, L); of several latents K are the joint states that the factor speaks of

    """

    columns: Any = None
    error: float = 1e-5
    table: Any = None


@dataclass(frozen=True)
class Generative:
    """A factor of labels whose p(label | state) is learned, beside others that recognise: `{"label": rp.Generative()}`.

    Args:
        columns: which column of one array it has; None where data are named

    """

    columns: Any = None


SAID_OF_FACTORS = (Population, Pinned, Generative)
"""What may stand for a factor's columns."""


def are_counts(rows: NDArray[Any]) -> bool:
    """Whole numbers from nought up; NaN where one is missing."""
    if rows.dtype.kind in "bu" or not rows.size:
        return bool(rows.size)
    known = rows[np.isfinite(rows)]
    return bool((known >= 0).all()) and bool((known == np.round(known)).all())
