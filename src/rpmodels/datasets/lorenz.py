"""Counts of many channels driven by a Lorenz path."""

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks, errors
from rpmodels.datasets.series import Series

_POINTS, _STEP = 3000, 0.001
_NOISE, _LENGTH = 0.1, 10.0


def lorenz(*, n_trials: int = 10, n_times: int = 100, n_channels: int = 200, random_state: int | None = None) -> Series:
    """Counts x ~ Poisson(exp(zC − min zC)), z-scored per channel, of a noisy Lorenz path z (N, T, 3).

    The path (σ = 10, ρ = 28, β = 8/3) starts anywhere on the attractor; 3 000 points 0.001 apart are thinned to
    `n_times`, every dimension is scaled to [−1, 1] over all trials, and smooth noise is added: a Gaussian process
    of sd 0.1 with kernel exp(−(t−t′)²/(2·10²)), t in thinned steps. z holds that noise, because x was made with it.
    C ~ U[0, 1]^{3×D}; the minimum is over everything, so the rates are at least 1.
    """
    trials, channels = checks.integer("n_trials", n_trials, 1), checks.integer("n_channels", n_channels, 1)
    if checks.integer("n_times", n_times, 2) > _POINTS:
        raise errors.bad_value("n_times", f"at most {_POINTS}, the points of the path", n_times)
    random = np.random.default_rng(random_state)
    times = np.arange(n_times, dtype=np.float64)

    path = _path(random, trials)[:, np.arange(n_times) * _POINTS // n_times]
    low, high = path.min((0, 1)), path.max((0, 1))
    z = 2 * (path - low) / (high - low) - 1 + _NOISE * _smooth_noise(random, times, trials)

    drive = z @ random.uniform(size=(3, channels))
    counts = random.poisson(np.exp(drive - drive.min()))
    spread = counts.std((0, 1))
    x = (counts - counts.mean((0, 1))) / np.where(spread > 0, spread, 1.0)
    return Series(x.astype(np.float32), z, times)


def _path(random: np.random.Generator, n_trials: int) -> NDArray[np.float64]:
    """(N, 3000, 3) on the attractor, by Runge–Kutta of order 4."""
    state = np.array([0.0, 0.0, 25.0]) + 10 * random.standard_normal((n_trials, 3))
    for _ in range(1000):  # 10 units of time, to forget the start
        state = _runge_kutta(state, 0.01)
    points = [state]
    while len(points) < _POINTS:
        points.append(_runge_kutta(points[-1], _STEP))
    return np.stack(points, 1)


def _runge_kutta(state: NDArray[np.float64], step: float) -> NDArray[np.float64]:
    one = _slope(state)
    two = _slope(state + step / 2 * one)
    three = _slope(state + step / 2 * two)
    four = _slope(state + step * three)
    return state + step / 6 * (one + 2 * two + 2 * three + four)


def _slope(state: NDArray[np.float64]) -> NDArray[np.float64]:
    x, y, z = state.T
    return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)


def _smooth_noise(random: np.random.Generator, times: NDArray[np.float64], n_trials: int) -> NDArray[np.float64]:
    """(N, T, 3) of unit variance, independent between trials and dimensions."""
    kernel = np.exp(-((times[:, None] - times) ** 2) / (2 * _LENGTH**2))
    # By eigenvalues: so smooth a kernel is singular to rounding.
    drawn = random.multivariate_normal(np.zeros(len(times)), kernel, (n_trials, 3), method="eigh", check_valid="ignore")
    return np.asarray(drawn.swapaxes(1, 2))
