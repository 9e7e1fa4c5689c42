"""Integrals over continuous latents as sums on a dense grid, and the least of a bound by direct search.

A mixture of atoms gives its parameters; densities are SciPy's normalised ones.
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from oracles.gaussians import expected_log_density, expected_statistic, log_normaliser, normal


def log_density(family, eta, z):
    """Of a normal distribution, z: [points, K]."""
    return multivariate_normal.logpdf(z, *normal(family, eta))


def log_integral(log_values, step):
    """log ∫ exp(values) by a sum over equally spaced points."""
    return logsumexp(log_values) + np.log(step)


def members(mixture, n, t):
    """Normalised weights and η of every atom with a count at a site of an observation, and r's η."""
    s = 0 if mixture.shared else t
    counts, g = mixture.log_count[s].exp().numpy(), mixture.g[s].detach().numpy()
    own = mixture.own
    if own is not None and own.present[n, t]:
        counts, g = np.append(counts, 1.0), np.vstack([g, own.g[n, t].detach().numpy()])
    reference = mixture.reference[min(s, len(mixture.reference) - 1)].numpy()
    counted = counts > 0
    return counts[counted] / counts.sum(), reference + g[counted], reference


def log_ratio(mixture, n, t, z):
    """log Σ_m w_m f_m(z) − log r(z) from normalised densities, z: [points, K]."""
    weights, atoms, reference = members(mixture, n, t)
    logs = np.array([log_density(mixture.family, eta, z) for eta in atoms])
    return logsumexp(logs, axis=0, b=weights[:, None]) - log_density(mixture.family, reference, z)


def expected_log_ratio(mixture, eta_q, points=4001, reach=9.0):
    """⟨log F/r⟩ at every place, on a dense grid in the whitened coordinates of q."""
    size = mixture.family.latents
    axis = np.linspace(-reach, reach, points)
    noise = np.stack(np.meshgrid(*[axis] * size, indexing="ij"), -1).reshape(-1, size)
    weights = np.exp(-0.5 * (noise**2).sum(-1))
    result = np.empty(eta_q.shape[:2])
    for n, t in np.ndindex(*result.shape):
        mean, covariance = normal(mixture.family, eta_q[n, t])
        z = mean + noise @ np.linalg.cholesky(covariance).T
        result[n, t] = weights @ log_ratio(mixture, n, t, z) / weights.sum()
    return result


def expected_log_ratio_of_one(mixture, eta_q, n, t):
    """⟨log f/r⟩ under q of the one member there is, by the formula for two normals."""
    _, (member, *_), reference = members(mixture, n, t)
    q, family = normal(mixture.family, eta_q), mixture.family
    return expected_log_density(*q, *normal(family, member)) - expected_log_density(*q, *normal(family, reference))


def least_interior_bound(mixture, eta_q, n, t):
    """The interior bound of one latent at its best auxiliary, by simplex search over all admissible ones."""
    weights, atoms, reference = members(mixture, n, t)
    family = mixture.family
    g, mu = atoms - reference, expected_statistic(family, eta_q)
    shift = log_normaliser(family, atoms) - log_normaliser(family, reference)
    widest = (-2.0 * g[:, 1]).min()

    def bound(free):
        precision = np.exp(free[1]) - widest
        a = np.array([free[0] + precision * mu[0], -0.5 * precision])
        outside = (eta_q - a) @ mu - log_normaliser(family, eta_q)
        return outside + logsumexp(log_normaliser(family, a + g) - shift, b=weights)

    options = {"xatol": 1e-9, "fatol": 1e-13, "maxfev": 4000, "maxiter": 4000}
    found = np.array([0.0, 0.0])
    for _ in range(3):
        found = minimize(bound, found, method="Nelder-Mead", options=options).x
    return bound(found)
