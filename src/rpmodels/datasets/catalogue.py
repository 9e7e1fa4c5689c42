"""What `rp.datasets` offers: what every data set is, whose it is, what it needs, and where it is on this machine."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pooch

from rpmodels.datasets import hippocampus, mnist, populations, scenes, textures
from rpmodels.datasets.fetch import LocalFile, RemoteFile, homes

GENERATED = "generated here"
NOTHING = "nothing"
ANYWHERE = "made when asked for"
YOUR_OWN = "your own copy: it is never shipped or downloaded"


@dataclass(frozen=True)
class DataSet:
    """The facts about one data set."""

    name: str
    """Of the function in `rp.datasets`."""
    summary: str
    size: str
    origin: str
    """Licence, or where it comes from."""
    needs: str
    """An extra, a download, files of the user's own, or nothing."""
    where: Callable[[], str]
    """Where it is on this machine, or that it is not there; nothing is downloaded or opened."""


def _generated(name: str, summary: str, size: str) -> DataSet:
    return DataSet(name, summary, size, GENERATED, NOTHING, lambda: ANYWHERE)


def _of_files(*files: tuple[RemoteFile | LocalFile, tuple[str, ...]]) -> str:
    """The folder of files, if all of them are there."""
    found = [file.there(also) for file, also in files]
    here = sorted({str(path.parent) for path in found if path is not None})
    missing = sum(path is None for path in found)
    if not missing:
        return ", ".join(here)
    looked = ", ".join(str(home / files[0][0].folder) for home in homes())
    return f"not there ({missing} of {len(found)} files missing; looked in {looked})"


def _package(module: str, install: str, there: str) -> str:
    return there if find_spec(module) is not None else f"not there (pip install {install})"


def _episodes() -> str:
    """Rendered episodes that a cache holds."""
    folder = Path(pooch.os_cache("rpmodels")) / "arena"
    count = len(list(folder.glob("*.npz"))) if folder.is_dir() else 0
    return f"{count} rendered set(s) in {folder}" if count else "made when asked for, then kept in the cache folder"


DATA_SETS = (
    DataSet(
        "load_mnist", "MNIST, handwritten digits", "60 000 training and 10 000 test images, 28 × 28; 12 MB",
        "CC BY-SA 3.0 (LeCun, Cortes and Burges)", "a download",
        lambda: _of_files(*mnist.sources()),
    ),
    DataSet(
        "load_digit_images", "handwritten digits of scikit-learn", "1 797 images, 8 × 8",
        "CC BY 4.0 (UCI, Alpaydin and Kaynak)", NOTHING,
        lambda: _package("sklearn", "scikit-learn", "in scikit-learn"),
    ),
    DataSet(
        "load_hippocampus", "spikes of rat CA1 and positions on a linear track", "31 units, about 16 minutes; 1.6 MB",
        "MIT (nelpy example data)", "a download",
        lambda: _of_files((hippocampus.SPIKES, ()), (hippocampus.TRACKING, ())),
    ),
    DataSet(
        "load_mc_maze", "spikes of monkey motor cortex, and the hand, during reaches around barriers",
        "165 trials of half a second, 162 units; 0.4 MB", "for research (Neural Latents Benchmark, DANDI 000138)",
        YOUR_OWN, lambda: _of_files((populations.MC_MAZE, ())),
    ),
    DataSet(
        "load_reach", "spikes of monkey motor cortex, and the hand, during reaches to eight targets",
        "159 trials of 0.4 to 0.8 s, 174 units", "Apache-2.0 (nerdslab/myow-neuro)",
        YOUR_OWN, lambda: _of_files((populations.REACH, ())),
    ),
    DataSet(
        "load_ca1_sleep", "spikes of rat CA1 over waking and sleep", "12 hours in bins of 4 s, 42 units; 0.4 MB",
        "Apache-2.0 (nerdslab/myow-neuro)", YOUR_OWN, lambda: _of_files((populations.CA1_SLEEP, ())),
    ),
    DataSet(
        "load_scene15", "photographs of fifteen kinds of places in three views, of which some may lack",
        "4 485 rows of 20, 59 and 40 features; 1.5 MB", "MIT (XLearning-SCU/2021-CVPR-Completer)",
        YOUR_OWN, lambda: _of_files((scenes.SCENE_15, ())),
    ),
    DataSet(
        "load_van_hateren", "natural photographs, log luminance", "101 images, 280 × 280; 7.5 MB",
        "for research, with citation, not to be passed on (van Hateren and van der Schaaf 1998; DOVES 2009)",
        YOUR_OWN, lambda: _of_files((textures.DOVES, ())),
    ),
    DataSet(
        "texture_mosaics", "grids of patches of brick, grass and gravel, with the truth", "100 images, 280 × 280",
        "generated from photographs that are in the package scikit-image", "the extra textures",
        lambda: _package("skimage", "'rpmodels[textures]'", "photographs in scikit-image; " + ANYWHERE),
    ),
    DataSet(
        "arena", "video of agents in a room, and distances of one of them from its corners",
        "50 episodes of 200 frames, 64 × 64", GENERATED + ", physics by MuJoCo", "the extra arena",
        lambda: _package("mujoco", "'rpmodels[arena]'", _episodes()),
    ),
    DataSet(
        "make_pairs", "groups of different images of the same class, for peer supervision",
        "2 710 pairs for every digit of MNIST", "made of images that you hand in", "images, such as load_mnist",
        lambda: ANYWHERE,
    ),
    DataSet(
        "digit_maze", "digits along a Markov chain", "10 000 steps", "made of images that you hand in",
        "images, such as load_digit_images", lambda: ANYWHERE,
    ),
    _generated("textured_ball", "a ball that changes only the texture of pixels", "50 trials, 50 times, 10 pixels"),
    _generated("structured_ball", "a ball before stripes that jump", "50 trials, 50 times, 20 pixels"),
    _generated("plain_ball", "a bright ball in Gaussian noise", "50 trials, 50 times, 10 pixels"),
    _generated("poisson_ball", "a ball in Poisson counts", "5 trials, 50 times, 10 pixels"),
    _generated("lorenz", "counts driven by a Lorenz path", "10 trials, 100 times, 200 channels"),
    _generated("nascar", "a car on a track, whose dynamics switch", "20 trials, 200 times, 20 numbers"),
    _generated("rotating_spot", "a noisy rotation, seen as a spot in images", "50 trials, 50 times, 12 × 12"),
)  # fmt: skip
