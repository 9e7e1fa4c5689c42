"""Input scaling per factor: chosen by dtype and range, fitted on training data only, kept in the model."""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np
import torch
from jaxtyping import Bool, Shaped
from numpy.typing import NDArray
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.carriers import kept_double
from rpmodels.tracing import recording

ScalingName = Literal["auto", "none", "standard", "robust", "sqrt", "unit"]
NAMES: tuple[str, ...] = ("auto", "none", "standard", "robust", "sqrt", "unit")
TINY, HUGE = 1e-30, 1e30
"""Scales beyond which squares leave the range of single precision."""
ORDINARY = (1e-140, 1e140)
"""Sizes of numbers that have squares in double precision."""
CLIP = 4.0
"""Standardised inputs are clipped here: one outlier of 27 sd can throw a posterior outside its prior."""


class Scaling(nn.Module, ABC):
    """From a factor's rows as the user has them to what its network sees."""

    clipped = 0
    """Training values beyond the clip, of `seen`."""
    seen = 0

    def outside(self, rows: Shaped[Tensor, "n *event"]) -> Bool[Tensor, "n *event"]:
        """Which numbers are beyond what it tells apart: none, where it knows of no range."""
        return torch.zeros_like(rows, dtype=torch.bool)

    @abstractmethod
    def forward(self, rows: Shaped[Tensor, "n *event"], dtype: torch.dtype) -> Shaped[Tensor, "n *event"]:
        """Scaled rows."""


class Unscaled(Scaling):
    """Numbers as they are."""

    def forward(self, rows: Shaped[Tensor, "n *event"], dtype: torch.dtype) -> Shaped[Tensor, "n *event"]:
        """Only the precision changes."""
        return rows.to(dtype)


class Labels(Scaling):
    """Codes of categories, for a lookup table."""

    def forward(self, rows: Shaped[Tensor, "n *event"], dtype: torch.dtype) -> Shaped[Tensor, "n *event"]:
        """Untouched."""
        return rows


class Affine(Scaling):
    """x ↦ clip(((√x or x) − offset) / scale)."""

    offset: Tensor
    scale: Tensor

    def __init__(self, offset: Tensor, scale: Tensor, clip: float = math.inf, root: bool = False) -> None:
        super().__init__()
        self.register_buffer("offset", offset.double())
        self.register_buffer("scale", scale.double())
        self.clip = clip
        self.root = root
        self._looked: tuple[Tensor | None, Tensor | None, tuple[int, int], bool] = (None, None, (0, 0), False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> "Affine":
        return cast("Affine", super()._apply(kept_double(fn), recurse))  # type: ignore[no-untyped-call]

    def forward(self, rows: Shaped[Tensor, "n *event"], dtype: torch.dtype) -> Shaped[Tensor, "n *event"]:
        """Scaled and clipped."""
        scaled = self._unclipped(rows, dtype)
        return scaled if math.isinf(self.clip) else scaled.clamp(-self.clip, self.clip)

    def outside(self, rows: Shaped[Tensor, "n *event"]) -> Bool[Tensor, "n *event"]:
        """Those that are clipped."""
        return self._unclipped(rows, torch.float64 if rows.dtype == torch.float64 else torch.float32).abs() > self.clip

    def _unclipped(self, rows: Shaped[Tensor, "n *event"], dtype: torch.dtype) -> Shaped[Tensor, "n *event"]:
        # Centred in their own precision, then rounded. Bytes and the like need no more than the model's.
        values = rows if rows.dtype in (torch.float64, torch.int64) else rows.to(dtype)
        if not recording() and self._beyond():
            values = rows.double()  # whose own numbers are beyond single precision
        if self.root:
            values = values.clamp_min(0).sqrt()
        wide = torch.promote_types(values.dtype, dtype)
        return ((values - self.offset.to(wide)) / self.scale.to(wide)).to(dtype)

    def _beyond(self) -> bool:
        """Whether single precision is too small for these numbers, which are looked at when they change."""
        versions = (self.offset._version, self.scale._version)
        offset, scale, before, beyond = self._looked
        if offset is not self.offset or scale is not self.scale or before != versions:
            near = (self.scale > TINY).all() & (self.scale + self.offset.abs() < HUGE).all()
            beyond = bool(self.scale.numel()) and not bool(near)
            self._looked = (self.offset, self.scale, versions, beyond)
        return beyond

    def extra_repr(self) -> str:
        """Shown by print(model)."""
        return f"clip={self.clip}, root={self.root}, clipped {self.clipped} of {self.seen} training values"


def fit_scaling(factor: str, rows: NDArray[Any], name: str, is_label: bool) -> Scaling:
    """The scaling of one factor, from its present training rows (n, *event)."""
    if name not in NAMES:
        raise errors.bad_choice(f"the scaling of factor '{factor}'", NAMES, name)
    if is_label:
        return Labels()
    chosen = suggested_scaling(rows) if name == "auto" else name
    if chosen == "none":
        return Unscaled()
    if chosen == "unit":
        return Affine(torch.zeros(()), torch.full((), 255.0))
    return _affine(factor, rows, chosen)


def suggested_scaling(rows: NDArray[Any]) -> str:
    """The scaling that dtype and range suggest."""
    kind, images = rows.dtype.kind, rows.ndim >= 3
    if kind == "b" or rows.size == 0:
        return "none"
    low, high = float(rows.min()), float(rows.max())
    if rows.dtype == np.uint8 and (images or high > 127):
        return "unit"
    if images and low >= 0.0 and high <= 1.0:
        return "none"
    if low >= 0 and high > 1 and (kind in "iu" or _whole_numbers(rows)):
        return "sqrt"
    return "standard"


def _whole_numbers(rows: NDArray[Any]) -> bool:
    sample = rows[:1000]
    return bool((sample == np.round(sample)).all()) and bool((rows == np.round(rows)).all())


def _affine(factor: str, rows: NDArray[Any], name: str) -> Scaling:
    """Centre and scale per column of a vector; one pair of numbers for a whole image."""
    root = name == "sqrt"
    values = np.sqrt(np.maximum(rows, 0)) if root else np.asarray(rows)
    axis = 0 if values.ndim <= 2 else None
    if name == "robust":
        low, offset, high = np.percentile(values, [25, 50, 75], axis=axis)
        # More than half the values equal (sparse data): the quartiles say nothing, the spread does.
        scale = np.where(high > low, (high - low) / 1.349, _centre_and_spread(values, axis)[1])
    else:
        offset, scale = _centre_and_spread(values, axis)
    constant = np.asarray(values.max(axis=axis) == values.min(axis=axis))
    if constant.any():
        warnings.warn(errors.constant_channels(factor, np.flatnonzero(np.atleast_1d(constant))), stacklevel=2)
    scale = np.where(constant, 1.0, scale)
    scaling = Affine(torch.as_tensor(offset), torch.as_tensor(scale), CLIP, root)
    scaling.clipped = int((np.abs(values - offset) > CLIP * scale).sum())
    scaling.seen = int(values.size)
    return scaling


def _centre_and_spread(values: NDArray[Any], axis: int | None) -> tuple[Any, Any]:
    """Mean and sd; of numbers whose squares overflow or vanish in units in which they do not."""
    reach = float(np.abs(values).max(initial=0))
    unit = reach if reach > 0 and not ORDINARY[0] < reach < ORDINARY[1] else 1.0
    inside = values if unit == 1.0 else np.asarray(values, np.float64) / unit
    mean, sd = inside.mean(axis=axis, dtype=np.float64), inside.std(axis=axis, dtype=np.float64)
    return mean * unit, sd * unit
