"""Data sets: numpy out. Add a file to add one."""

from typing import TYPE_CHECKING

from rpmodels import lazy
from rpmodels.datasets.balls import plain_ball, poisson_ball, structured_ball, textured_ball
from rpmodels.datasets.hippocampus import Hippocampus, Runs, load_hippocampus
from rpmodels.datasets.lorenz import lorenz
from rpmodels.datasets.maze import Maze, digit_maze
from rpmodels.datasets.mnist import Images, load_mnist
from rpmodels.datasets.nascar import Nascar, nascar
from rpmodels.datasets.pairs import load_digit_images, make_pairs
from rpmodels.datasets.populations import MCMaze, Reach, Sleep, load_ca1_sleep, load_mc_maze, load_reach
from rpmodels.datasets.rotation import rotating_spot
from rpmodels.datasets.scenes import Scenes, load_scene15
from rpmodels.datasets.series import Series
from rpmodels.datasets.textures import Mosaics, load_van_hateren, texture_mosaics

if TYPE_CHECKING:
    from rpmodels.paper.worlds.arena import Arena, arena

__all__ = [
    "Arena",
    "Hippocampus",
    "Images",
    "MCMaze",
    "Maze",
    "Mosaics",
    "Nascar",
    "Reach",
    "Runs",
    "Scenes",
    "Series",
    "Sleep",
    "arena",
    "digit_maze",
    "load_ca1_sleep",
    "load_digit_images",
    "load_hippocampus",
    "load_mc_maze",
    "load_mnist",
    "load_reach",
    "load_scene15",
    "load_van_hateren",
    "lorenz",
    "make_pairs",
    "nascar",
    "plain_ball",
    "poisson_ball",
    "rotating_spot",
    "structured_ball",
    "texture_mosaics",
    "textured_ball",
]

# The paper's world stands above this room, and imports go one way.
__getattr__, __dir__ = lazy.attributes(__name__, names={"rpmodels.paper.worlds.arena": ("Arena", "arena")})
