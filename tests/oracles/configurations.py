"""Graphs of discrete latents by summing over all configurations."""

import itertools

import numpy as np
import torch


class Configurations:
    """Every configuration of a `JointStates` family, with its log p up to a constant."""

    def __init__(self, family, eta):
        self.family = family
        self.z = np.array(list(itertools.product(*(range(k) for k in family.states))))
        eta, start = eta.detach().double().numpy(), 0
        self.log_joint = np.zeros(len(self.z))
        for scope in family.scopes:
            shape = [family.states[a] for a in scope]
            table = eta[start : start + int(np.prod(shape))].reshape(shape)
            self.log_joint += table[tuple(self.z[:, a] for a in scope)]
            start += table.size
        self.log_partition = np.logaddexp.reduce(self.log_joint)
        self.q = np.exp(self.log_joint - self.log_partition)

    def joint(self, latents):
        """p of the joint states of some latents, in the order they are given."""
        table = np.zeros([self.family.states[a] for a in latents])
        np.add.at(table, tuple(self.z[:, a] for a in latents), self.q)
        return table

    @property
    def mu(self):
        return np.concatenate([self.joint(scope).ravel() for scope in self.family.scopes])

    @property
    def most_probable(self):
        return self.z[self.log_joint.argmax()]


def random_graph(seed, latents=8):
    """Names, numbers of states, parents and further scopes of up to so many latents."""
    random = np.random.default_rng(seed)
    count = int(random.integers(2, latents + 1))
    names = [f"z{a}" for a in random.permutation(count)]
    states = {name: int(random.integers(2, 4)) for name in names}
    order = list(random.permutation(names))
    parents = {}
    for i, name in enumerate(order):
        above = [each for each in order[:i] if random.random() < 2.0 / count]
        if above:
            parents[name] = above[:3]
    scopes = [
        tuple(random.choice(names, min(count, int(random.integers(1, 4))), replace=False)) for _ in range(count // 2)
    ]
    return states, parents, scopes


def random_tables(states, parents, seed):
    """p(z_a | parents) of every latent."""
    random = np.random.default_rng(seed)
    return {
        name: torch.as_tensor(random.dirichlet(np.ones(size), [states[each] for each in parents.get(name, ())]))
        for name, size in states.items()
    }
