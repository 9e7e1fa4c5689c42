"""From an estimator's plain arguments to a Gaussian-process prior that suits the data's own clock."""

import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import Kernel, MaternKernel, PeriodicKernel, RBFKernel
from gpytorch.means import Mean
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.checks import Array, Instance, Integer, Nothing, Number, Rule, Word
from rpmodels.families import Family, Gaussian
from rpmodels.observations import Observations
from rpmodels.priors import GaussianProcessPrior, MarkovianProcessPrior

KERNELS: dict[str, Callable[[torch.Size], Kernel]] = {
    "rbf": lambda shape: RBFKernel(batch_shape=shape),
    "matern12": lambda shape: MaternKernel(nu=0.5, batch_shape=shape),
    "matern32": lambda shape: MaternKernel(nu=1.5, batch_shape=shape),
    "matern52": lambda shape: MaternKernel(nu=2.5, batch_shape=shape),
    "periodic": lambda shape: PeriodicKernel(batch_shape=shape),
}
RULES: dict[str, Rule] = {
    "kernel": Word(*KERNELS) | Instance(Kernel, called="a GPyTorch kernel"),
    "n_inducing": Nothing() | Word("auto") | Integer(1),
    "inducing": Word("fixed", "learned") | Array(1, 2),
    "mean": Nothing() | Instance(Mean, called="a GPyTorch mean"),
    "length_scale": Word("auto") | Number(above=0.0),
}
"""What plain values may be."""
FEWEST = 20
PERIODS = 2.0
"""A periodic kernel starts with this many periods in the longest trial."""
LONG = 1000
"""Times in a trial beyond which a Matérn kernel does without inducing points."""


def gaussian_process(
    family: Family,
    observations: Observations,
    kernel: Any,
    n_inducing: int | str | None,
    inducing: Any,
    mean: Any,
    length_scale: float | str,
    *,
    needs_inducing: bool = False,
) -> GaussianProcessPrior | MarkovianProcessPrior:
    """The prior of RP-GPFA: the library's kernels run on a clock whose unit is one inducing spacing.

    Without inducing points that of "auto" is meant.
    """
    assert isinstance(family, Gaussian)
    for name, value in zip(RULES, (kernel, n_inducing, inducing, mean, length_scale), strict=True):
        RULES[name].check(name, value)
    times = np.unique(observations.times[observations.exists])
    long = n_inducing == "auto" and not needs_inducing and int(observations.exists.sum(1).max(initial=0)) > LONG
    chained = n_inducing is None or (long and _is_chain(kernel, inducing, mean))
    if chained and not _is_chain(kernel, inducing, mean):
        got = "another kernel, a mean or inducing places"
        raise errors.bad_value("n_inducing", "a number or 'auto', unless the kernel alone is given, a Matérn one", got)
    places, learned = _places(inducing, "auto" if chained else n_inducing, times, family.latents)
    kernel, mean = copy.deepcopy((kernel, mean))  # fit never changes what the user handed in
    if isinstance(kernel, Kernel):  # in the user's own units
        if chained:
            return MarkovianProcessPrior(family, kernel)
        return GaussianProcessPrior(family, kernel, places, learn_inducing=learned, mean=mean)
    spacing = _spacing(places, times)
    made = KERNELS[kernel](torch.Size([family.latents]))
    made.lengthscale = _start(length_scale, spacing) / spacing
    if isinstance(made, PeriodicKernel):
        made.period_length = (times[-1] - times[0]) / PERIODS / spacing
    if chained:
        return MarkovianProcessPrior(family, made, time_scale=spacing, time_origin=float(times[0]))
    return GaussianProcessPrior(
        family, made, places, learn_inducing=learned, mean=mean, time_scale=spacing, time_origin=float(times[0])
    )


def _is_chain(kernel: Any, inducing: Any, mean: Any) -> bool:
    """Whether the prior can do without inducing points: Matérn, with nothing that asks for some."""
    matern = kernel.startswith("matern") if isinstance(kernel, str) else isinstance(kernel, MaternKernel)
    return matern and mean is None and isinstance(inducing, str) and inducing == "fixed"


def _start(length_scale: float | str, spacing: float) -> float:
    return spacing if isinstance(length_scale, str) else float(length_scale)


def _places(
    inducing: Any, n_inducing: int | str | None, times: NDArray[np.float64], latents: int
) -> tuple[torch.Tensor, bool]:
    """τ, and whether it is learned."""
    if not isinstance(inducing, str):
        places = torch.as_tensor(np.array(inducing, np.float64))
        if places.ndim > 1 and len(places) != latents:
            raise errors.bad_value("inducing", f"shape (M,) or ({latents}, M)", f"shape {tuple(places.shape)}")
        if not bool((places.sort(-1).values.diff(dim=-1) > 0).all()):
            raise errors.bad_value("inducing", "different places", places.tolist())
        return places, False
    count = _count(n_inducing, len(times))
    if count == len(times):
        return torch.as_tensor(times), inducing == "learned"
    return torch.linspace(float(times[0]), float(times[-1]), count, dtype=torch.float64), inducing == "learned"


def _count(n_inducing: int | str | None, available: int) -> int:
    if not isinstance(n_inducing, int):
        return min(available, max(FEWEST, available // 5))
    wanted = n_inducing
    if wanted > available:
        warnings.warn(errors.too_many_inducing(wanted, available), stacklevel=2)
    return min(wanted, available)


def _spacing(places: torch.Tensor, times: NDArray[np.float64]) -> float:
    """Typical distance of neighbouring inducing points; the whole duration when there is one point."""
    if places.shape[-1] > 1:
        return float(places.sort(-1).values.diff(dim=-1).median())
    return max(float(times[-1] - times[0]), 1e-12) if len(times) > 1 else 1.0
