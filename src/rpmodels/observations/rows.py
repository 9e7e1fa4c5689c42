"""One time of some series as it arrives, read by the checks of `read` and by none that only whole data need."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.observations.arrays import as_array
from rpmodels.observations.observations import FactorSpec
from rpmodels.observations.reading import _factor as factor_of
from rpmodels.observations.reading import _presence as presence_of

Row = tuple[NDArray[Any], NDArray[np.bool_]]
"""Values (N, 1, *event), zero where a factor is missing, and where it is there (N, 1)."""


def read_rows(
    rows: Mapping[str, Any],
    known: Mapping[str, FactorSpec],
    n_series: int | None,
    populations: Collection[str],
    presence: Mapping[str, Any] | None = None,
) -> dict[str, Row]:
    """What N series show at one time, in the order of the factors; those that show nothing are left out.

    Args:
        rows: {name: (N, *event)}; None: nothing of this factor has arrived
        known: the specs of the fitted model
        n_series: N; None: one, and rows are (*event)
        populations: factors whose rows may be partly NaN
        presence: {name: (N,) booleans}; rows that are all NaN are missing too

    """
    asked: Mapping[str, Any] = presence or {}
    for name in (*rows, *asked):
        if str(name) not in known:
            raise errors.unknown_factor(str(name), list(known))
    given = {str(name): value for name, value in rows.items() if value is not None}
    found: dict[str, Row] = {}
    for name, spec in known.items():
        if name not in given:
            continue
        array = as_array(name, given[name])
        if n_series is None:
            array = array[None]
        elif array.shape[:1] != (n_series,):
            expected = f"{n_series} rows, one for every series"
            raise errors.bad_value(f"factor '{name}'", expected, f"shape {array.shape}")
        there = np.ones((len(array), 1), bool)
        if name in asked:
            there = presence_of(name, np.atleast_1d(asked[name]), there)
        _, values, present = factor_of(name, array[:, None], there, spec, {} if name in populations else None)
        if present.any():
            found[name] = values, present
    return found
