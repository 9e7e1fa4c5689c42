"""Long trials cut into shorter ones, for training in steps of bounded cost."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels.observations.observations import Observations


def windowed(observations: Observations, length: int) -> Observations:
    """Every trial in pieces of at most `length` sites, each with the weight of its trial and a clock of its own."""
    if observations.n_sites <= length:
        return observations
    exists = _pieces(observations.exists, length)
    # A trial without any site keeps one empty piece: trials do not vanish.
    first = np.tile(np.arange(len(exists) // len(observations)) == 0, len(observations))
    kept = np.flatnonzero(exists.any(1) | first)
    times = _pieces(observations.times, length)[kept]
    return Observations(
        observations.specs,
        {name: _pieces(np.asarray(values), length)[kept] for name, values in observations.values.items()},
        {name: _pieces(have, length)[kept] for name, have in observations.present.items()},
        times - times[:, :1],
        exists[kept],
        np.repeat(observations.weights, len(exists) // len(observations))[kept],
        observations.is_series,
        None if observations.u is None else _pieces(observations.u, length)[kept],
        observations.gaps,
    )


def _pieces(array: NDArray[Any], length: int) -> NDArray[Any]:
    """(N, T, …) as (N · pieces, length, …), padded with zeros at the end."""
    trials, sites = array.shape[:2]
    missing = -sites % length
    padding = [(0, 0), (0, missing)] + [(0, 0)] * (array.ndim - 2)
    whole = np.pad(array, padding) if missing else array
    return whole.reshape(trials * ((sites + missing) // length), length, *array.shape[2:])
