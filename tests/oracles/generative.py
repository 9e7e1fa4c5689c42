"""The generative side of an RPM: linear-Gaussian in closed form, any Gaussian one by integration over a dense grid."""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.stats import multivariate_normal

from oracles.gaussians import normal


@dataclass
class LinearGaussian:
    """x_j = L_j z + σ ε at every site, the latents of all sites one normal with this covariance (T, K, T, K)."""

    loadings: dict
    noise: float
    covariance: np.ndarray

    def marginal(self, name):
        """Covariance of x_j at one site; latents have unit variances there."""
        loading = self.loadings[name]
        return loading @ loading.T + self.noise**2 * np.eye(len(loading))

    def covariance_of(self, one, other):
        """Of what two factors show at all sites: (T, D, T, D′)."""
        return np.einsum("ik,tksl,jl->tisj", self.loadings[one], self.covariance, self.loadings[other])

    def predicted(self, name, seen):
        """Mean (T, D) and covariance (T, D, D) of x_j at every site, given {other: (T, D)}."""
        sites = len(self.covariance)

        def flat(one, other):
            block = self.covariance_of(one, other)
            return block.reshape(block.shape[0] * block.shape[1], -1)

        inside = np.block([[flat(one, other) for other in seen] for one in seen])
        inside = inside + self.noise**2 * np.eye(len(inside))
        across = np.concatenate([flat(name, other) for other in seen], 1)
        own = flat(name, name)
        own = own + self.noise**2 * np.eye(len(own))
        gain = np.linalg.solve(inside, across.T).T
        mean = gain @ np.concatenate([np.ravel(each) for each in seen.values()])
        left = (own - gain @ across.T).reshape(sites, -1, sites, len(self.loadings[name]))
        return mean.reshape(sites, -1), np.einsum("titj->tij", left)


def members(atoms, site):
    """Means and covariances of f_j(z|x_m), and p₀, of the atoms of a site."""
    s = min(site, len(atoms.g) - 1)
    mean, covariance = normal(atoms.family, atoms.reference[min(s, len(atoms.reference) - 1)] + atoms.g[s])
    counts = atoms.log_count[s].exp().numpy()
    return mean, covariance, counts


def densities(mean, covariance, z):
    """(…, places)."""
    return np.stack([multivariate_normal.pdf(z, m, c).reshape(len(z)) for m, c in zip(mean, covariance, strict=True)])


def imputed_on_a_grid(model, etas, name, z, log_p, targets=None):
    """p(x_j = m | others) at every site, by summing over all joint values of z (places, T, K) with log p(Z).

    `etas`: {other: {site: η of its own factor there}}; a new observation counts once among its atoms.
    `targets`: the latents that a factor speaks of, of those that speak of some.
    """
    total, every = log_p.copy(), list(range(z.shape[-1]))
    places = {each: (targets or {}).get(each, every) for each in (*etas, name)}
    for other, seen in etas.items():
        atoms = model.atoms(other)
        for site, eta in seen.items():
            mean, covariance, counts = members(atoms, site)
            here = z[:, site][:, places[other]]
            own = densities(*(each[None] for each in normal(atoms.family, eta)), here)[0]
            everyone = counts @ densities(mean, covariance, here)
            total += np.log(own) - np.log((everyone + own) / (counts.sum() + 1))
    share = np.exp(total - total.max())
    share /= share.sum()
    found = []
    for site in range(z.shape[1]):
        mean, covariance, counts = members(model.atoms(name), site)
        weights = counts[:, None] * densities(mean, covariance, z[:, site][:, places[name]])
        found.append((weights / weights.sum(0)) @ share)
    return np.stack(found)


def lattice(sites, latents, reach, points):
    """Joint values (places, T, K)."""
    axis = np.linspace(-reach, reach, points)
    return np.array(list(itertools.product(axis, repeat=sites * latents))).reshape(-1, sites, latents)
