"""What a factor shows, on the scale of the fit: channels standardised and clipped, NaN where one is missing."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from numpy.typing import NDArray

from rpmodels.observations import FactorSpec, Observations, are_counts, windowed

CLIP = 4.0
"""Standardised values are clipped here, so that averages answer to many values and not to one."""
NUMBERS = 2**21
"""Of a factor that are looked at in a fit: of more, evenly spaced trials."""
FEW_TRIALS, PIECES, SHORTEST = 8, 32, 16
"""Fewer trials are cut into so many pieces, none shorter than this."""
LABELS = 64
"""Labels that are told apart; the others count as one."""

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Scale:
    """How a factor looked in the fit: counts by their roots, labels one by one, what is no vector by mean and sd."""

    form: str
    """"numbers", "counts", "labels" or "pictures"."""
    offset: Float[np.ndarray, "C"]
    spread: Float[np.ndarray, "C"]

    @property
    def counted(self) -> bool:
        """Whether zero means that there was nothing."""
        return self.form in ("counts", "labels")

    @staticmethod
    def of(values: Array, form: str) -> "Scale":
        """Mean and sd of (N, T, C) where values are known, found again without what is far outside."""
        flat = values.reshape(-1, values.shape[-1])
        with np.errstate(invalid="ignore"):
            offset, spread = _moments(flat)
            far = np.abs(flat - offset) > 1.5 * CLIP * spread
            if far.any():
                offset, spread = _moments(np.where(far, np.nan, flat))
        return Scale(form, offset, np.where(spread > 1e-9 * (1.0 + np.abs(offset)), spread, 1.0))

    def scaled(self, values: Array) -> Array:
        """Standardised, not clipped."""
        scaled: Array = (values - self.offset) / self.spread
        return scaled


def _moments(flat: Array) -> tuple[Array, Array]:
    known = ~np.isnan(flat)
    count = np.maximum(known.sum(0), 1)
    # In units of the largest: squares of very large and very small numbers are none.
    unit = np.abs(np.where(known, flat, 0.0)).max(0, initial=0.0)
    unit = np.where(unit > 0, unit, 1.0)
    flat = flat / unit
    mean = np.where(known, flat, 0.0).sum(0) / count
    centred = np.where(known, flat - mean, 0.0)
    return unit * mean, unit * np.sqrt(np.square(centred).sum(0) / count)


@dataclass(frozen=True)
class Shown:
    """One factor of some trials."""

    raw: Float[np.ndarray, "N T C"]
    """Numbers as they came, NaN where one is missing."""
    numbers: Float[np.ndarray, "N T C"]
    """The same on the way to their scale: roots of counts."""
    exists: Bool[np.ndarray, "N T"]
    scale: Scale
    elsewhere: Bool[np.ndarray, "C"] | None = None
    """Channels that were there in other parts of the same data."""

    @cached_property
    def unclipped(self) -> Array:
        """(N, T, C), standardised."""
        return self.scale.scaled(self.numbers)

    @cached_property
    def values(self) -> Array:
        """(N, T, C), standardised and clipped."""
        return np.clip(self.unclipped, -CLIP, CLIP)

    @property
    def enough(self) -> bool:
        """Whether these are trials enough to tell where and how large they are as a whole."""
        return len(self.raw) >= FEW_TRIALS

    @cached_property
    def centre(self) -> Array:
        """(C,): the mean of these trials; of few that of the fit."""
        return np.nan_to_num(known_mean(self.values, (0, 1))) if self.enough else np.zeros(self.n_channels)

    @cached_property
    def known(self) -> NDArray[np.bool_]:
        """(N, T, C): whether a number is there."""
        return np.asarray(~np.isnan(self.raw))

    @property
    def left_out(self) -> NDArray[np.bool_]:
        """(C,): channels that are never there, which is no defect."""
        absent = ~self.known.any((0, 1))
        return np.asarray(absent if self.elsewhere is None else absent & ~self.elsewhere)

    @property
    def n_sites(self) -> int:
        """T."""
        return int(self.exists.shape[1])

    @property
    def n_channels(self) -> int:
        """C."""
        return int(self.raw.shape[2])


def known_mean(values: Array, axis: int | tuple[int, ...]) -> Array:
    """Over what is known, NaN where nothing is."""
    known = ~np.isnan(values)
    count = known.sum(axis)
    total = np.where(known, values, 0.0).sum(axis)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def piece_length(observations: Observations) -> int | None:
    """Of pieces that few long trials are cut into, as averages over trials need some; None where trials are enough."""
    if len(observations) >= FEW_TRIALS:
        return None
    length = max(SHORTEST, int(observations.exists.sum()) // PIECES)
    return length if observations.n_sites >= 2 * length else None


def parts_of(
    observations: Observations, piece: int | None
) -> tuple[Observations, NDArray[np.int64], NDArray[np.int64]]:
    """Trials or their pieces, and of each the trial and the site where it begins."""
    trials = np.arange(len(observations))
    if piece is None or observations.n_sites <= piece:
        return observations, trials, np.zeros_like(trials)
    cut = windowed(observations, piece)
    begins = np.arange(-(-observations.n_sites // piece)) * piece
    lengths = observations.exists.sum(1)
    kept = (begins < lengths[:, None]) | (begins == 0)
    trial, place = np.nonzero(kept)
    return cut, trial, begins[place]


def form_of(spec: FactorSpec, rows: NDArray[Any]) -> str:
    """What kind of numbers a factor has."""
    if spec.is_label:
        return "labels"
    if len(spec.event_shape) != 1:
        return "pictures"
    return "counts" if are_counts(rows) and bool((rows > 1).any()) else "numbers"


def shown_of(observations: Observations, name: str, scale: Scale | None = None) -> Shown:
    """One factor, on the scale of the fit; without one, these are the data of the fit."""
    spec = observations.specs[name]
    there = observations.present[name] & observations.exists
    array = np.asarray(observations.values[name])
    form = form_of(spec, array[there]) if scale is None else scale.form
    raw = raw_of(spec, array, there, form)
    return Shown(raw, _roots(raw, form), observations.exists, scale or Scale.of(_roots(raw, form), form))


def shown_rows(raw: Array, scale: Scale, elsewhere: NDArray[np.bool_]) -> Shown:
    """(T, C) of one series on the scale of the fit, every row of which exists."""
    return Shown(raw[None], _roots(raw[None], scale.form), np.ones((1, len(raw)), bool), scale, elsewhere)


def raw_of(spec: FactorSpec, array: NDArray[Any], there: NDArray[np.bool_], form: str) -> Array:
    """(N, T, C) as it came, NaN where the factor is missing."""
    return np.where(there[..., None], _channels(spec, array, form), np.nan)


def _roots(raw: Array, form: str) -> Array:
    return np.asarray(np.sqrt(np.maximum(raw, 0.0)) if form == "counts" else raw)


def _channels(spec: FactorSpec, array: NDArray[Any], form: str) -> Array:
    """(N, T, C) of whatever a factor is."""
    if form == "labels":
        size = min(LABELS, max(1, len(spec.vocabulary or ())))
        return np.asarray(np.minimum(array, size - 1)[..., None] == np.arange(size), np.float64)
    if form == "pictures":
        flat = np.asarray(array.reshape(*array.shape[:2], -1), np.float64)
        return np.stack([flat.mean(-1), flat.std(-1)], -1)
    return np.asarray(array, np.float64)


def usual_step(observations: Observations) -> float:
    """Between neighbouring times, the median of all trials; 0 where there is one site."""
    both = observations.exists[:, 1:] & observations.exists[:, :-1]
    steps = np.diff(observations.times, axis=1)[both]
    return float(np.median(steps)) if steps.size else 0.0
