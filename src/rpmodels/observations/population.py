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


def are_counts(rows: NDArray[Any]) -> bool:
    """Whole numbers from nought up; NaN where one is missing."""
    if rows.dtype.kind in "bu" or not rows.size:
        return bool(rows.size)
    known = rows[np.isfinite(rows)]
    return bool((known >= 0).all()) and bool((known == np.round(known)).all())
