"""Simulated data, each kind once.

Everything is drawn from its seed in a fixed order: the numbers of references.json depend on it.
"""

import numpy as np

import rpmodels as rp


def clusters(n=60, k=3, width=4, *, names="ab", distance=1.0, noise=0.4, seed=0, places=None):
    """Factors that share one of k classes and nothing else, and the classes.

    `places` is a seed for the centres alone, where other observations of the same classes are to be drawn.
    """
    random = np.random.default_rng(seed)
    where = random if places is None else np.random.default_rng(places)
    z = random.integers(k, size=n)
    x = {}
    for name in names:
        centres = distance * where.normal(size=(k, width))
        x[name] = centres[z] + noise * random.normal(size=(n, width))
    return x, z


def views(n=60, latents=1, width=4, *, names="ab", noise=1.0, seed=0):
    """Factors that are linear in the same normal latents, and the latents."""
    random = np.random.default_rng(seed)
    z = random.normal(size=(n, latents))
    x = {name: z @ random.normal(size=(latents, width)) + noise * random.normal(size=(n, width)) for name in names}
    return x, z


def headings(n=60, width=4, *, names="ab", noise=0.5, seed=0):
    """Factors that are linear in the cosine and sine of the same angles, and the angles."""
    random = np.random.default_rng(seed)
    z = random.uniform(-np.pi, np.pi, n)
    points = np.stack([np.cos(z), np.sin(z)], -1)
    x = {name: points @ random.normal(size=(2, width)) + noise * random.normal(size=(n, width)) for name in names}
    return x, z


def ball(n=8, t=20, seed=0):
    """The plain ball: x (n, t, pixels), and z, where it was."""
    return rp.datasets.plain_ball(n_trials=n, n_times=t, random_state=seed)


def waves(lengths, width, *, period, noise, random, mixing=None):
    """Trials of a sine wave of any phase in channels of random strength: each trial's own, or `mixing`."""
    trials = []
    for n in lengths:
        wave = np.sin(np.arange(n)[:, None] / period + random.uniform(0, 6))
        seen = wave @ (random.normal(size=(1, width)) if mixing is None else mixing)
        trials.append(seen + noise * random.normal(size=(n, width)))
    return trials


def dynamics(step, modulus, loadings, n, t, *, noise, seed=0, drive=None):
    """Latents z' = step z + drive + noise with |step| = modulus and unit variance, behind noisy linear measurements."""
    random, size = np.random.default_rng(seed), len(step)
    z = np.empty((n, t, size))
    z[:, 0] = random.standard_normal((n, size))
    for time in range(1, t):
        before = z[:, time - 1] @ step.T + (0 if drive is None else drive[:, time - 1])
        z[:, time] = before + np.sqrt(1 - modulus**2) * random.standard_normal((n, size))
    return z @ loadings + noise * random.standard_normal((n, t, loadings.shape[1])), z


def rotation(angle, modulus):
    """The step of a slowly dying rotation."""
    return modulus * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
