"""Images made of textures, for RP-LDA: mosaics of which the truth is known, and natural photographs."""

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from rpmodels import checks, errors
from rpmodels.datasets.fetch import RemoteFile

TEXTURES = ("brick", "grass", "gravel")
"""The photographs of scikit-image that mosaics are cut from; labels number them in this order."""

DOVES = RemoteFile("van_hateren", "doves_280.npz", "c829cdc93aca27c40d6522b79e6593a0", ())
_CAMERA = (1024, 1536)
_SIDE = 280
_STRIDE = 2


@dataclass(frozen=True)
class Mosaics:
    """Images (N, H, W) in [0, 1], the texture of every patch (N, patches) in row order, and ω (N, 3) as drawn."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    proportions: NDArray[np.float64]


def texture_mosaics(
    *,
    n_images: int = 100,
    grid: tuple[int, int] = (10, 10),
    patch_size: int = 28,
    alpha: float = 0.5,
    random_state: int | None = None,
) -> Mosaics:
    """Grids of patches of brick, grass and gravel: ω ~ Dirichlet(α, α, α) per image, a texture ~ ω per patch.

    Every patch is a crop from a random place of scikit-image's photograph, at random mirrored left to right
    and upside down. Needs the extra `textures`; nothing is downloaded.
    """
    n = checks.integer("n_images", n_images, 1)
    if len(grid) != 2:
        raise errors.bad_value("grid", "(rows, columns) of patches", grid)
    rows, columns = (checks.integer("grid", each, 1) for each in grid)
    concentration = checks.number("alpha", alpha, above=0.0)
    photographs = _photographs()
    smallest = min(photographs.shape[1:])
    size = checks.integer("patch_size", patch_size, 1)
    if size > smallest:
        raise errors.bad_value("patch_size", f"at most {smallest}, the side of the photographs", size)
    random = np.random.default_rng(random_state)
    omega = random.dirichlet(np.full(len(TEXTURES), concentration), n)
    # u ~ U(0, 1) falls into the k-th of the stretches that ω cuts [0, 1] into.
    cuts = np.cumsum(omega[:, :-1], axis=1)
    labels = (random.random((n, rows * columns, 1)) >= cuts[:, None]).sum(-1)
    patches = _crops(random, photographs, labels.ravel(), size).reshape(n, rows, columns, size, size)
    images = patches.swapaxes(2, 3).reshape(n, rows * size, columns * size)
    return Mosaics((images / 255.0).astype(np.float32), labels.astype(np.int64), omega)


def _photographs() -> NDArray[np.uint8]:
    data = _skimage_data()
    return np.stack([getattr(data, name)() for name in TEXTURES])


def _skimage_data() -> ModuleType:
    try:
        from skimage import data  # noqa: PLC0415
    except ImportError as failure:
        raise errors.needs_package("texture_mosaics", "scikit-image", "pip install 'rpmodels[textures]'") from failure
    module: ModuleType = data
    return module


def _crops(
    random: np.random.Generator, photographs: NDArray[np.uint8], labels: NDArray[np.int64], size: int
) -> NDArray[np.uint8]:
    """One crop (size, size) of the labelled photograph for every label."""
    windows = sliding_window_view(photographs, (size, size), axis=(1, 2))
    top, left = (random.integers(0, places, len(labels)) for places in windows.shape[1:3])
    crops = windows[labels, top, left]
    for axis in (1, 2):
        mirrored = random.random(len(labels)) < 0.5
        crops[mirrored] = np.flip(crops[mirrored], axis)
    return crops


def load_van_hateren(path: str | Path | None = None) -> NDArray[np.float32]:
    """Natural photographs (N, 280, 280): log luminance, with mean 0 and standard deviation 1 in every image.

    Luminance as the camera gave it is skewed, and mostly the exposure; the logarithm makes of illumination a
    constant that the mean takes away, and the standard deviation does the same for contrast.

    Without `path`, the 101 photographs of the DOVES selection from doves_280.npz in RPMODELS_DATA/van_hateren or the
    cache folder. With it, another such file (`images` (N, H, W)), or a folder of .iml or .imc files (1024 × 1536
    big-endian uint16), of which every second pixel of the upper left corner is taken, as in that selection.
    The database may be used for research with citation, and not be passed on, so it is never downloaded:
    van Hateren & van der Schaaf (1998); van der Linde, Rajashekar, Bovik & Cormack (2009).
    """
    source = DOVES.local() if path is None else Path(path)
    if not source.exists():
        raise errors.bad_value("path", "an .npz file, or a folder of .iml or .imc files", f"{source}: no such thing")
    images = _read_folder(source) if source.is_dir() else _read_npz(source)
    return np.stack([_standardised(each) for each in images])


def _read_npz(path: Path) -> NDArray[np.float32]:
    expected = "an .npz file with `images` (N, H, W) of luminance"
    try:
        with np.load(path, allow_pickle=False) as file:
            images = np.asarray(file["images"], np.float32)
    except Exception as failure:  # zipfile, zlib, KeyError, ValueError, TypeError: a damaged file has many faces
        raise errors.data_corrupt(str(path), expected, str(failure)) from failure
    if images.ndim != 3 or not np.isfinite(images).all():
        raise errors.data_corrupt(str(path), expected, f"shape {images.shape}")
    return images


def _read_folder(folder: Path) -> list[NDArray[np.float32]]:
    files = sorted(each for each in folder.iterdir() if each.suffix.lower() in (".iml", ".imc"))
    if not files:
        raise errors.bad_value("path", "a folder of .iml or .imc files", f"{folder}, which has none")
    return [_read_iml(each) for each in files]


def _read_iml(path: Path) -> NDArray[np.float32]:
    """The upper left corner of one photograph, every second pixel."""
    raw = np.fromfile(path, ">u2")
    if raw.size != np.prod(_CAMERA):
        raise errors.data_corrupt(str(path), f"{_CAMERA[0]} × {_CAMERA[1]} numbers of 16 bits", f"{raw.size}")
    corner = slice(0, _SIDE * _STRIDE, _STRIDE)
    return raw.reshape(_CAMERA)[corner, corner].astype(np.float32)


def _standardised(image: NDArray[np.float32]) -> NDArray[np.float32]:
    light = image[image > 0]
    darkest = light.min() if light.size else 1.0  # black is as dark as the darkest there is: log 0 is no number
    logs = np.log(np.maximum(image, darkest).astype(np.float64))
    centred = logs - logs.mean()
    return np.asarray(centred / max(centred.std(), 1e-6), np.float32)
