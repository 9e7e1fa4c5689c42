"""Data sets: numpy out. Add a file to add one."""

from rpmodels.datasets.mnist import Images, load_mnist
from rpmodels.datasets.pairs import load_digit_images, make_pairs

__all__ = ["Images", "load_digit_images", "load_mnist", "make_pairs"]
