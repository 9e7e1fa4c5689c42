"""Trials that show nothing at all, and times at which nothing is shown, where that is no matter of chance."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rpmodels.profile.shown import Array, Shown

NATS = 12.0
"""−log of the chance that so many values are all zero, if each were by itself."""
LEAST_SHARE = 1e-4
"""Of zeros among the values of a trial that is not empty."""
STEADY = 0.35
"""Of the median trial, what the tenth of the trials with least shows at least: else silence is natural."""
DROPPED, USUAL = 0.2, 0.02
"""Share of empty sites that is remarkable, and that nine of ten trials of the fit stay below."""
FEWEST = 8
"""Sites of a trial in which some can be empty."""


@dataclass(frozen=True)
class Emptiness:
    """How much is shown in the trials of a fit that show something."""

    zeros: float
    """Share of the values that are zero."""
    steady: float
    """Values that are not zero: those of the lowest tenth of the trials over those of the median."""
    sites: float
    """Share of empty sites that nine of ten trials stay below."""

    @staticmethod
    def of(shown: Shown) -> "Emptiness":
        """Of the data of the fit."""
        known, zero = shown.known.sum((1, 2)), (shown.raw == 0.0).sum((1, 2))
        some = (known > 0) & ~_empty(shown)
        if not some.any():
            return Emptiness(1.0, 0.0, 1.0)
        low, middle = np.quantile((known - zero)[some] / known[some], [0.1, 0.5])
        sites = np.quantile(_share_of_empty_sites(shown)[some], 0.9)
        return Emptiness(float(zero[some].sum() / known[some].sum()), float(low / max(middle, 1e-12)), float(sites))

    def empty(self, shown: Shown, nats: float = NATS) -> NDArray[np.bool_]:
        """(N,): trials in which there is nothing, where that is as improbable as this."""
        if shown.scale.form == "labels" or self.steady < STEADY:
            return np.zeros(len(shown.raw), bool)
        known = shown.known.sum((1, 2))
        return np.asarray(_empty(shown) & (known * self._nats >= nats))

    def dropped(self, shown: Shown) -> tuple[NDArray[np.bool_], Array]:
        """(N,): trials of which a part is empty, and how large a part."""
        share = _share_of_empty_sites(shown)
        told = shown.n_sites >= FEWEST and shown.scale.form != "labels" and self.sites < USUAL
        enough = shown.n_channels * self._nats >= NATS
        return (share >= DROPPED) & ~_empty(shown) & (told and enough), share

    @property
    def _nats(self) -> float:
        return -float(np.log(np.clip(self.zeros, LEAST_SHARE, 1.0)))


def _empty(shown: Shown) -> NDArray[np.bool_]:
    """All zero; of numbers that are not counted also all equal."""
    known = shown.known
    filled = np.where(known, shown.raw, 0.0)
    zero = (filled == 0.0).all((1, 2))
    if not shown.scale.counted:
        first = np.where(known, shown.raw, -np.inf).max((1, 2))
        equal = np.where(known, shown.raw == first[:, None, None], True).all((1, 2))
        zero |= equal & (known.sum((1, 2)) > 2)
    return np.asarray(zero & known.any((1, 2)))


def _share_of_empty_sites(shown: Shown) -> Array:
    there = shown.known.any(2)
    empty = np.where(shown.known, shown.raw == 0.0, True).all(2) & there
    share: Array = empty.sum(1) / np.maximum(there.sum(1), 1)
    return share
