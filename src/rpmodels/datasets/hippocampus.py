"""A rat on a linear track: raw spikes of CA1 units and video tracking (nelpy example data, MIT licence)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.io import loadmat
from scipy.io.matlab import MatReadError
from scipy.ndimage import gaussian_filter1d

from rpmodels import checks, errors
from rpmodels.datasets.fetch import RemoteFile

_MIRRORS = ("https://raw.githubusercontent.com/nelpy/example-data/master/linear-track",)
SPIKES = RemoteFile("hippocampus", "spikes.mat", "920fd8e71aefd07fd9eea67cd4160e25", _MIRRORS)
TRACKING = RemoteFile("hippocampus", "trajectory.videoPositionTracking", "456b94c60a05bf52692415d53384143c", _MIRRORS)

_END = b"<End settings>"
_CLOCK = 30_000.0
_RECORD = np.dtype([("time", "<u4"), ("x", "<u2"), ("y", "<u2"), ("x2", "<u2"), ("y2", "<u2")])
_FROZEN = 15.0
"""Seconds without the slightest motion: the animal is not in the picture."""
_CORRIDOR = 100.0
"""Pixels from the line of the track: further away it is being carried."""
_RATE = 60.0
_SMOOTHING = 0.25
"""Frames a second, and seconds, for the speed."""


@dataclass(frozen=True)
class Runs:
    """Stretches of movement as trials of unequal length."""

    counts: list[NDArray[np.float64]]
    """(T_n, units) spikes in every bin."""
    position: list[NDArray[np.float64]]
    """(T_n, 1), 0 to 1 along the track, at the middle of every bin."""
    times: list[NDArray[np.float64]]
    """(T_n,) seconds from the beginning of the run to the middle of every bin."""
    direction: NDArray[np.int64]
    """(N,) +1 or −1 along the track."""

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True)
class Hippocampus:
    """Spikes and positions as they were recorded, in seconds; positions while the animal is on the track."""

    spikes: tuple[NDArray[np.float64], ...]
    times: NDArray[np.float64]
    position: NDArray[np.float64]

    def runs(self, bin_width: float = 0.1, min_speed: float = 0.05, min_duration: float = 1.0) -> Runs:
        """Cut where the animal moves faster than `min_speed` (track lengths a second) for `min_duration` seconds.

        At rest the hippocampus does other things than to say where the animal is.
        """
        width = checks.number("bin_width", bin_width, above=0.0)
        speed_limit = checks.number("min_speed", min_speed, least=0.0)
        duration = max(checks.number("min_duration", min_duration, above=0.0), width)
        grid = np.arange(self.times[0], self.times[-1], 1.0 / _RATE)
        smooth = gaussian_filter1d(np.interp(grid, self.times, self.position), _SMOOTHING * _RATE)
        speed = np.gradient(smooth, 1.0 / _RATE)
        # Where no frame is near, nothing is known of the movement.
        nearest = np.abs(self.times[np.clip(np.searchsorted(self.times, grid), 0, len(self.times) - 1)] - grid)
        moving = (np.abs(speed) > speed_limit) & (nearest < 0.5)
        edges = np.flatnonzero(np.diff(np.concatenate([[0], moving.astype(np.int64), [0]])))
        parts: list[tuple[NDArray[Any], ...]] = []
        direction = []
        for begin, end in zip(edges[::2], edges[1::2], strict=True):
            seconds = (end - begin) / _RATE
            if seconds < duration:
                continue
            bins = grid[begin] + width * np.arange(int(seconds / width) + 1)
            counts = np.stack([np.histogram(each, bins)[0] for each in self.spikes], -1).astype(np.float64)
            middle = 0.5 * (bins[1:] + bins[:-1])
            parts.append((counts, np.interp(middle, self.times, self.position)[:, None], middle - bins[0]))
            direction.append(int(np.sign(smooth[end - 1] - smooth[begin])))
        if not parts:
            raise errors.bad_value("min_speed, min_duration", "limits that some movement passes", (min_speed, duration))
        counts_, position, times = (list(each) for each in zip(*parts, strict=True))
        return Runs(counts_, position, times, np.array(direction))


def load_hippocampus() -> Hippocampus:
    """Rat CA1 on a linear track: 31 units, about 16 minutes of running up and down.

    `.runs()` cuts it into trials of unequal length. From RPMODELS_DATA, else a download.
    """
    spikes = read_spikes(SPIKES.local())
    times, position = read_tracking(TRACKING.local())
    return Hippocampus(spikes, times, position)


def read_spikes(path: Path) -> tuple[NDArray[np.float64], ...]:
    """Spike times of every unit that has any, from nested cell arrays (tetrode → unit)."""
    try:
        nested = loadmat(str(path))["spikes"]
    except (KeyError, ValueError, OSError, MatReadError) as failure:
        raise errors.data_corrupt(str(path), "a MATLAB file with a variable `spikes`", str(failure)) from failure
    units: list[NDArray[np.float64]] = []

    def walk(value: Any) -> None:
        if value.dtype.names:
            units.extend(np.sort(np.ravel(each["time"]).astype(np.float64)) for each in value.ravel())
        elif value.dtype == object:
            for each in value.ravel():
                walk(each)

    walk(nested)
    return tuple(unit for unit in units if len(unit))


def read_tracking(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Times (s) and positions (0 to 1 along the track) of the frames in which the animal is on it."""
    raw = path.read_bytes()
    if _END not in raw:
        raise errors.data_corrupt(str(path), f"a header that ends with {_END.decode()}", f"{len(raw)} bytes without")
    body = raw[raw.index(b"\n", raw.index(_END)) + 1 :]
    frames = np.frombuffer(body[: len(body) // _RECORD.itemsize * _RECORD.itemsize], _RECORD)
    if len(frames) < 2:
        raise errors.data_corrupt(str(path), "frames after the header", f"{len(frames)}")
    times = frames["time"] / _CLOCK
    places = np.stack([frames["x"], frames["y"]], -1).astype(np.float64)
    there = ~_frozen(times, places)
    along, across = _axes(places[there])
    there[there] = np.abs(across - np.median(across)) < _CORRIDOR
    along, _ = _axes(places[there])
    low, high = np.quantile(along, [0.01, 0.99])
    return times[there], (along - low) / (high - low)


def _frozen(times: NDArray[np.float64], places: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Frames of a place that is held exactly, for longer than any animal could."""
    moved = np.concatenate([[True], (np.diff(places, axis=0) != 0).any(1)])
    piece = np.cumsum(moved) - 1
    begins = times[moved]
    ends = np.append(begins[1:], times[-1])
    return np.asarray((ends - begins)[piece] > _FROZEN)


def _axes(places: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Coordinates along and across the longest axis, which points to the right."""
    axes = np.linalg.svd(places - places.mean(0), full_matrices=False)[2]
    axes *= np.sign(axes[:, :1])
    along, across = ((places - places.mean(0)) @ axes.T).T
    return along, across
