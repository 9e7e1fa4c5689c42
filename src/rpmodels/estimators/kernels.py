"""From an estimator's plain arguments to a Gaussian-process prior that suits the data's own clock."""

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from gpytorch.kernels import Kernel, MaternKernel, PeriodicKernel, RBFKernel
from gpytorch.means import Mean
from numpy.typing import NDArray

from rpmodels import errors, memory
from rpmodels.checks import Array, Instance, Integer, Nothing, Number, Rule, Word
from rpmodels.estimators import parts
from rpmodels.estimators.regularisation import batch_size
from rpmodels.families import Family, Gaussian
from rpmodels.inference import FreeInducing
from rpmodels.observations import Observations, windowed
from rpmodels.priors import GaussianProcessPrior, MarkovianProcessPrior, state_space
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
"""Times in a trial beyond which a kernel that can does without inducing points."""
WINDOW = 200
"""Times of a window of a recording, with inducing points."""
PIECE = 2000
"""Times of a piece of a longer trial in training, without any: inference is over whole trials."""


@dataclass(frozen=True)
class Choices:
    """What the user said of the process, checked when it is built."""

    kernel: Any
    n_inducing: int | str | None
    inducing: Any
    mean: Any
    length_scale: float | str
    e_step: Any
    window: int | str | None

    def is_chain(self, longest: int) -> bool:
        """Whether trials of so many times are done without inducing points: when asked to, or where they are long."""
        free = self.n_inducing == "auto" and not isinstance(parts.e_step(self.e_step), FreeInducing)
        return self.n_inducing is None or (free and longest > LONG and self.can_be_chain())

    def can_be_chain(self) -> bool:
        """With a kernel that is a chain or near one, and nothing that asks for inducing points."""
        fixed = isinstance(self.inducing, str) and self.inducing == "fixed"
        return fixed and self.mean is None and (isinstance(self.kernel, str) or state_space.is_chain(self.kernel))

    def piece(self, longest: int) -> int | None:
        """How many times a piece of such a trial has in training; None for all."""
        if self.window is None or not self.is_chain(min(longest, self._piece)):
            return None
        return self._piece

    def pieces(self, observations: Observations) -> Observations:
        """What training steps see of trials."""
        length = self.piece(observations.n_sites)
        return observations if length is None else windowed(observations, length)

    def check_memory(
        self, prior: ProcessPrior, observations: Observations, batch: tuple[Any, int, int], bytes_a_number: int
    ) -> None:
        """Refuse inducing points whose first step would ask for more memory than there is."""
        if not isinstance(prior, GaussianProcessPrior):
            return
        trials, sites = batch_size(batch[0], observations, *batch[1:]) or len(observations), observations.n_sites
        # What a step computes it keeps once more for gradients.
        need, available = 2 * bytes_a_number * prior.numbers(trials, sites), memory.available()
        if need > available:
            fitting = max(1, int(prior.n_inducing * available / need))
            shown = memory.in_words(need), memory.in_words(available)
            raise errors.does_not_fit(prior.n_inducing, trials, sites, *shown, fitting, self.can_be_chain())

    def read_in(self, total: int) -> int | None:
        """The windows that a recording of so many times is read in; None: whole."""
        if self.window is None or self.is_chain(min(total, self._piece)):
            return None
        return WINDOW if isinstance(self.window, str) else self.window

    @property
    def _piece(self) -> int:
        return PIECE if isinstance(self.window, str) else cast(int, self.window)

    def prior(self, family: Family, observations: Observations) -> ProcessPrior:
        """With inducing points or without any."""
        longest = int(observations.exists.sum(1).max(initial=0))
        if self.is_chain(longest):
            if not self.can_be_chain():
                got = "None with another kernel, a mean or inducing places"
                expected = "a number or 'auto', unless there is a Matérn, RBF or periodic kernel, or sums and products"
                raise errors.bad_value("n_inducing", expected, got)
            return _chain(family, observations, self.kernel, self.length_scale)
        if self.window is None and longest > LONG:
            expected = (
                f"a number where there are more than {LONG} times and inducing points, or a kernel that needs none"
            )
            raise errors.bad_value("window", expected, None)
        assert self.n_inducing is not None
        return gaussian_process(
            family, observations, self.kernel, self.n_inducing, self.inducing, self.mean, self.length_scale
        )


def needs_no_windows(prior: Any) -> bool:
    """Whether latents of a recording are found in one piece, however long it is."""
    return isinstance(prior, MarkovianProcessPrior)


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
) -> tuple[Kernel, dict[str, Any]]:
    """A kernel of the user's in his own units, one of the library's in units of one inducing spacing."""
    if isinstance(kernel, Kernel):
        return copy.deepcopy(kernel), {}  # fit never changes what the user handed in
    spacing = _spacing(places, times)
    made = KERNELS[kernel](torch.Size([latents]))
    made.lengthscale = _start(length_scale, spacing) / spacing
    if isinstance(made, PeriodicKernel):
        made.period_length = (times[-1] - times[0]) / PERIODS / spacing
    return made, {"time_scale": spacing, "time_origin": float(times[0])}


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
