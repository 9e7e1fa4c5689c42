"""Normal distributions in NumPy: natural parameters, moments, divergences, by inverting whole matrices.

A family says only how its natural parameters are laid out: K numbers and a diagonal, or K numbers and a K × K matrix.
"""

import numpy as np
import torch

from rpmodels.families import DiagonalGaussian, FullGaussian


def as_numpy(values):
    """Tensors in double precision and without history; arrays as they are."""
    return values.detach().double().numpy() if isinstance(values, torch.Tensor) else np.asarray(values, dtype=float)


def potential(family, h, w):
    """h·z − ½ zᵀWz as natural parameters."""
    second = np.einsum("...kk->...k", w) if isinstance(family, DiagonalGaussian) else w.reshape(*h.shape[:-1], -1)
    return torch.as_tensor(np.concatenate([h, -0.5 * second], -1))


def natural(family, mean, covariance):
    """η as a tensor."""
    precision = np.linalg.inv(covariance)
    return potential(family, np.einsum("...ij,...j->...i", precision, mean), precision)


def parts(family, eta):
    """Λm and Λ, for whatever leading axes."""
    eta, size = as_numpy(eta), family.latents
    first, second = eta[..., :size], eta[..., size:]
    if isinstance(family, DiagonalGaussian):
        return first, -2.0 * second[..., None] * np.eye(size)
    matrix = second.reshape(*second.shape[:-1], size, size)
    return first, -matrix - np.swapaxes(matrix, -1, -2)


def normal(family, eta):
    """Mean and covariance."""
    first, precision = parts(family, eta)
    covariance = np.linalg.inv(precision)
    return np.einsum("...ij,...j->...i", covariance, first), covariance


def log_normaliser(family, eta):
    """Φ(η) = ½(mᵀΛm − log|Λ| + K log 2π)."""
    first, precision = parts(family, eta)
    mean, _ = normal(family, eta)
    return 0.5 * ((first * mean).sum(-1) - np.linalg.slogdet(precision)[1] + family.latents * np.log(2 * np.pi))


def statistic(family, z):
    """[z, zzᵀ] with all of zzᵀ, or its diagonal."""
    if isinstance(family, DiagonalGaussian):
        return np.concatenate([z, z**2], -1)
    return np.concatenate([z, (z[..., :, None] * z[..., None, :]).reshape(*z.shape[:-1], -1)], -1)


def mean_parameter(family, mean, covariance):
    """⟨[z, zzᵀ]⟩ from the moments."""
    second = covariance + mean[..., :, None] * mean[..., None, :]
    if isinstance(family, DiagonalGaussian):
        return np.concatenate([mean, np.einsum("...kk->...k", second)], -1)
    return np.concatenate([mean, second.reshape(*mean.shape[:-1], -1)], -1)


def expected_statistic(family, eta):
    """⟨[z, zzᵀ]⟩ from natural parameters."""
    return mean_parameter(family, *normal(family, eta))


def kl(mean, covariance, prior_mean, prior):
    """KL(N(mean, covariance) ‖ N(prior_mean, prior)), by the textbook's formula."""
    shift = mean - prior_mean
    trace = np.trace(np.linalg.solve(prior, covariance)) + shift @ np.linalg.solve(prior, shift)
    return 0.5 * (trace - len(mean) + np.linalg.slogdet(prior)[1] - np.linalg.slogdet(covariance)[1])


def expected_log_density(mean, covariance, of_mean, of_covariance):
    """⟨log N(z; of_mean, of_covariance)⟩ under N(mean, covariance)."""
    inverse, shift = np.linalg.inv(of_covariance), mean - of_mean
    quadratic = np.trace(inverse @ covariance) + shift @ inverse @ shift
    return -0.5 * (quadratic + np.linalg.slogdet(2 * np.pi * of_covariance)[1])


def log_mean_exp(m, s, first, matrix):
    """log ⟨exp(first·z + zᵀ matrix z)⟩ under N(m, s), by completing the square."""
    precision = np.linalg.inv(s)
    joint = precision - 2 * matrix
    shift = precision @ m + first
    return 0.5 * (
        shift @ np.linalg.solve(joint, shift) - m @ precision @ m
        - np.linalg.slogdet(joint)[1] + np.linalg.slogdet(precision)[1]
    )  # fmt: skip


def kronecker_covariance(mean, covariance):
    """The covariance of [z, zzᵀ], all K + K² square of it, as printed in (A7–A8)."""
    size = len(mean)
    ones, row = np.ones((size, 1)), mean[None]

    def h(left, right):
        one = np.kron(np.kron(ones.T, left), ones)
        other = np.kron(np.kron(ones, right), ones.T)
        return np.kron(left, right) + one * other

    outer = np.outer(mean, mean)
    corner = h(covariance, covariance) + h(covariance, outer) + h(outer, covariance)
    cross = np.kron(row, covariance) + np.kron(covariance, row)
    return np.block([[covariance, cross], [cross.T, corner]])


def random_covariance(random, family, shape, low, high):
    """Eigenvalues between low and high; turned at random where the family can hold it."""
    size = family.latents
    variances = np.exp(random.uniform(np.log(low), np.log(high), (*shape, size)))
    matrix = variances[..., None] * np.eye(size)
    if isinstance(family, FullGaussian):
        turn = np.linalg.qr(random.standard_normal((*shape, size, size)))[0]
        matrix = turn @ matrix @ np.swapaxes(turn, -1, -2)
    return matrix


def random_potentials(family, *shape, seed=0, strength=1.0, floor=0.3):
    """h and W of potentials h·z − ½ zᵀWz with no eigenvalue of W below strength · floor, and their flat form."""
    random, size = np.random.default_rng(seed), family.latents
    h = random.standard_normal((*shape, size))
    root = random.standard_normal((*shape, size, size))
    w = strength * (root @ root.swapaxes(-1, -2) + floor * np.eye(size))
    if isinstance(family, DiagonalGaussian):
        w = w * np.eye(size)
    return h, w, potential(family, h, w)
