"""Generated series: the formulas they promise, the same again for the same seed."""

import importlib

import numpy as np
import pytest

from rpmodels import datasets
from rpmodels.datasets import balls
from rpmodels.errors import InputError

BALLS = [datasets.textured_ball, datasets.structured_ball, datasets.plain_ball, datasets.poisson_ball]


@pytest.mark.parametrize("make", BALLS)
def test_shapes_and_kinds(make):
    series = make(random_state=0)
    trials, pixels = 5 if make is datasets.poisson_ball else 50, 20 if make is datasets.structured_ball else 10
    assert series.x.shape == (trials, 50, pixels)
    assert series.x.dtype == (np.int64 if make is datasets.poisson_ball else np.float32)
    assert series.z.shape == (trials, 50, 1)
    assert series.z.dtype == series.times.dtype == np.float64
    np.testing.assert_array_equal(series.times, np.arange(50))
    assert make(n_trials=3, n_times=7, n_pixels=4).x.shape == (3, 7, 4)


@pytest.mark.parametrize("make", [*BALLS, datasets.lorenz])
def test_a_seed_gives_the_same_series_again(make):
    one, same, other = (make(n_trials=3, n_times=9, random_state=seed) for seed in (4, 4, 5))
    np.testing.assert_array_equal(one.x, same.x)
    np.testing.assert_array_equal(one.z, same.z)
    assert not np.array_equal(one.x, other.x)
    assert not np.array_equal(one.z, other.z)


@pytest.mark.parametrize("make", BALLS)
@pytest.mark.parametrize("turn", [np.pi / 10, 0.3])
def test_the_ball_is_one_component_of_a_turning_point(make, turn):
    z = make(n_trials=200, turn=turn, random_state=0).z[..., 0]
    # The other component, from two neighbours: cos(a ± turn) = cos a cos turn ∓ sin a sin turn.
    quadrature = (z[:, :-2] - z[:, 2:]) / (2 * np.sin(turn))
    np.testing.assert_allclose(z[:, 1:-1] ** 2 + quadrature**2, 1, atol=1e-9)
    np.testing.assert_allclose(z[:, :-2] + z[:, 2:], 2 * np.cos(turn) * z[:, 1:-1], atol=1e-9)
    start = np.arctan2(quadrature[:, 0], z[:, 1])
    assert abs(np.exp(1j * start).mean()) < 4 / np.sqrt(200)  # starts all around the circle


def test_textured_pixels_have_mean_0_and_variance_1_in_the_formula():
    weight, first, second = balls._texture(np.array([0.0, 1e-4, 0.01, 0.3, 1.0]))
    np.testing.assert_allclose(weight * first + (1 - weight) * second, 0, atol=1e-9)
    within = balls._TEXTURE_VARIANCE
    np.testing.assert_allclose(within + weight * first**2 + (1 - weight) * second**2, 1)
    np.testing.assert_allclose([weight[0], first[-1]], [0.5, 1000])


def test_textured_pixels_have_mean_0_and_variance_1_wherever_the_ball_is():
    series = datasets.textured_ball(n_trials=8000, random_state=0)
    pixels = np.linspace(series.z.min(), series.z.max(), 10)
    place = np.digitize(series.z[..., 0], np.linspace(-0.9, 0.9, 7))
    spike = 999 * np.exp(-(((pixels - series.z) / 0.15) ** 2)) + 1  # μ₁: x⁴ is about μ₁² on average
    judged = 0
    for where in range(8):
        x, size = series.x[place == where].astype(float), np.sum(place == where)
        np.testing.assert_allclose(x.mean(0), 0, atol=5 / np.sqrt(size))
        error = np.sqrt((spike[place == where] ** 2).mean(0) / size)
        # Under the ball, variance comes as one spike in a million: no sample shows it (the formula's test does).
        seen = error < 0.05
        judged += seen.sum()
        np.testing.assert_array_less(np.abs(x.var(0) - 1)[seen], 5 * error[seen])
    assert judged >= 40


def test_the_texture_shows_the_ball_in_the_shape_of_the_distribution():
    series = datasets.textured_ball(n_trials=500, random_state=0)
    pixels = np.linspace(series.z.min(), series.z.max(), 10)
    distance = np.abs(pixels - series.z)
    assert np.median(np.abs(series.x[distance < 0.1])) < 0.12
    assert np.median(np.abs(series.x[distance > 0.6])) > 0.9


def test_stripes_do_not_know_the_ball():
    plain, seen, strong = (
        datasets.structured_ball(n_trials=400, contrast=contrast, random_state=0) for contrast in (0, 1, 2)
    )
    pixels = np.linspace(-1.2, 1.2, 20)
    ball = np.exp(-((pixels - seen.z) ** 2) / (2 * 0.2**2))
    np.testing.assert_allclose(seen.x - plain.x, ball, atol=1e-6)
    np.testing.assert_allclose(strong.x - plain.x, 2 * ball, atol=1e-6)
    waves = np.stack([np.sin(3 * np.pi * pixels), np.cos(3 * np.pi * pixels)])
    phase = np.linalg.lstsq(waves.T, plain.x.reshape(-1, 20).T.astype(float), rcond=None)[0]
    residual = plain.x.reshape(-1, 20) - phase.T @ waves
    assert np.hypot(*phase).mean() == pytest.approx(1, abs=0.01)
    assert residual.std() == pytest.approx(0.1, abs=0.01)
    frames = phase.shape[1]
    for moment in (seen.z.ravel(), seen.z.ravel() ** 2):
        for wave in (*phase, phase[0] * phase[1], phase[0] ** 2):
            assert abs(np.corrcoef(moment, wave)[0, 1]) < 4 / np.sqrt(frames)
    by_trial = phase.reshape(2, 400, 50)
    assert abs(np.mean(by_trial[:, :, 1:] * by_trial[:, :, :-1])) < 0.02  # a new phase at every frame


