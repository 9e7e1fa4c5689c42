"""Data sets: numpy out. Add a file to add one."""

from rpmodels.datasets.arena import Arena, arena
from rpmodels.datasets.balls import plain_ball, poisson_ball, structured_ball, textured_ball
from rpmodels.datasets.hippocampus import Hippocampus, Runs, load_hippocampus
from rpmodels.datasets.lorenz import lorenz
from rpmodels.datasets.maze import Maze, digit_maze
from rpmodels.datasets.mnist import Images, load_mnist
from rpmodels.datasets.pairs import load_digit_images, make_pairs
from rpmodels.datasets.rotation import rotating_spot
from rpmodels.datasets.series import Series
from rpmodels.datasets.textures import Mosaics, load_van_hateren, texture_mosaics

__all__ = [
    "Arena",
    "Hippocampus",
    "Images",
    "Maze",
    "Mosaics",
    "Runs",
    "Series",
    "arena",
    "digit_maze",
    "load_digit_images",
    "load_hippocampus",
    "load_mnist",
    "load_van_hateren",
    "lorenz",
    "make_pairs",
    "plain_ball",
    "poisson_ball",
    "rotating_spot",
    "structured_ball",
    "texture_mosaics",
    "textured_ball",
]
