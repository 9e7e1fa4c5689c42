"""A ball that swings along a line of pixels: z_t = cos(θ + t·turn), θ ~ U(0, 2π) for every trial."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks
from rpmodels.datasets.series import Series

_TURN = np.pi / 10
_TEXTURE_VARIANCE = 0.01


def textured_ball(
    *,
    n_trials: int = 50,
    n_times: int = 50,
    n_pixels: int = 10,
    turn: float = _TURN,
    random_state: int | None = None,
) -> Series:
    """A ball that only the shape of the pixels' distribution shows: mean 0 and variance 1 wherever it is.

    x ~ π N(μ₁, σ²) + (1−π) N(μ₂, σ²), σ² = 0.01, with r = exp(−(p−z)²/0.15²), a = √(1−σ²),
    μ₁ = (1000−a) r + a, π = a²/(a² + μ₁²), μ₂ = −μ₁π/(1−π). The pixels p are evenly spaced over the range of all
    z drawn, so draw the held-out trials in the same call and split them off.
    """
    random = np.random.default_rng(random_state)
    z = _path(random, n_trials, n_times, turn)
    weight, first, second = _texture(_bump(z, _pixels_over(z, n_pixels), 0.15))
    mean = np.where(random.random(weight.shape) < weight, first, second)
    x = mean + np.sqrt(_TEXTURE_VARIANCE) * random.standard_normal(mean.shape)
    return _series(x.astype(np.float32), z)


def structured_ball(
    *,
    n_trials: int = 50,
    n_times: int = 50,
    n_pixels: int = 20,
    contrast: float = 1.0,
    turn: float = _TURN,
    random_state: int | None = None,
) -> Series:
    """A ball in front of stripes that jump at every frame.

    x = sin(2π·1.5·p + φ) + contrast·exp(−(p−z)²/(2·0.2²)) + N(0, 0.1²), φ ~ U(0, 2π) independently for every frame,
    pixels p evenly spaced on [−1.2, 1.2].
    """
    strength = checks.number("contrast", contrast, least=0)
    random = np.random.default_rng(random_state)
    z = _path(random, n_trials, n_times, turn)
    pixels = np.linspace(-1.2, 1.2, checks.integer("n_pixels", n_pixels, 2))
    stripes = np.sin(2 * np.pi * 1.5 * pixels + random.uniform(0, 2 * np.pi, z.shape))
    x = stripes + strength * _bump(z, pixels, np.sqrt(2) * 0.2) + 0.1 * random.standard_normal(stripes.shape)
    return _series(x.astype(np.float32), z)


def plain_ball(
    *,
    n_trials: int = 50,
    n_times: int = 50,
    n_pixels: int = 10,
    turn: float = _TURN,
    random_state: int | None = None,
) -> Series:
    """A ball brighter than its background: x = exp(−(p−z)²/0.3²) + N(0, 0.3²).

    The pixels p are evenly spaced over the range of all z drawn.
    """
    random = np.random.default_rng(random_state)
    z = _path(random, n_trials, n_times, turn)
    ball = _bump(z, _pixels_over(z, n_pixels), 0.3)
    return _series((ball + 0.3 * random.standard_normal(ball.shape)).astype(np.float32), z)


def poisson_ball(
    *,
    n_trials: int = 5,
    n_times: int = 50,
    n_pixels: int = 10,
    turn: float = _TURN,
    random_state: int | None = None,
) -> Series:
    """A ball in counts: x ~ Poisson(10 exp(−(p−z)²/0.6²)), pixels p evenly spaced over the range of all z drawn."""
    random = np.random.default_rng(random_state)
    z = _path(random, n_trials, n_times, turn)
    return _series(random.poisson(10 * _bump(z, _pixels_over(z, n_pixels), 0.6)).astype(np.int64), z)


def _path(random: np.random.Generator, n_trials: int, n_times: int, turn: float) -> NDArray[np.float64]:
    """(N, T, 1): the first component of a point turned along the unit circle."""
    trials, steps = checks.integer("n_trials", n_trials, 1), checks.integer("n_times", n_times, 1)
    start = random.uniform(0, 2 * np.pi, (trials, 1, 1))
    return np.cos(start + checks.number("turn", turn) * np.arange(1, steps + 1)[:, None])


def _pixels_over(z: NDArray[np.float64], n_pixels: int) -> NDArray[np.float64]:
    return np.linspace(z.min(), z.max(), checks.integer("n_pixels", n_pixels, 2))


def _bump(z: NDArray[np.float64], pixels: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    return np.exp(-(((pixels - z) / width) ** 2))


def _texture(
    bump: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Weight of the first component and the two means: the mixture has mean 0 and variance 1."""
    between = 1 - _TEXTURE_VARIANCE
    first = (1000 - np.sqrt(between)) * bump + np.sqrt(between)
    # π/(1−π) = a²/μ₁²: written so, because 1 − π loses no digits.
    return between / (between + first**2), first, -between / first


def _series(x: NDArray[Any], z: NDArray[np.float64]) -> Series:
    return Series(x, z, np.arange(z.shape[1], dtype=np.float64))
