"""The arena's camera: one ray a pixel, cast by MuJoCo, coloured and shaded here. No graphics library is needed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels.paper.worlds.arena_world import STRIP

EYE = np.array([0.0, -1.75, 3.1])
LOOK_AT = np.array([0.0, -0.07, 0.0])
HALF_FIELD = 0.375
"""Tangent of half the field of view."""
LIGHT = np.array([-0.45, -0.35, 0.82])
"""Towards the lamp."""
AMBIENT = 0.45
AGENTS = np.array(
    [[214, 50, 47], [44, 99, 204], [240, 196, 40], [60, 170, 90], [150, 70, 190], [240, 130, 40]], np.float64
)
BLOCK = np.array([150.0, 110.0, 80.0])
WALL = np.array([120.0, 124.0, 132.0])
FLOOR, DONE_FLOOR, STRIP_FLOOR = (
    np.array(rgb, np.float64) for rgb in ([188, 182, 170], [120, 186, 140], [228, 220, 246])
)
OUTSIDE = np.array([38.0, 40.0, 46.0])
MOVING = np.array([0, 1, 0, 0, 0, 0], np.uint8)
RESTING = np.array([1, 0, 0, 0, 0, 0], np.uint8)
"""Groups of geoms (`arena_world.scene`)."""


class Camera:
    """Images of one scene. What never moves is looked at once."""

    def __init__(self, mujoco: Any, model: Any, data: Any, n_agents: int, side: int) -> None:
        self.mujoco, self.model, self.side = mujoco, model, side
        self.rays = _rays(side)
        self.light = LIGHT / np.linalg.norm(LIGHT)
        self.colours = self._colours(n_agents)
        hit, self.depth, normals = self._cast(data, RESTING)
        ground = EYE[1] + self.depth * self.rays[:, 1] > STRIP
        self.rooms = [self._room(hit, normals, ground, floor) for floor in (FLOOR, DONE_FLOOR)]

    def picture(self, data: Any, done: bool) -> NDArray[np.uint8]:
        """(side, side, 3)."""
        hit, depth, normals = self._cast(data, MOVING)
        nearer = (hit >= 0) & (depth < self.depth)
        image = self.rooms[int(done)].copy()
        image[nearer] = self.colours[hit[nearer]] * self._shade(normals[nearer])[:, None]
        return image.reshape(self.side, self.side, 3).astype(np.uint8)

    def _cast(self, data: Any, group: NDArray[np.uint8]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Which geom each ray meets (−1: none), how far away, and the surface's normal there."""
        count = len(self.rays)
        hit, depth, normals = np.full(count, -1, np.int32), np.zeros(count), np.zeros(3 * count)
        everything, nobody, horizon = True, -1, 100.0
        self.mujoco.mj_multiRay(
            self.model, data, EYE, self.rays.ravel(), group, everything, nobody, hit, depth, normals, count, horizon
        )
        return hit, np.where(hit >= 0, depth, np.inf), normals.reshape(count, 3)

    def _shade(self, normals: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(AMBIENT + (1.0 - AMBIENT) * np.clip(normals @ self.light, 0.0, 1.0))

    def _room(
        self, hit: NDArray[Any], normals: NDArray[Any], beyond: NDArray[Any], floor: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        is_floor = hit == self.model.geom("floor").id
        image = np.where(is_floor[:, None], np.where(beyond[:, None], STRIP_FLOOR, floor), WALL)
        image = image * self._shade(normals)[:, None]
        image[hit < 0] = OUTSIDE
        return np.asarray(image)

    def _colours(self, n_agents: int) -> NDArray[np.float64]:
        """Of every geom: agents differ, blocks do not."""
        colours = np.tile(BLOCK, (self.model.ngeom, 1))
        first = int(self.model.body("agent0").geomadr[0])
        colours[first : first + n_agents] = AGENTS[np.arange(n_agents) % len(AGENTS)]
        return colours


def projected(places: NDArray[Any], side: int, height: float = 0.15) -> NDArray[np.float64]:
    """Where places (…, 2) of the room are in a picture: (…, 2) columns and rows, in pixels."""
    forward, right, up = _directions()
    points = np.concatenate([places, np.full((*places.shape[:-1], 1), height)], -1) - EYE
    across, down = (points @ axis / (points @ forward) / HALF_FIELD for axis in (right, -up))
    return np.asarray(0.5 * side * (np.stack([across, down], -1) + 1.0) - 0.5)


def _rays(side: int) -> NDArray[np.float64]:
    """Directions of length one through the middles of all pixels, row by row from the top left."""
    forward, right, up = _directions()
    middles = HALF_FIELD * (2.0 * (np.arange(side) + 0.5) / side - 1.0)
    across, down = np.meshgrid(middles, middles)
    rays = forward + across[..., None] * right - down[..., None] * up
    return np.ascontiguousarray((rays / np.linalg.norm(rays, axis=-1, keepdims=True)).reshape(-1, 3))


def _directions() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Forward, right and up, as the camera has them."""
    forward = (LOOK_AT - EYE) / np.linalg.norm(LOOK_AT - EYE)
    right = np.cross(forward, [0.0, 0.0, 1.0])
    right /= np.linalg.norm(right)
    return forward, right, np.cross(right, forward)
