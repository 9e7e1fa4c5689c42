"""MNIST from its four original files (gzipped, or raw idx)."""

import gzip
import math
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels import errors
from rpmodels.datasets.fetch import RemoteFile

_MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)
_FILES = {
    "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
}


@dataclass(frozen=True)
class Images:
    """Images with labels, split into training and test."""

    train_images: NDArray[Any]
    train_labels: NDArray[np.int64]
    test_images: NDArray[Any]
    test_labels: NDArray[np.int64]


def load_mnist() -> Images:
    """60 000 training and 10 000 test images (28, 28) of handwritten digits, uint8."""
    arrays = [read_idx(file.local(also)) for file, also in sources()]
    train_images, train_labels, test_images, test_labels = arrays
    return Images(train_images, train_labels.astype(np.int64), test_images, test_labels.astype(np.int64))


def sources() -> list[tuple[RemoteFile, tuple[str, ...]]]:
    """The four files, each with the other names it may have."""
    return [
        (RemoteFile("mnist", f"{stem}.gz", md5, _MIRRORS), (stem, stem.replace("-idx", ".idx")))
        for stem, md5 in _FILES.items()
    ]


def read_idx(path: Path) -> NDArray[np.uint8]:
    """An array of bytes in the idx format, gzipped or not."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError) as failure:
        raise errors.data_corrupt(str(path), "a gzip file", str(failure)) from failure
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08":
        raise errors.data_corrupt(str(path), "an idx file of bytes", f"a file that begins with {raw[:4]!r}")
    axes = raw[3]
    header = 4 + 4 * axes
    shape = struct.unpack(f">{axes}I", raw[4:header]) if len(raw) >= header else ()
    if len(raw) - header != math.prod(shape):
        raise errors.data_corrupt(str(path), f"{math.prod(shape)} bytes for shape {shape}", str(len(raw) - header))
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)
