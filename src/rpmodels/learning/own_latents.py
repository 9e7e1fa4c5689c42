"""Latents of a linear model in the places that factors have for them: what one alone shows, where it alone looks.

A linear model knows nothing of targets, and the order and rotation of its latents are free: a factor that speaks of
some of them would begin at whatever stands there, and gradients seldom exchange two latents.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
RIDGE = 1e-3
"""Of regressions on latents, of their variance."""


def regression(rows: Array, latents: Array) -> tuple[Array, Array, Array]:
    """Loadings (D, K), offset and noise (D,) of rows (n, D) on latents (n, K) of mean zero."""
    offset = rows.mean(0)
    second = latents.T @ latents + RIDGE * len(latents) * np.eye(latents.shape[1])
    loadings = np.linalg.solve(second, latents.T @ (rows - offset)).T
    return loadings, offset, np.square(rows - offset - latents @ loadings.T).mean(0)


def rotation(latents: Array, tables: Mapping[str, Array], own: Mapping[str, Sequence[int]]) -> Array | None:
    """R (K, K): latents @ R have in every private place a direction of which factors other than its own say least.

    None where no factor has latents of its own, or only one factor has numbers.

    Args:
        latents: (n, K), of a linear model
        tables: {factor: (n, D)} what every factor shows there, zero (the mean) where it is missing
        own: {factor: the latents that it alone speaks of}

    """
    size = latents.shape[1]
    if not own or len(tables) < 2:
        return None
    says = {name: _information(rows, latents) for name, rows in tables.items()}
    rest, found = np.eye(size), np.zeros((size, size))
    for name, places in own.items():
        others = sum((each for other, each in says.items() if other != name), np.zeros((size, size)))
        # Eigenvectors come in ascending order: the first are those that the others know least of.
        vectors = rest @ np.linalg.eigh(rest.T @ others @ rest)[1]
        found[:, places], rest = vectors[:, : len(places)], vectors[:, len(places) :]
    shared = [k for k in range(size) if not any(k in places for places in own.values())]
    found[:, shared] = rest[:, ::-1]
    return found


def mixed_scales(time_scales: Array, turned: Array) -> Array:
    """Time scales of rotated latents: geometric means, by what each has of the old ones."""
    return np.asarray(np.exp(np.square(turned).T @ np.log(time_scales)))


def _information(rows: Array, latents: Array) -> Array:
    """BᵀN⁻¹B: how precisely a factor tells the latents, by a regression of what it shows."""
    loadings, _, noise = regression(rows, latents)
    return np.asarray((loadings.T / np.maximum(noise, np.finfo(float).tiny)) @ loadings)
