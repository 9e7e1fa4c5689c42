"""A noisy rotation in the plane, seen as a bright spot in noisy images."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks
from rpmodels.datasets.series import Series

REACH = 2.5
"""Standard deviations of the latents that the frame shows."""
WIDTH = 0.25
"""Of the spot, in halves of the frame."""


def rotating_spot(
    n_trials: int = 50,
    n_times: int = 50,
    *,
    angle: float = 0.3,
    modulus: float = 0.97,
    side: int = 12,
    noise: float = 0.3,
    random_state: int | None = None,
) -> Series:
    """z_{t+1} = modulus · R(angle) z_t + w_t, stationary with covariance I, as images x (N, T, side, side).

    The spot is at z in a frame that reaches 2.5 standard deviations; every pixel has Gaussian noise. The eigenvalues
    of the dynamics are modulus · exp(±i angle).
    """
    n, t, pixels = (checks.integer(name, value, 1) for name, value in
                    (("n_trials", n_trials), ("n_times", n_times), ("side", side)))  # fmt: skip
    rho = checks.number("modulus", modulus, above=0.0, below=1.0)
    random = np.random.default_rng(random_state)
    cos, sin = np.cos(angle), np.sin(angle)
    step = rho * np.array([[cos, -sin], [sin, cos]])
    z = np.empty((n, t, 2))
    z[:, 0] = random.standard_normal((n, 2))
    for time in range(1, t):
        z[:, time] = z[:, time - 1] @ step.T + np.sqrt(1.0 - rho**2) * random.standard_normal((n, 2))
    x = _spots(z / REACH, pixels) + noise * random.standard_normal((n, t, pixels, pixels))
    return Series(x.astype(np.float32), z, np.arange(t, dtype=np.float64))


def _spots(places: NDArray[Any], side: int) -> NDArray[Any]:
    grid = np.linspace(-1.0, 1.0, side)
    across, down = (np.exp(-0.5 * np.square((grid - places[..., k, None]) / WIDTH)) for k in (0, 1))
    return np.asarray(down[..., :, None] * across[..., None, :])
