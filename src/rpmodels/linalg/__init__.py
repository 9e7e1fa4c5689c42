"""Linear algebra, and nothing of the models: dense matrices here, chains of Gaussians in `block_tridiagonal`."""

from rpmodels.linalg.dense import (
    LOG_2PI,
    cholesky,
    inverse,
    inverse_and_log_det,
    is_positive_definite,
    jitter,
    kernel_cholesky,
    log_det,
    normal_log_density,
    root,
    solve,
    spectrum,
)
from rpmodels.linalg.spectral import before_eigenvalues_above, before_threshold, eigenvalues_above, soft_threshold
from rpmodels.linalg.sums import log_sum_exp

__all__ = [
    "LOG_2PI",
    "before_eigenvalues_above",
    "before_threshold",
    "cholesky",
    "eigenvalues_above",
    "inverse",
    "inverse_and_log_det",
    "is_positive_definite",
    "jitter",
    "kernel_cholesky",
    "log_det",
    "log_sum_exp",
    "normal_log_density",
    "root",
    "soft_threshold",
    "solve",
    "spectrum",
]
