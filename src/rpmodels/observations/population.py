"""What a user says of a factor beside its numbers."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Population:
    """A factor whose channels are recognised one by one: `factors={"spikes": rp.Population()}`.

    Args:
        columns: which columns of one array it has; None where data are named

    """

    columns: Any = None