def test_plain_ball_moves_the_mean():
    series = datasets.plain_ball(n_trials=400, random_state=0)
    pixels = np.linspace(series.z.min(), series.z.max(), 10)
    noise = series.x - np.exp(-((pixels - series.z) ** 2) / 0.3**2)
    assert noise.mean() == pytest.approx(0, abs=0.005)
    assert noise.std() == pytest.approx(0.3, abs=0.005)


def test_poisson_ball_has_the_rates_it_says():
    series = datasets.poisson_ball(n_trials=400, random_state=0)
    pixels = np.linspace(series.z.min(), series.z.max(), 10)
    rate = 10 * np.exp(-((pixels - series.z) ** 2) / 0.6**2)
    assert series.x.min() == 0
    for low, high in ((0.1, 1), (1, 3), (3, 6), (6, 10)):
        chosen = (rate >= low) & (rate < high)
        excess = series.x[chosen] - rate[chosen]
        assert excess.mean() == pytest.approx(0, abs=0.05)
        assert excess.var() == pytest.approx(rate[chosen].mean(), rel=0.05)


def test_lorenz_shapes_and_scaling():
    series = datasets.lorenz(random_state=0)
    assert series.x.shape == (10, 100, 200)
    assert series.z.shape == (10, 100, 3)
    assert series.x.dtype == np.float32
    np.testing.assert_array_equal(series.times, np.arange(100))
    np.testing.assert_allclose(series.x.mean((0, 1)), 0, atol=1e-4)
    np.testing.assert_allclose(series.x.std((0, 1)), 1, atol=1e-4)
    reach = np.abs(series.z).max((0, 1))
    assert ((reach > 0.8) & (reach < 1.5)).all()  # [−1, 1] and noise of sd 0.1
    steps = np.abs(np.diff(series.z, axis=1))
    assert steps.max() < 0.6  # a path, not white noise
    x, z = series.x.reshape(1000, 200).astype(float), series.z.reshape(1000, 3)
    left = z - z.mean(0) - x @ np.linalg.lstsq(x, z - z.mean(0), rcond=None)[0]
    assert (left**2).sum() / z.var(0).sum() / 1000 < 0.1  # the counts do carry the path


def test_lorenz_follows_the_equations():
    path = _lorenz_module()._path(np.random.default_rng(0), 4)
    assert path.shape == (4, 3000, 3)
    x, y, z = np.moveaxis(path[:, 1:-1], -1, 0)
    slope = np.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)
    np.testing.assert_allclose((path[:, 2:] - path[:, :-2]) / 0.002, slope, atol=0.05)
    assert (np.abs(path) < [25, 35, 55]).all()  # on the attractor


def test_smooth_noise_has_unit_variance_and_the_length_it_says():
    noise = _lorenz_module()._smooth_noise(np.random.default_rng(0), np.arange(30.0), 4000)
    np.testing.assert_allclose(noise.var((0, 2)), 1, atol=0.06)
    assert (noise[:, 0] * noise[:, 10]).mean() == pytest.approx(np.exp(-0.5), abs=0.05)


def test_channels_without_a_count_that_differs_stay_0():
    series = datasets.lorenz(n_trials=1, n_times=2, n_channels=2000, random_state=1)
    assert np.isfinite(series.x).all()
    assert 0 < (series.x == 0).all((0, 1)).sum() < 2000


@pytest.mark.parametrize(
    ("make", "arguments", "text"),
    [
        *[(make, {"n_trials": 0}, "n_trials: expected an integer ≥ 1, got 0") for make in BALLS],
        *[(make, {"n_times": -1}, "n_times: expected an integer ≥ 1") for make in BALLS],
        *[(make, {"n_pixels": 1}, "n_pixels: expected an integer ≥ 2") for make in BALLS],
        *[(make, {"turn": np.nan}, "turn: expected a number") for make in BALLS],
        (datasets.structured_ball, {"contrast": -1.0}, "contrast: expected a number ≥ 0"),
        (datasets.lorenz, {"n_trials": 0}, "n_trials"),
        (datasets.lorenz, {"n_times": 1}, "n_times: expected an integer ≥ 2"),
        (datasets.lorenz, {"n_times": 3001}, "n_times: expected at most 3000"),
        (datasets.lorenz, {"n_channels": 0}, "n_channels"),
    ],
)
def test_bad_values_are_named(make, arguments, text):
    with pytest.raises(InputError, match=text):
        make(**arguments)


def _lorenz_module():
    # The package's name `lorenz` is the function.
    return importlib.import_module("rpmodels.datasets.lorenz")
