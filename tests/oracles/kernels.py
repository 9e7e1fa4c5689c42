"""Covariance functions in NumPy, as formulas of |a − b|; each is a function of two vectors of times."""

import numpy as np


def distance(a, b):
    return np.abs(a[:, None] - b)


def rbf(length):
    return lambda a, b: np.exp(-0.5 * (distance(a, b) / length) ** 2)


def matern12(length):
    return lambda a, b: np.exp(-distance(a, b) / length)


def matern32(length):
    return lambda a, b: (1 + 3**0.5 * distance(a, b) / length) * np.exp(-(3**0.5) * distance(a, b) / length)


def matern52(length):
    def kernel(a, b):
        x = 5**0.5 * distance(a, b) / length
        return (1 + x + x**2 / 3) * np.exp(-x)

    return kernel


def periodic(length, period):
    return lambda a, b: np.exp(-2 * np.sin(np.pi * distance(a, b) / period) ** 2 / length)


def linear(slope):
    return lambda a, b: slope * a[:, None] * b


def scaled(scale, kernel):
    return lambda a, b: scale * kernel(a, b)


def plus(first, second):
    return lambda a, b: first(a, b) + second(a, b)


def times(first, second):
    return lambda a, b: first(a, b) * second(a, b)
