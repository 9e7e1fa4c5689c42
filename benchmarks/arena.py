"""How fast are the arena's frames, rendering alone and with physics? .venv/bin/python benchmarks/arena.py."""

import time

import mujoco
import numpy as np

from rpmodels.paper.worlds.arena_camera import Camera
from rpmodels.paper.worlds.arena_world import episode, scene

FRAMES = 1_000


def main() -> None:
    model = mujoco.MjModel.from_xml_string(scene(3, 3))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    camera = Camera(mujoco, model, data, 3, 64)
    rendering, begun = 0.0, time.perf_counter()
    for moment in episode(mujoco, model, data, FRAMES, np.random.default_rng(0)):
        started = time.perf_counter()
        camera.picture(data, moment.done)
        rendering += time.perf_counter() - started
    whole = time.perf_counter() - begun
    print(f"{FRAMES / rendering:.0f} frames/s of rendering, {FRAMES / whole:.0f} with physics")


if __name__ == "__main__":
    main()
