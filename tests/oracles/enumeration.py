"""Discrete latents by summing over all they can be: states, sequences, words of sites, tuples of atoms."""

import itertools

import numpy as np
import torch
from scipy.special import logsumexp

from oracles.dirichlet import log_beta


class Enumerated:
    """Everything about one Markov chain by summing over all its sequences."""

    def __init__(self, prior, potentials):
        length, self.states = potentials.shape
        first = prior.initial.log_weights()[0].double().numpy()
        step = prior.transition.log_weights().double().numpy()
        says = potentials.detach().numpy()
        self.paths = np.array(list(itertools.product(range(self.states), repeat=length)))
        self.log_p = np.array([first[z[0]] + sum(step[a, b] for a, b in itertools.pairwise(z)) for z in self.paths])
        self.log_joint = self.log_p + np.array([says[range(length), z].sum() for z in self.paths])
        self.log_partition = np.logaddexp.reduce(self.log_joint)
        self.q = np.exp(self.log_joint - self.log_partition)

    def marginal(self, t):
        return np.array([self.q[self.paths[:, t] == k].sum() for k in range(self.states)])

    def pair(self, t):
        both, states = self.paths[:, t : t + 2], range(self.states)
        return np.array([[self.q[(both == [i, j]).all(1)].sum() for j in states] for i in states])

    @property
    def kl(self):
        return float((self.q * (np.log(self.q) - self.log_p)).sum())


def log_sum_of_words(potentials, alpha):
    """log Σ_z exp(Σ_t potentials) ∫ p(z|ω) p(ω) dω of a Dirichlet prior, by enumeration of z."""
    t, k = potentials.shape
    every = np.array(list(itertools.product(range(k), repeat=t)))
    counts = (every[..., None] == np.arange(k)).sum(1)
    return float(logsumexp(potentials[np.arange(t), every].sum(1) + log_beta(alpha + counts) - log_beta(alpha)))


def every_tuple(data):
    """Every tuple of atoms, one site each."""
    n = len(next(iter(data.values())))
    index = np.array(list(itertools.product(range(n), repeat=len(data))))
    return {name: values[index[:, j]] for j, (name, values) in enumerate(data.items())}


def probabilities(model):
    """p(k), f_j(k|x_n), F_j(k) of a discrete model, computed from its atoms and nothing else."""
    atoms = [model.atoms(name) for name in model.names]
    f = [torch.softmax(each.g[0] + each.reference, -1) for each in atoms]
    counts = [each.log_count[0].exp() for each in atoms]
    mixtures = [(c[:, None] * each).sum(0) / c.sum() for c, each in zip(counts, f, strict=True)]
    return model.prior.probabilities, f, mixtures
