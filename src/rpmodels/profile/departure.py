"""One thing in which data do not belong to those of the fit, and how things are put into words."""

from collections.abc import Sequence
from dataclasses import dataclass

SHOWN = 6
"""Places that a sentence names."""


@dataclass(frozen=True)
class Departure:
    """Where data are other than those of the fit, by how much, and how sure that is."""

    name: str
    """Which kind, for programs."""
    text: str
    factor: str | None = None
    channels: tuple[int, ...] = ()
    trials: tuple[int, ...] = ()
    sites: tuple[int, ...] = ()
    """Of every trial."""
    z: float = 0.0
    """In standard errors, or robust sds of single trials; ±∞ where there is no chance of it."""
    probability: float = 0.0
    """By chance, all that was asked counted."""


def listed(what: str, numbers: Sequence[int], total: int | None = None) -> str:
    """Such as "3 of 60 trials (4, 17, 31)"."""
    plural = what if len(numbers) == 1 and total is None else f"{what}s"
    shown = ", ".join(str(each) for each in numbers[:SHOWN]) + (", …" if len(numbers) > SHOWN else "")
    return f"{len(numbers)}{'' if total is None else f' of {total}'} {plural} ({shown})"
