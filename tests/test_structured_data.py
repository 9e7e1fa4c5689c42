"""Data sets for structured latents: digits along a chain, a rotating spot."""

import numpy as np
import pytest

import rpmodels as rp
from rpmodels.errors import DataSetError, InputError, RPModelsError


def images(per_digit=20):
    labels = np.repeat(np.arange(10), per_digit)
    return np.arange(len(labels), dtype=float)[:, None, None] * np.ones((1, 2, 2)), labels


def test_a_walk_shows_images_of_its_digits_and_none_twice_while_they_last():
    pictures, labels = images(400)
    maze = rp.datasets.digit_maze(pictures, labels, n_steps=500, random_state=0)
    shown = maze.images[:, 0, 0].astype(int)
    np.testing.assert_array_equal(labels[shown], maze.states)
    assert len(set(shown.tolist())) == 500
    again = rp.datasets.digit_maze(pictures, labels, n_steps=500, random_state=0)
    np.testing.assert_array_equal(again.images, maze.images)
    few = rp.datasets.digit_maze(*images(3), n_steps=200, random_state=0)
    np.testing.assert_array_equal(images(3)[1][few.images[:, 0, 0].astype(int)], few.states)


def test_the_walk_has_its_transitions():
    maze = rp.datasets.digit_maze(*images(), n_steps=20_000, random_state=1)
    places = np.arange(6)
    expected = np.exp(-np.square(places[:, None] - places).astype(float))
    np.testing.assert_allclose(maze.transitions, expected / expected.sum(1, keepdims=True))
    counts = np.zeros((6, 6))
    np.add.at(counts, (maze.states[:-1], maze.states[1:]), 1)
    assert np.abs(counts / counts.sum(1, keepdims=True) - maze.transitions).max() < 0.03


def test_a_digit_without_images_is_named():
    pictures, labels = images()
    with pytest.raises((DataSetError, InputError, RPModelsError), match="3"):
        rp.datasets.digit_maze(pictures[labels != 3], labels[labels != 3])


def test_the_spot_turns_as_it_should_and_is_where_the_latent_is():
    data = rp.datasets.rotating_spot(200, 60, angle=0.4, modulus=0.9, noise=0.0, side=15, random_state=0)
    z = data.z
    past, future = z[:, :-1].reshape(-1, 2), z[:, 1:].reshape(-1, 2)
    values = np.linalg.eigvals(np.linalg.lstsq(past, future, rcond=None)[0])
    np.testing.assert_allclose(np.abs(values), 0.9, atol=0.02)
    np.testing.assert_allclose(np.abs(np.angle(values)), 0.4, atol=0.02)
    np.testing.assert_allclose(z.reshape(-1, 2).std(0), 1.0, atol=0.05)
    inside = np.abs(z).max(-1) < 2.0
    grid = np.linspace(-2.5, 2.5, 15)
    brightest = data.x[inside].reshape(inside.sum(), -1).argmax(1)
    assert np.abs(grid[brightest % 15] - z[inside][:, 0]).max() <= 0.5 * (grid[1] - grid[0]) + 1e-6
    assert np.abs(grid[brightest // 15] - z[inside][:, 1]).max() <= 0.5 * (grid[1] - grid[0]) + 1e-6
    with pytest.raises(InputError, match="modulus"):
        rp.datasets.rotating_spot(modulus=1.0)
