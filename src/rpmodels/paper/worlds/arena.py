"""Three agents in a room: video of all of them, and the distances of one of them from the room's corners.

After the paper's figure "Multi-factorial integration across time" (made with Unity there, with MuJoCo here).
"""

import logging
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pooch
from numpy.typing import NDArray
from tqdm.auto import tqdm

from rpmodels import checks, errors
from rpmodels.paper.worlds.arena_camera import Camera
from rpmodels.paper.worlds.arena_world import episode, scene
from rpmodels.writing import write_atomically

logger = logging.getLogger("rpmodels")

CORNERS = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
EDITION = 1
"""Of what is generated: raised when the same arguments give other episodes."""
OLDEST = (4, 0)
"""MuJoCo: earlier ones cast rays that miss walls, or give no normals."""
CROWD = 10
"""Agents and blocks that find room beside each other."""
_RANGE_NOISE = 1
"""Key of the random numbers that ranges have; episodes have key 0."""


@dataclass(frozen=True)
class Arena:
    """N episodes of T frames."""

    frames: NDArray[np.uint8]
    """(N, T, 3, side, side)."""
    ranges: NDArray[np.float32]
    """(N, T, 4): noisy distances of the equipped agent from the corners."""
    paths: NDArray[np.float64]
    """(N, T, A, 2): where all agents are, in the room [−1, 1]²."""
    done: NDArray[np.bool_]
    """(N, T): all blocks have arrived, and the floor is green."""
    equipped: int
    """Which agent carries the range-finder."""

    @property
    def factors(self) -> dict[str, NDArray[Any]]:
        """What a model is given."""
        return {"video": self.frames, "ranges": self.ranges}

    @property
    def z(self) -> NDArray[np.float64]:
        """(N, T, 2): the equipped agent's path."""
        return np.asarray(self.paths[:, :, self.equipped])

    def episodes(self, which: slice) -> "Arena":
        """Some of them."""
        return Arena(self.frames[which], self.ranges[which], self.paths[which], self.done[which], self.equipped)


def arena(
    n_episodes: int = 50,
    n_times: int = 200,
    *,
    noise: float = 0.01,
    side: int = 64,
    n_agents: int = 3,
    n_blocks: int = 3,
    equipped: int = 0,
    random_state: int | None = None,
    cache: bool = True,
    progress: bool = True,
) -> Arena:
    """Generate episodes, or take them from the cache. Needs the extra `arena`.

    Agents differ in colour, blocks do not. Episode n depends on `random_state` and n alone, so further episodes of a
    seed are new ones: generate more than you train on, and keep the last. Physics differs between MuJoCo versions.

    Args:
        n_episodes: N
        n_times: T, frames of an episode
        noise: variance of the ranges' Gaussian noise; the paper's is 0.1, in a room whose size it does not say
        side: of the square frames, in pixels
        n_agents: in the room
        n_blocks: that they push
        equipped: the agent whose ranges are seen
        random_state: a seed; None: new episodes, which are not cached
        cache: keep rendered episodes in the user's cache folder
        progress: show a bar

    """
    n, t = checks.integer("n_episodes", n_episodes, 1), checks.integer("n_times", n_times, 1)
    agents, blocks = checks.integer("n_agents", n_agents, 1), checks.integer("n_blocks", n_blocks, 0)
    pixels, variance = checks.integer("side", side, 8), checks.number("noise", noise, least=0.0)
    if agents + blocks > CROWD:
        raise errors.bad_value("n_agents + n_blocks", f"at most {CROWD}, which fit into the room", agents + blocks)
    if checks.integer("equipped", equipped, 0) >= agents:
        raise errors.bad_value("equipped", f"an agent's number, 0 to {agents - 1}", equipped)
    mujoco = _mujoco()
    seed = None if random_state is None else checks.integer("random_state", random_state, 0)
    root = np.random.SeedSequence(seed)
    made = None
    path = _cache_file(mujoco, n, t, pixels, agents, blocks, seed) if cache and seed is not None else None
    if path is not None:
        made = _cached(path)
    if made is None:
        made = _generate(mujoco, n, t, pixels, agents, blocks, root, progress)
        if path is not None:
            _keep(path, made)
    random = np.random.default_rng([_RANGE_NOISE, *root.generate_state(2)])
    exact = np.linalg.norm(made["paths"][:, :, equipped, None] - CORNERS, axis=-1)
    ranges = exact + np.sqrt(variance) * random.standard_normal(exact.shape)
    return Arena(made["frames"], ranges.astype(np.float32), made["paths"], made["done"], equipped)


def _mujoco() -> Any:
    try:
        import mujoco  # noqa: PLC0415
    except ImportError as failure:
        raise errors.needs_package("arena", "mujoco-core", "pip install 'rpmodels[arena]'") from failure
    found = tuple(int(part) for part in mujoco.__version__.split(".")[:2])
    if found < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        raise errors.package_too_old("arena", "MuJoCo", wanted, mujoco.__version__, "pip install 'rpmodels[arena]'")
    return mujoco


def _generate(
    mujoco: Any, n: int, t: int, side: int, agents: int, blocks: int, root: np.random.SeedSequence, progress: bool
) -> dict[str, NDArray[Any]]:
    model = mujoco.MjModel.from_xml_string(scene(agents, blocks))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    camera = Camera(mujoco, model, data, agents, side)
    frames = np.empty((n, t, 3, side, side), np.uint8)
    paths, done = np.empty((n, t, agents, 2)), np.empty((n, t), bool)
    with tqdm(total=n * t, desc="arena", unit="frame", disable=not progress) as bar:
        for i, seed in enumerate(root.spawn(n)):
            for now, moment in enumerate(episode(mujoco, model, data, t, np.random.default_rng(seed))):
                frames[i, now] = camera.picture(data, moment.done).transpose(2, 0, 1)
                paths[i, now], done[i, now] = moment.agents, moment.done
            bar.update(t)
    return {"frames": frames, "paths": paths, "done": done}


def _cache_file(mujoco: Any, *what: int) -> Path:
    """One file for every set of arguments, edition and MuJoCo version."""
    names = ("episodes", "times", "side", "agents", "blocks", "seed")
    label = "-".join(f"{name}{value}" for name, value in zip(names, what, strict=True))
    return Path(pooch.os_cache("rpmodels")) / "arena" / f"edition{EDITION}-mujoco{mujoco.__version__}-{label}.npz"


def _cached(path: Path) -> dict[str, NDArray[Any]] | None:
    """What the file holds; None where there is none, or where it is broken, which is said aloud."""
    if not path.exists():
        return None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            return {name: stored[name] for name in ("frames", "paths", "done")}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as failure:
        logger.warning("The cached episodes %s are broken (%s): they are generated again.", path, failure)
        return None


def _keep(path: Path, made: dict[str, NDArray[Any]]) -> None:
    """A full or read-only disk costs the cache, not the episodes."""

    def write(temporary: Path) -> None:
        with temporary.open("wb") as file:
            np.savez_compressed(file, **made)  # type: ignore[arg-type]

    try:
        write_atomically(path, write)
    except OSError as failure:
        logger.warning("The episodes could not be cached in %s (%s).", path.parent, failure)
