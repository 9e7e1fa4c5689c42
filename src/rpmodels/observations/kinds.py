"""Which container somebody's object is, by its class: none of their packages is imported."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Clock = NDArray[np.float64]

DECIMALS = 9
"""Times are told apart, and edges of bins rounded, to the nanosecond, as in pynapple: 3 · 0.1 s is 0.3 s."""
TIME_NAMES = ("time", "times", "t")
TRIAL_NAMES = ("trial", "trials", "observation", "sample")
PACKAGES = ("xarray", "pandas", "pynapple", "neo", "pynwb", "rpmodels")
ONLY = {"pandas": ("DataFrame",), "rpmodels": ("Binned",)}
"""Of packages that have other classes too, which arrays are made of as they are."""
LISTS = ("neo.ObjectList", "neo.SpikeTrainList")


def kind_of(x: Any) -> str:
    """Such as "xarray.DataArray"; empty for everything that is no container."""
    for each in type(x).__mro__:  # classes of the user's own may inherit from a container
        package = each.__module__.partition(".")[0]
        if package in PACKAGES and each.__name__ in ONLY.get(package, (each.__name__,)):
            return f"{package}.{each.__name__}"
    return ""


def in_seconds(quantity: Any) -> Clock:
    """What knows its own unit."""
    return np.asarray(quantity.rescale("s").magnitude, np.float64)
