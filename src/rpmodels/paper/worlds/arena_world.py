"""The arena's physics: three agents push blocks onto a strip of the floor of a walled room, each in its own time.

The room is [−1, 1]² seen from above; agents are upright cylinders that slide and never fall, driven towards a velocity.
An agent has no plan but a list of places to go to: now and then behind a block of its own and, through the block, the
strip; in between places anywhere. Every agent draws its own list, so that where one is says little about the others.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

AGENT_RADIUS, BLOCK_HALF, WALL_HEIGHT = 0.12, 0.11, 0.25
STRIP = 0.6
"""Blocks whose centre lies beyond this y have arrived."""
REACH = 0.8
"""Places to go to lie within ±REACH."""
SPEED = 0.9
"""Of an agent, room units a second."""
NEAR = 0.08
"""A place is reached at this distance."""
BEHIND = BLOCK_HALF + AGENT_RADIUS + 0.05
"""From a block's centre: where a push begins."""
PUSH = 0.5
"""Probability that the next errand is a push."""
PATIENCE = 4.0
"""Seconds after which an agent gives an errand up."""
STEP = 0.02
"""Of the physics, in seconds."""
SUBSTEPS = 3
"""Steps of the physics in a frame."""


@dataclass(frozen=True)
class Moment:
    """One frame's worth of truth."""

    agents: NDArray[np.float64]
    """(A, 2)."""
    done: bool
    """All blocks have arrived, once."""


def scene(n_agents: int, n_blocks: int) -> str:
    """MJCF. Geoms of group 0 never move; agents and blocks are of group 1, in this order."""
    walls = "".join(
        f'<geom name="wall{i}" type="box" pos="{x} {y} {WALL_HEIGHT / 2}" size="{sx} {sy} {WALL_HEIGHT / 2}"/>'
        for i, (x, y, sx, sy) in enumerate(
            ((1.05, 0, 0.05, 1.1), (-1.05, 0, 0.05, 1.1), (0, 1.05, 1.1, 0.05), (0, -1.05, 1.1, 0.05))
        )
    )
    agents = "".join(
        f'<body name="agent{i}" pos="0 0 0.15">{_planar(f"agent{i}", turns=False)}'
        f'<geom type="cylinder" size="{AGENT_RADIUS} 0.14" mass="1" group="1"/></body>'
        for i in range(n_agents)
    )
    blocks = "".join(
        f'<body name="block{i}" pos="0 0 0.12">{_planar(f"block{i}", turns=True)}'
        f'<geom type="box" size="{BLOCK_HALF} {BLOCK_HALF} 0.11" mass="0.4" group="1"/></body>'
        for i in range(n_blocks)
    )
    motors = "".join(
        f'<velocity joint="agent{i}{axis}" kv="20" ctrlrange="-2 2"/>' for i in range(n_agents) for axis in "xy"
    )
    return (
        f'<mujoco><option timestep="{STEP}" gravity="0 0 0" integrator="implicitfast"/>'
        '<default><geom friction="0.2" condim="3"/></default>'
        f'<worldbody><geom name="floor" type="plane" size="1.1 1.1 0.1" contype="0" conaffinity="0"/>'
        f"{walls}{agents}{blocks}</worldbody><actuator>{motors}</actuator></mujoco>"
    )


def _planar(name: str, turns: bool) -> str:
    """Slides in the plane; friction with the floor as damping, since nothing ever leaves it."""
    slides = "".join(
        f'<joint name="{name}{axis}" type="slide" axis="{direction}" damping="{4 if turns else 0}"/>'
        for axis, direction in (("x", "1 0 0"), ("y", "0 1 0"))
    )
    return slides + (f'<joint name="{name}turn" type="hinge" axis="0 0 1" damping="0.05"/>' if turns else "")


class Agent:
    """One agent's errand: a place to go to, or a block of its own to push."""

    def __init__(self, random: np.random.Generator) -> None:
        self.random = random
        self.place: NDArray[np.float64] | None = None
        self.block: int | None = None
        self.until = 0.0

    def heading(self, at: NDArray[np.float64], blocks: NDArray[np.float64], clock: float) -> NDArray[np.float64]:
        """The velocity it wants, given where it and its blocks are."""
        if self._is_over(at, blocks, clock):
            self._next(blocks, clock)
        towards = self.place - at if self.place is not None else _push(at, blocks[self.block])
        return np.asarray(SPEED * towards / max(float(np.linalg.norm(towards)), 1e-9))

    def _is_over(self, at: NDArray[np.float64], blocks: NDArray[np.float64], clock: float) -> bool:
        if clock >= self.until:
            return True
        if self.place is not None:
            return float(np.linalg.norm(self.place - at)) < NEAR
        return bool(blocks[self.block, 1] > STRIP)

    def _next(self, blocks: NDArray[np.float64], clock: float) -> None:
        waiting = np.flatnonzero(blocks[:, 1] < STRIP)
        self.until = clock + PATIENCE
        if len(waiting) and self.random.random() < PUSH:
            self.place, self.block = None, int(self.random.choice(waiting))
        else:
            self.place, self.block = self.random.uniform(-REACH, REACH, 2), None


def _push(at: NDArray[np.float64], block: NDArray[np.float64]) -> NDArray[np.float64]:
    """Round to the far side of the block, then on towards the strip, steering back to the middle of its edge."""
    aside, above = at - block
    if above > -0.8 * BEHIND:
        sideways = np.array([np.copysign(BEHIND, aside), 0.0])
        return np.asarray(block + (sideways if above > 0.0 else np.array([0.0, -BEHIND])) - at)
    return np.array([-4.0 * aside, 1.0])


def episode(mujoco: Any, model: Any, data: Any, n_frames: int, random: np.random.Generator) -> Iterator[Moment]:
    """Frame by frame; `data` holds the state of each while it is looked at."""
    n_agents = model.nu // 2
    n_blocks = (model.nq - 2 * n_agents) // 3
    mujoco.mj_resetData(model, data)
    starts = _apart(random, n_agents + n_blocks)
    data.qpos[: 2 * n_agents] = starts[:n_agents].ravel()
    turned = np.column_stack([starts[n_agents:], random.uniform(0, np.pi, n_blocks)])
    data.qpos[2 * n_agents :] = turned.ravel()
    mujoco.mj_forward(model, data)
    agents = [Agent(each) for each in random.spawn(n_agents)]
    done = False
    for _ in range(n_frames):
        for _ in range(SUBSTEPS):
            places = data.qpos[: 2 * n_agents].reshape(n_agents, 2)
            blocks = data.qpos[2 * n_agents :].reshape(n_blocks, 3)[:, :2]
            wanted = [agent.heading(places[i], blocks[i::n_agents], data.time) for i, agent in enumerate(agents)]
            data.ctrl[:] = np.concatenate(wanted)
            mujoco.mj_step(model, data)
        mujoco.mj_kinematics(model, data)  # so that what is drawn is where the numbers say
        arrived = data.qpos[2 * n_agents :].reshape(n_blocks, 3)[:, 1] > STRIP
        done = done or bool(n_blocks and arrived.all())
        yield Moment(data.qpos[: 2 * n_agents].reshape(n_agents, 2).copy(), done)


def _apart(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Places that do not touch; blocks (the last ones) start below the strip, away from the wall behind them."""
    places: list[NDArray[np.float64]] = []
    while len(places) < count:
        candidate = random.uniform(-0.75, 0.75, 2)
        candidate[1] = min(candidate[1], 0.4)
        if all(np.linalg.norm(candidate - each) > 2.5 * AGENT_RADIUS for each in places):
            places.append(candidate)
    return np.array(places)
