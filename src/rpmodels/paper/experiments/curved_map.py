"""From latents to positions by a polynomial: latents are found up to a smooth warp that no linear map undoes."""

from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

DEGREE = 5


class CurvedMap:
    """Least squares from latents (…, K) to truth (…, D), a polynomial of degree five; fit it on training trials."""

    def __init__(self, estimate: NDArray[Any], truth: NDArray[Any]) -> None:
        latents = estimate.shape[-1]
        self.powers = np.array([each for each in product(range(DEGREE + 1), repeat=latents) if sum(each) <= DEGREE])
        rows = self._features(estimate.reshape(-1, latents))
        self.coefficients = np.linalg.lstsq(rows, truth.reshape(-1, truth.shape[-1]), rcond=None)[0]

    def __call__(self, mean: NDArray[Any], covariance: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Mean (…, D) and covariance (…, D, D), linear around the mean."""
        slopes = np.stack([self._slope(mean, axis) for axis in range(mean.shape[-1])], -2)
        return self._features(mean) @ self.coefficients, slopes.swapaxes(-1, -2) @ covariance @ slopes

    def _features(self, latents: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(np.prod(np.asarray(latents, np.float64)[..., None, :] ** self.powers, -1))

    def _slope(self, latents: NDArray[Any], axis: int) -> NDArray[np.float64]:
        """∂/∂z_axis of all D outputs."""
        lower = self.powers.copy()
        lower[:, axis] = np.maximum(lower[:, axis] - 1, 0)
        each = np.prod(np.asarray(latents, np.float64)[..., None, :] ** lower, -1) * self.powers[:, axis]
        return np.asarray(each @ self.coefficients)
