"""Images cut into patches."""

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from rpmodels import checks, errors

PADDINGS = ("drop", "reflect")


def patch_grid(shape: tuple[int, ...], size: int, stride: int, padding: str) -> tuple[int, int]:
    """Rows and columns of patches in an image of this shape (H, W, …)."""
    if padding not in PADDINGS:
        raise errors.bad_choice("padding", PADDINGS, padding)
    if len(shape) not in (2, 3):
        raise errors.bad_value("an image", "shape (H, W) or (H, W, channels)", f"shape {shape}")
    if min(shape[:2]) < size:
        raise errors.bad_value("an image", f"at least as large as a patch ({size} × {size})", f"shape {shape}")
    exact = [(side - size) / stride for side in shape[:2]]
    rows, columns = (int(np.ceil(each) if padding == "reflect" else np.floor(each)) + 1 for each in exact)
    return rows, columns


def cut_patches(image: Any, size: int, stride: int | None = None, padding: str = "drop") -> NDArray[Any]:
    """(patches, size, size, …) in row order, beginning at the upper left corner.

    Args:
        image: (H, W) or (H, W, channels)
        size: of a square patch
        stride: from one patch to the next; the size by default, so that patches do not overlap
        padding: what becomes of pixels that fill no patch at the right and lower edge: "drop" them, or "reflect" the
            image until they do

    """
    pixels = np.asarray(image)
    size = checks.integer("patch_size", size, 1)
    stride = size if stride is None else checks.integer("stride", stride, 1)
    rows, columns = patch_grid(pixels.shape, size, stride, padding)
    needed = [(count - 1) * stride + size for count in (rows, columns)]
    missing = [(0, max(0, want - have)) for want, have in zip(needed, pixels.shape[:2], strict=True)]
    widths = [*missing, *[(0, 0)] * (pixels.ndim - 2)]
    padded = np.pad(pixels, widths, mode="reflect") if padding == "reflect" else pixels
    windows = sliding_window_view(padded, (size, size), axis=(0, 1))[::stride, ::stride][:rows, :columns]
    # sliding_window_view puts the window last; channels, if any, go behind it.
    windows = windows if pixels.ndim == 2 else np.moveaxis(windows, 2, -1)
    return np.ascontiguousarray(windows.reshape(rows * columns, *windows.shape[2:]))
