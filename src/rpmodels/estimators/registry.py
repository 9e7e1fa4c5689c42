"""Every estimator there is, by its name on the command line, and the one to begin with."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from rpmodels import errors
from rpmodels.estimators.base import RPMEstimator, concrete
from rpmodels.estimators.factor_analysis import RPFA
from rpmodels.estimators.gaussian_process import RPGPFA
from rpmodels.observations import adapters


def registered() -> dict[str, type[RPMEstimator]]:
    """The classes with a `description` of their own, those of other packages too once they are imported."""
    found: dict[str, type[RPMEstimator]] = {}
    for each in concrete().values():
        if "description" not in vars(each):  # somebody's variant of another estimator
            continue
        name = each.description.name
        if name in found:
            raise errors.name_taken(name, found[name].__name__, each.__name__)
        found[name] = each
    return dict(sorted(found.items()))


def estimator_named(name: str) -> type[RPMEstimator]:
    """The class of this name."""
    known = registered()
    if name not in known:
        raise errors.bad_choice("--model", known, name)
    return known[name]


def default_for(X: Any) -> RPMEstimator:
    """A few smooth latents for series, a few numbers for tables."""
    first = next(iter(X.values())) if isinstance(X, Mapping) else X
    levels = getattr(getattr(first, "index", None), "nlevels", 1)
    series = isinstance(first, list | adapters.Binned) or np.ndim(first) > 2 or levels > 1
    return RPGPFA(3) if series else RPFA(2)
