"""Channels of a population one by one, value by value: normal densities of SciPy, sums and dense grids.

The library gives directions, a(x), b(x) and p₀ of every channel, and the moments of the reference; nothing else.
"""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from oracles.gaussians import as_numpy


@dataclass(frozen=True)
class Channel:
    """f(u|x) of every value x of one channel, along u = w·z, as normal distributions."""

    w: np.ndarray
    a: np.ndarray
    b: np.ndarray
    p0: np.ndarray
    mean: float
    variance: float

    @property
    def values(self):
        """How many it can show."""
        return len(self.p0)

    def member(self, x):
        """Mean and sd of f(u|x): the reference times exp(a u − ½ b u²), completed to a square."""
        precision = 1.0 / self.variance + self.b[x]
        return (self.mean / self.variance + self.a[x]) / precision, precision**-0.5

    def log_f(self, x, u):
        """log f(u|x)/r(u)."""
        return norm.logpdf(u, *self.member(x)) - norm.logpdf(u, self.mean, self.variance**0.5)

    def log_mixture(self, u):
        """log Σ_x p₀(x) f(u|x)/r(u)."""
        return logsumexp([self.log_f(x, u) for x in range(self.values)], axis=0, b=self.p0[:, None])

    def log_weight(self, x, u):
        """log f(u|x)/F(u)."""
        return self.log_f(x, u) - self.log_mixture(u)

    def probabilities(self, u):
        """p(x|u): (values, points)."""
        return np.array([p * np.exp(self.log_weight(x, u)) for x, p in enumerate(self.p0)])


def channels(curves, mean, covariance):
    """Of these curves, relative to N(mean, covariance); values that a channel does not have left out."""
    w, a, b, log_p0 = (as_numpy(each) for each in (curves.directions, curves.a, curves.b, curves.log_p0))
    mean, covariance = as_numpy(mean), as_numpy(covariance)
    have = np.isfinite(log_p0)
    return [
        Channel(w[c], a[c, have[c]], b[c, have[c]], np.exp(log_p0[c, have[c]]), w[c] @ mean, w[c] @ covariance @ w[c])
        for c in range(len(w))
    ]


def dense(latents, points, reach=8.0):
    """Places of N(0, I) on a lattice (points^K, K), and shares that sum to one."""
    axis = np.linspace(-reach, reach, points)
    places = np.stack(np.meshgrid(*[axis] * latents, indexing="ij"), -1).reshape(-1, latents)
    shares = np.exp(-0.5 * (places**2).sum(-1))
    return places, shares / shares.sum()


def expected(function, mean, covariance, points=4001):
    """⟨function(z)⟩ under N(mean, covariance), on a lattice in its own coordinates; function takes (points, K)."""
    places, shares = dense(len(mean), points)
    return function(mean + places @ np.linalg.cholesky(covariance).T) @ shares


def log_w(every, seen, mean, covariance, points):
    """log ∫ p(z) ∏_c f_c(x_c|z)/F_c(z) dz of one site, p = N(mean, covariance); NaN where a channel is missing."""

    def ratio(z):
        there = [(c, int(x)) for c, x in zip(every, seen, strict=True) if np.isfinite(x)]
        return np.exp(sum(c.log_weight(x, z @ c.w) for c, x in there))

    return np.log(expected(ratio, mean, covariance, points))


def everything(every):
    """All that the channels can show together, and its probability were they independent."""
    seen = list(itertools.product(*(range(c.values) for c in every)))
    return seen, np.array([np.prod([c.p0[x] for c, x in zip(every, one, strict=True)]) for one in seen])


def free_energy(every, seen, q, prior, points=2001):
    """−KL(q‖p) + Σ_c ⟨log f_c/F_c⟩ of one site, every expectation on a lattice along the channel's projection."""
    m, s = q
    total = -np.asarray(
        expected(lambda z: multivariate_normal.logpdf(z, m, s) - multivariate_normal.logpdf(z, *prior), m, s, 61)
    )
    for c, x in zip(every, seen, strict=True):
        if np.isfinite(x):
            along = c.w @ m, np.array([[c.w @ s @ c.w]])
            total = total + expected(
                lambda u, c=c, x=x: c.log_weight(int(x), u[:, 0]), np.array([along[0]]), along[1], points
            )
    return float(total)
