"""A car on a track of two straights and two turns, the usual test of dynamics that switch; seen in several ways."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import checks

TURN, STRAIGHT = 24, 12
"""Steps of half a circle, and of a straight."""
END = 1.0
"""Where straights end and turns begin, in radii of the turns."""
STAY = 50.0
"""How sharply a state ends there: logits per radius."""
REACH = 3.0
"""Half of what a frame shows, in radii."""
WIDTH = 0.35
"""Of the spot in a frame, in radii."""
SHARPNESS = 0.5
"""Of the random network: by how much its hidden units bend within the track."""
RATE = 2.0
"""Mean counts of a unit in a bin."""


@dataclass(frozen=True)
class Nascar:
    """Trials of one length."""

    x: NDArray[np.float32]
    """(N, T, *event) what is seen."""
    z: NDArray[np.float64]
    """(N, T, 2) where the car is, in radii of the turns."""
    states: NDArray[np.int64]
    """(N, T) 0: turn on the right, 1: turn on the left, 2: straight to the left, 3: straight to the right."""
    times: NDArray[np.float64]
    """(T,) in steps."""

    def __len__(self) -> int:
        return len(self.x)


def nascar(
    n_trials: int = 20,
    n_times: int = 200,
    *,
    seen: str = "network",
    size: int | None = None,
    noise: float = 0.03,
    process_noise: float = 0.01,
    random_state: int | None = None,
) -> Nascar:
    """A recurrent switching linear dynamical system (Linderman et al. 2017), two latents and four states.

    Turns go half round a circle at either end, straights lead from one to the other; where the car leaves one of them
    it changes state by a logistic of its place. Trials begin anywhere on the track.

    Args:
        n_trials: N
        n_times: T
        seen: "linear": by a random linear map; "network": by a fixed random network of one hidden layer; "frames": as
            a spot in images; "counts": in Poisson counts of units whose rates are log-linear in the place
        size: numbers of the map (default 10) or the network (20), pixels of a side (16), or units (40)
        noise: sd of Gaussian noise in what is seen; counts have none but their own
        process_noise: sd of every step, in radii
        random_state: of everything

    """
    checks.Word(*SEEN).check("seen", seen)
    n, t = checks.integer("n_trials", n_trials, 1), checks.integer("n_times", n_times, 1)
    default, look = SEEN[seen]
    count = default if size is None else checks.integer("size", size, 1)
    sd, jitter = checks.number("noise", noise, least=0.0), checks.number("process_noise", process_noise, least=0.0)
    random = np.random.default_rng(random_state)
    z, states = _driven(n, t, jitter, random)
    return Nascar(look(z, count, sd, random).astype(np.float32), z, states, np.arange(t, dtype=np.float64))


def _driven(
    n: int, count: int, jitter: float, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Places and states; a while before the first, so that trials begin anywhere."""
    A, b = _dynamics()
    place, state = np.tile([END, 1.0], (n, 1)), np.full(n, 2)
    before = random.integers(2 * (TURN + STRAIGHT), size=n)
    z, states = np.empty((n, count, 2)), np.empty((n, count), np.int64)
    for step in range(2 * (TURN + STRAIGHT) + count):
        state = _next(place, state, random)
        ahead = np.einsum("nij,nj->ni", A[state], place) + b[state] + jitter * random.standard_normal((n, 2))
        # A trial that begins later in its lap waits.
        moving = step >= before
        place = np.where(moving[:, None], ahead, place)
        kept = step - 2 * (TURN + STRAIGHT)
        if kept >= 0:
            z[:, kept], states[:, kept] = place, state
    return z, states


def _dynamics() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A and b: turns around (±END, 0), anticlockwise, and steps along the straights, which lead back to ±1."""
    angle = np.pi / TURN
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    along = 2.0 * END / STRAIGHT
    keep = np.diag([1.0, 0.9])
    centres = np.array([[END, 0.0], [-END, 0.0]])
    A = np.stack([turn, turn, keep, keep])
    b = np.concatenate([centres - centres @ turn.T, [[-along, 0.1], [along, -0.1]]])
    return A, b


def _next(place: NDArray[np.float64], state: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """Turns end where the car is back between them, straights where it is beyond."""
    across = place[:, 0]
    beyond = np.stack([END - across, across + END, -END - across, across - END], -1)
    after = np.array([2, 3, 1, 0])
    leave = 1.0 / (1.0 + np.exp(np.clip(-STAY * beyond[np.arange(len(state)), state], -500, 500)))
    return np.asarray(np.where(random.uniform(size=len(state)) < leave, after[state], state))


def _network(z: NDArray[np.float64], size: int, noise: float, random: np.random.Generator) -> NDArray[Any]:
    hidden = np.tanh(SHARPNESS * (z @ random.standard_normal((2, 4 * size)) / 2.0) + random.standard_normal(4 * size))
    x = hidden @ random.standard_normal((4 * size, size)) / np.sqrt(4 * size)
    return np.asarray(x + noise * random.standard_normal(x.shape))


def _linear(z: NDArray[np.float64], size: int, noise: float, random: np.random.Generator) -> NDArray[Any]:
    x = z @ random.standard_normal((2, size)) / np.sqrt(2.0)
    return np.asarray(x + noise * random.standard_normal(x.shape))


def _frames(z: NDArray[np.float64], size: int, noise: float, random: np.random.Generator) -> NDArray[Any]:
    grid = np.linspace(-REACH, REACH, size)
    across, down = (np.exp(-0.5 * np.square((grid - z[..., k, None]) / WIDTH)) for k in (0, 1))
    frames = down[..., :, None] * across[..., None, :]
    return np.asarray(frames + noise * random.standard_normal(frames.shape))


def _counts(z: NDArray[np.float64], size: int, _: float, random: np.random.Generator) -> NDArray[Any]:
    """Log-linear in the place: units differ in direction and gain."""
    drive = z @ random.standard_normal((2, size)) / 2.0
    rates = np.exp(drive)
    return np.asarray(random.poisson(RATE * rates / rates.mean((0, 1))))


SEEN = {"linear": (10, _linear), "network": (20, _network), "frames": (16, _frames), "counts": (40, _counts)}
