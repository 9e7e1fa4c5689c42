"""What the generators of time series give back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Series:
    """Trials x (N, T, D), the latent path z (N, T, K) that made them, and the times (T,): 0, 1, 2, …"""

    x: NDArray[Any]
    z: NDArray[np.float64]
    times: NDArray[np.float64]
