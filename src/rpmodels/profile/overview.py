"""Where channels and trials of data are beside those of the fit: what a picture shows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from rpmodels.observations import Observations
from rpmodels.profile.comparing import compared
from rpmodels.profile.departure import Departure
from rpmodels.profile.profile import Profile
from rpmodels.profile.shown import known_mean

BAND = 2.0
"""Sds of trials of the fit, which a band shows."""


@dataclass(frozen=True)
class Overview:
    """Of one factor, on the scale of the fit."""

    factor: str
    means: Float[np.ndarray, "C"]
    """Of every channel; 0 in the fit."""
    spreads: Float[np.ndarray, "C"]
    """Sds; 1 in the fit."""
    levels: Float[np.ndarray, "N"]
    """Means of the trials (or of their pieces)."""
    usual: tuple[float, float]
    """Between these most trials of the fit are."""
    channels: tuple[int, ...]
    """Those that do not belong."""
    trials: tuple[int, ...]


def overviews(profile: Profile, observations: Observations, found: Sequence[Departure]) -> list[Overview]:
    """Of every factor that is there; those that do not belong by what was found."""
    shown, trial, _ = compared(profile, observations)
    parts = []
    for name, each in shown.items():
        own = [departure for departure in found if departure.factor in (name, None)]
        odd = {n for departure in own for n in departure.trials}
        sketch = profile.factors[name].sketches["TrialLevel"]
        middle, sd = float(sketch.quantiles[3, 0]), float(np.sqrt(sketch.variance[0]))
        centred = each.values - known_mean(each.values, (0, 1))
        parts.append(
            Overview(
                name,
                known_mean(each.values, (0, 1)),
                np.sqrt(known_mean(np.square(centred), (0, 1))),
                known_mean(each.values, (1, 2)),
                (middle - BAND * sd, middle + BAND * sd),
                tuple(sorted({c for departure in own if departure.factor == name for c in departure.channels})),
                tuple(np.flatnonzero(np.isin(trial, list(odd))).tolist()),
            )
        )
    return parts
