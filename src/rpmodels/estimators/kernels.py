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
from rpmodels.estimators import parts
from rpmodels.families import Family, Gaussian
from rpmodels.inference import FreeInducing
from rpmodels.observations import Observations
from rpmodels.priors import GaussianProcessPrior, MarkovianProcessPrior
from rpmodels.priors.process import ProcessPrior

KERNELS: dict[str, Callable[[torch.Size], Kernel]] = {
    "rbf": lambda shape: RBFKernel(batch_shape=shape),
    "matern12": lambda shape: MaternKernel(nu=0.5, batch_shape=shape),
    "matern32": lambda shape: MaternKernel(nu=1.5, batch_shape=shape),
    "matern52": lambda shape: MaternKernel(nu=2.5, batch_shape=shape),
    "periodic": lambda shape: PeriodicKernel(batch_shape=shape),
}
RULES: dict[str, Rule] = {
    "kernel": Word(*KERNELS) | Instance(Kernel, called="a GPyTorch kernel"),
    "n_inducing": Word("auto") | Integer(1),
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


def smooth(
    family: Family,
    observations: Observations,
    kernel: Any,
    n_inducing: int | str | None,
    inducing: Any,
    mean: Any,
    length_scale: float | str,
    *,
    e_step: Any,
    whole: bool,
) -> ProcessPrior:
    """The prior of RP-GPFA, with inducing points or without any; `whole`: recordings are not cut."""
    long = int(observations.exists.sum(1).max(initial=0)) > LONG
    free = n_inducing == "auto" and not isinstance(parts.e_step(e_step), FreeInducing)
    if n_inducing is None or (free and long and _is_chain(kernel, inducing, mean)):
        if not _is_chain(kernel, inducing, mean):
            got = "None with another kernel, a mean or inducing places"
            raise errors.bad_value("n_inducing", "a number or 'auto', unless there is a Matérn kernel alone", got)
        return _chain(family, observations, kernel, length_scale)
    if whole and long:
        expected = f"a number where there are more than {LONG} times and inducing points, or a Matérn kernel alone"
        raise errors.bad_value("window", expected, None)
    return gaussian_process(family, observations, kernel, n_inducing, inducing, mean, length_scale)


def gaussian_process(
    family: Family,
    observations: Observations,
    kernel: Any,
    n_inducing: int | str,
    inducing: Any,
    mean: Any,
    length_scale: float | str,
) -> GaussianProcessPrior:
    """With inducing points: the library's kernels run on a clock whose unit is one inducing spacing."""
    assert isinstance(family, Gaussian)
    for name, value in zip(RULES, (kernel, n_inducing, inducing, mean, length_scale), strict=True):
        RULES[name].check(name, value)
    times = np.unique(observations.times[observations.exists])
    places, learned = _places(inducing, n_inducing, times, family.latents)
    made, clock = _on_clock(kernel, length_scale, places, times, family.latents)
    return GaussianProcessPrior(family, made, places, learn_inducing=learned, mean=copy.deepcopy(mean), **clock)


def _chain(family: Family, observations: Observations, kernel: Any, length_scale: float | str) -> MarkovianProcessPrior:
    """Without any, on the clock that it has with as many as there are by default."""
    assert isinstance(family, Gaussian)
    RULES["length_scale"].check("length_scale", length_scale)
    times = np.unique(observations.times[observations.exists])
    made, clock = _on_clock(kernel, length_scale, _places("fixed", "auto", times, 1)[0], times, family.latents)
    return MarkovianProcessPrior(family, made, **clock)


def _on_clock(
    kernel: Any, length_scale: float | str, places: torch.Tensor, times: NDArray[np.float64], latents: int
) -> tuple[Kernel, dict[str, float]]:
    """A kernel of the user's in his own units, one of the library's in units of one inducing spacing."""
    if isinstance(kernel, Kernel):
        return copy.deepcopy(kernel), {}  # fit never changes what the user handed in
    spacing = _spacing(places, times)
    made = KERNELS[kernel](torch.Size([latents]))
    made.lengthscale = _start(length_scale, spacing) / spacing
    if isinstance(made, PeriodicKernel):
        made.period_length = (times[-1] - times[0]) / PERIODS / spacing
    return made, {"time_scale": spacing, "time_origin": float(times[0])}


def _is_chain(kernel: Any, inducing: Any, mean: Any) -> bool:
    """Whether the prior can do without inducing points: Matérn, with nothing that asks for some."""
    matern = kernel.startswith("matern") if isinstance(kernel, str) else type(kernel) is MaternKernel
    return matern and mean is None and isinstance(inducing, str) and inducing == "fixed"


def _start(length_scale: float | str, spacing: float) -> float:
    return spacing if isinstance(length_scale, str) else float(length_scale)


def _places(
    inducing: Any, n_inducing: int | str, times: NDArray[np.float64], latents: int
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


def _count(n_inducing: int | str, available: int) -> int:
    if isinstance(n_inducing, str):
        return min(available, max(FEWEST, available // 5))
    wanted = int(n_inducing)
    if wanted > available:
        warnings.warn(errors.too_many_inducing(wanted, available), stacklevel=2)
    return min(wanted, available)


def _spacing(places: torch.Tensor, times: NDArray[np.float64]) -> float:
    """Typical distance of neighbouring inducing points; the whole duration when there is one point."""
    if places.shape[-1] > 1:
        return float(places.sort(-1).values.diff(dim=-1).median())
    return max(float(times[-1] - times[0]), 1e-12) if len(times) > 1 else 1.0
