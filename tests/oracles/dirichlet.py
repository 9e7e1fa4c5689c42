"""The bound of latent Dirichlet allocation in NumPy: term by term, and climbed by plain sweeps."""

import numpy as np
from scipy.special import digamma, gammaln, logsumexp


def log_beta(a):
    return gammaln(a).sum(-1) - gammaln(a.sum(-1))


def softmax(x):
    return np.exp(x - logsumexp(x, axis=-1, keepdims=True))


def elbo(q, a, potentials, alpha):
    """Of one observation, for any q(z) (T, K) and q(ω) = Dirichlet(a), term by term."""
    log_omega = digamma(a) - digamma(a.sum())
    kl_omega = log_beta(alpha) - log_beta(a) + ((a - alpha) * log_omega).sum()
    kl_z = (q * (np.log(np.maximum(q, 1e-300)) - log_omega)).sum()
    return float((q * potentials).sum() - kl_omega - kl_z)


def swept(potentials, alpha, sweeps):
    """q(z) and a after so many of the plain sweeps of (A18), from a uniform q(z); potentials (N, T, K)."""
    t, k = potentials.shape[1:]
    a = np.tile(alpha + t / k, (len(potentials), 1))
    for _ in range(sweeps):
        a = alpha + softmax(potentials + digamma(a)[:, None]).sum(1)
    return softmax(potentials + digamma(a)[:, None]), a
