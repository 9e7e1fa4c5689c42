"""Recordings of populations of neurons, as counts in bins: motor cortex while monkeys reach, hippocampus over a night.

Small copies of public recordings that people bring themselves (`fetch.LocalFile`): nothing is downloaded.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks, errors
from rpmodels.datasets.fetch import LocalFile

MC_MAZE = LocalFile(
    "neural", "mc_maze_large_9cond_5ms.npz", "MC_Maze_Large of the Neural Latents Benchmark (DANDI 000138)"
)
REACH = LocalFile("neural", "reach_chewie-10032013_100ms.npz", "the repository nerdslab/myow-neuro")
CA1_SLEEP = LocalFile("neural", "ca1_sleep_4s.npz", "the repository nerdslab/myow-neuro")

_STEP_MS = 5
"""Of the bins in the file of MC_Maze, in milliseconds: whole numbers, since 0.02 / 0.005 is none."""
_SLEEP_BIN = 4.0
"""Seconds of a bin of the night."""
_TARGETS = 8


@dataclass(frozen=True)
class MCMaze:
    """Reaches around barriers: trials of one length."""

    counts: NDArray[np.float64]
    """(N, T, units) spikes in every bin."""
    position: NDArray[np.float64]
    """(N, T, 2) of the hand in mm, mean over every bin."""
    velocity: NDArray[np.float64]
    """(N, T, 2) of the hand in mm/s, mean over every bin."""
    condition: NDArray[np.int64]
    """(N,) which target and barriers: nine of them."""
    times: NDArray[np.float64]
    """(T,) seconds from the beginning of the trial to the middle of every bin."""

    def __len__(self) -> int:
        return len(self.counts)


@dataclass(frozen=True)
class Reach:
    """Reaches from the centre to one of eight targets on a ring: trials of unequal length, bins of 0.1 s."""

    counts: list[NDArray[np.float64]]
    """(T_n, units) spikes in every bin."""
    position: list[NDArray[np.float64]]
    """(T_n, 2) of the hand."""
    velocity: list[NDArray[np.float64]]
    """(T_n, 2) of the hand."""
    target: NDArray[np.int64]
    """(N,) 0 to 7, clockwise from the top."""

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def angle(self) -> NDArray[np.float64]:
        """(N,) direction of the target in radians, counted as the hand moves: 0 to the right, π/2 upwards."""
        return np.asarray(0.5 * np.pi - 2.0 * np.pi * self.target / _TARGETS, np.float64)


@dataclass(frozen=True)
class Sleep:
    """One recording of twelve hours."""

    counts: NDArray[np.float64]
    """(T, units) spikes in every bin of 4 s."""
    state: NDArray[np.int64]
    """(T,) an index into `names`."""
    times: NDArray[np.float64]
    """(T,) seconds to the middle of every bin."""
    names: tuple[str, ...] = ("wake", "NREM", "REM")


def load_mc_maze(bin_width: float = 0.02, *, min_rate: float = 1.0) -> MCMaze:
    """Monkey motor cortex during reaches around barriers: 165 trials of half a second, 132 of 162 units.

    From neural/mc_maze_large_9cond_5ms.npz in RPMODELS_DATA.

    Args:
        bin_width: seconds, a multiple of 0.005; what is left at the end of a trial is dropped
        min_rate: units with fewer spikes a second, over all trials, are left out

    """
    given = MC_MAZE.arrays({"spikes": 3, "hand_position": 3, "hand_velocity": 3, "condition": 1})
    spikes = given["spikes"]
    each = _steps(checks.number("bin_width", bin_width, above=0.0), spikes.shape[1])
    seconds = spikes.shape[0] * spikes.shape[1] * _STEP_MS / 1000
    kept = spikes.sum((0, 1)) / seconds >= checks.number("min_rate", min_rate, least=0.0)
    if not kept.any():
        raise errors.bad_value("min_rate", "a rate that some unit reaches", min_rate)
    counts = _binned(spikes[:, :, kept], each).sum(2)
    position, velocity = (_binned(given[f"hand_{name}"], each).mean(2) for name in ("position", "velocity"))
    times = (np.arange(counts.shape[1]) + 0.5) * each * _STEP_MS / 1000
    return MCMaze(counts, position, velocity, given["condition"].astype(np.int64), times)


def load_reach() -> Reach:
    """Monkey motor cortex while reaching to eight targets: 159 trials of 4 to 8 bins of 0.1 s, 174 units.

    From neural/reach_chewie-10032013_100ms.npz in RPMODELS_DATA.
    """
    given = REACH.arrays({"x": 2, "pos": 2, "vel": 2, "y": 1, "length": 1})
    ends = np.cumsum(given["length"])
    counts, position, velocity = (_trials(given[name], ends) for name in ("x", "pos", "vel"))
    # All bins of a trial have the same target.
    return Reach(counts, position, velocity, given["y"][ends - 1].astype(np.int64))


def load_ca1_sleep() -> Sleep:
    """Rat CA1 over twelve hours of waking and sleep: 42 units, 10 800 bins of 4 s, each wake, NREM or REM.

    From neural/ca1_sleep_4s.npz in RPMODELS_DATA.
    """
    given = CA1_SLEEP.arrays({"counts": 2, "state": 1})
    times = _SLEEP_BIN * (np.arange(len(given["counts"]), dtype=np.float64) + 0.5)
    return Sleep(given["counts"].astype(np.float64), given["state"].astype(np.int64), times)


def _steps(bin_width: float, longest: int) -> int:
    """How many bins of the file make one of ours."""
    count = round(1000 * bin_width / _STEP_MS)
    if not 1 <= count <= longest or abs(1000 * bin_width - count * _STEP_MS) > 1e-6:
        raise errors.bad_value("bin_width", f"a multiple of 0.005 s up to {longest * _STEP_MS / 1000} s", bin_width)
    return count


def _binned(values: NDArray[Any], each: int) -> NDArray[np.float64]:
    """(N, T', D) as (N, T, each, D)."""
    bins = values.shape[1] // each
    return values[:, : bins * each].reshape(len(values), bins, each, -1).astype(np.float64)


def _trials(values: NDArray[Any], ends: Sequence[int] | NDArray[Any]) -> list[NDArray[np.float64]]:
    return list(np.split(values.astype(np.float64), ends[:-1]))
