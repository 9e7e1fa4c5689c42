"""Latents of all sites as one large normal distribution: T·K numbers, one matrix, no structure made use of.

Axes are (T, K) and (T, K, T, K). The library's posteriors go through inducing points, filters or one site at a time.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import block_diag

from oracles.gaussians import as_numpy


@dataclass
class Dense:
    """A joint posterior, its divergence from the prior, and log ∫ p(Z) exp(Σ potentials) dZ."""

    mean: np.ndarray
    covariance: np.ndarray
    kl: float
    log_partition: float

    def marginals(self):
        """(T, K, K)."""
        return np.einsum("tktl->tkl", self.covariance)

    def pairwise(self):
        """Cov(z_t+1, z_t): (T − 1, K, K)."""
        return np.stack([self.covariance[t + 1, :, t] for t in range(len(self.mean) - 1)])

    def flat(self):
        """Mean and (symmetrised) covariance in one axis."""
        size = self.mean.size
        covariance = self.covariance.reshape(size, size)
        return self.mean.ravel(), 0.5 * (covariance + covariance.T)


def absorbed(mean, covariance, h, w):
    """What N(mean, covariance) becomes by exp(Σ_t h_t·z_t − ½ z_tᵀW_t z_t).

    Σ = P(I + WP)⁻¹ is (P⁻¹ + W)⁻¹ where neither P nor W has an inverse.
    """
    size = h.size
    m, p, weight = mean.ravel(), covariance.reshape(size, size), block_diag(*w)
    whole = np.eye(size) + weight @ p
    after = np.linalg.solve(whole.T, p.T).T
    pull = h.ravel() - weight @ m
    shift, log_det = after @ pull, np.linalg.slogdet(whole)[1]
    trace = np.trace(np.linalg.inv(whole)) + shift @ np.linalg.solve(whole, pull)
    return Dense(
        (m + shift).reshape(h.shape),
        after.reshape(*h.shape, *h.shape),
        0.5 * (trace - size + log_det),
        h.ravel() @ m - 0.5 * m @ weight @ m + 0.5 * pull @ shift - 0.5 * log_det,
    )


def gaussian_processes(kernels, t):
    """The covariance (T, K, T, K) of independent processes at the same times."""
    covariance = np.zeros((len(t), len(kernels)) * 2)
    for k, kernel in enumerate(kernels):
        covariance[:, k, :, k] = kernel(t, t)
    return covariance


def process_posterior(kernels, t, h, w, mean=None, new=()):
    """Of Gaussian processes at t and then at new times, of which nothing is known; mean gives (K, T)."""
    everywhere = np.concatenate([t, new])
    before = np.zeros((len(everywhere), len(kernels))) if mean is None else mean(everywhere).T
    h, w = (np.concatenate([seen, np.zeros((len(new), *seen.shape[1:]))]) for seen in (h, w))
    return absorbed(before, gaussian_processes(kernels, everywhere), h, w)


def linear_dynamics(a, length, drive=None):
    """Mean and covariance of z_1 … z_T: Cov(z_s, z_t) = A^(s−t) for s ≥ t when the stationary covariance is I."""
    size = len(a)
    mean = np.zeros((length, size))
    for t in range(1, length):
        mean[t] = a @ mean[t - 1] + (0 if drive is None else drive[t - 1])
    covariance = np.zeros((length, size, length, size))
    for s in range(length):
        for t in range(s + 1):
            covariance[s, :, t] = np.linalg.matrix_power(a, s - t)
            covariance[t, :, s] = covariance[s, :, t].T
    return mean, covariance


def dynamics_posterior(a, h, w, drive=None):
    """Of linear dynamics with the stationary covariance I."""
    return absorbed(*linear_dynamics(a, len(h), drive), h, w)


def measured(kernels, loadings, noise, offset):
    """Mean and covariance, channels fastest, of y_t = offset + Σ_k loadings[k] z_k(t) + noise; kernels are (T, T)."""
    times = len(kernels[0])
    covariance = np.kron(np.eye(times), np.diag(noise))
    for kernel, loading in zip(kernels, loadings, strict=True):
        covariance += np.kron(kernel, np.outer(loading, loading))
    return np.tile(offset, times), covariance


# ---- inducing points: latents come first in the flat axis ------------------------------------------


def spread_out(blocks):
    """(T, K, K) blocks as one K·T × K·T matrix."""
    size, latents = blocks.shape[:2]
    whole = np.zeros((latents, size, latents, size))
    whole[:, np.arange(size), :, np.arange(size)] = blocks
    return whole.reshape(latents * size, latents * size)


def projection(kernels, places, t):
    """A = L⁻¹κ(τ, t) of all latents in one block-diagonal matrix, and what it leaves of κ(t, t)."""
    inside = block_diag(*(kernel(tau, tau) for kernel, tau in zip(kernels, places, strict=True)))
    across = block_diag(*(kernel(tau, t) for kernel, tau in zip(kernels, places, strict=True)))
    a = np.linalg.solve(np.linalg.cholesky(inside), across)
    return a, block_diag(*(kernel(t, t) for kernel in kernels)) - a.T @ a


def sites_first(matrix, latents):
    """A K·T × K·T matrix as (T, K, T, K)."""
    return matrix.reshape(latents, -1, latents, len(matrix) // latents).transpose(1, 0, 3, 2)


# ---- draws ------------------------------------------------------------------------------------------


def assert_drawn_from(z, mean, covariance):
    """The moments of draws (n, T, K) are these within five standard errors."""
    flat, n = as_numpy(z).reshape(len(z), -1), len(z)
    size = flat.shape[1]
    covariance = covariance.reshape(size, size)
    variance = np.diag(covariance)
    assert (np.abs(flat.mean(0) - mean.ravel()) < 5 * np.sqrt(variance / n) + 1e-4).all()
    error = np.sqrt((np.outer(variance, variance) + covariance**2) / n)
    assert (np.abs(np.cov(flat.T) - covariance) < 5 * error + 1e-6).all()
