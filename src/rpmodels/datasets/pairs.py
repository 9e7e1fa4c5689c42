"""Peer supervision: groups of different images of the same class."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.datasets.mnist import Images


def make_pairs(
    images: NDArray[Any],
    labels: NDArray[np.int64],
    *,
    n_factors: int = 2,
    per_class: int | None = None,
    random_state: int | None = None,
) -> tuple[dict[str, NDArray[Any]], NDArray[np.int64]]:
    """{"x1": …, "x2": …} of `n_factors` images of the same class, and the class of every group.

    Every image is in one group at most. `per_class` defaults to as many as the smallest class has: 2 710
    for MNIST, the paper's N = 27 100 pairs.
    """
    if n_factors < 2:
        raise errors.bad_value("n_factors", "at least 2", n_factors)
    random = np.random.default_rng(random_state)
    classes, counts = np.unique(labels, return_counts=True)
    groups = int(counts.min()) // n_factors if per_class is None else per_class
    members = []
    for label, count in zip(classes, counts, strict=True):
        if groups < 1 or count < groups * n_factors:
            raise errors.too_few_images(label, max(1, groups) * n_factors, int(count))
        picked = random.permutation(np.flatnonzero(labels == label))[: groups * n_factors]
        members.append(picked.reshape(groups, n_factors))
    index = random.permutation(np.concatenate(members))
    return {f"x{j + 1}": images[index[:, j]] for j in range(n_factors)}, labels[index[:, 0]]


def load_digit_images(random_state: int | None = None, test_fraction: float = 0.25) -> Images:
    """scikit-learn's 1 797 digits, (8, 8) in [0, 1], split by seed: no download."""
    from sklearn.datasets import load_digits  # noqa: PLC0415 (other data sets do not need it)

    bundle = load_digits()
    images, labels = (bundle.images / 16.0).astype(np.float32), bundle.target.astype(np.int64)
    order = np.random.default_rng(random_state).permutation(len(labels))
    test, train = np.split(order, [round(test_fraction * len(order))])
    return Images(images[train], labels[train], images[test], labels[test])
