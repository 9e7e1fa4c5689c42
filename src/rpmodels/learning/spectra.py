"""What an image looks like wherever its parts are: features by which patches of a texture are alike."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels.learning.teaching import compact, features
from rpmodels.model import RPM
from rpmodels.observations import Observations

SMALLEST = 8
"""Side of an image from which on its spectrum says something."""
FLOOR = 1e-6
"""Of the mean power, added before the logarithm."""


def are_images(observations: Observations) -> bool:
    """Whether all observations are images of one shape, (H, W) or (channels, H, W), large enough."""
    shapes = {spec.event_shape for spec in observations.specs.values() if not spec.is_label}
    return len(shapes) == 1 and all(len(shape) in (2, 3) and min(shape[-2:]) >= SMALLEST for shape in shapes)


def spectral_features(model: RPM, observations: Observations, seed: int) -> NDArray[Any]:
    """Standardised log power spectra, reduced by PCA: blind to brightness and to where in a patch something is."""
    (shape,) = {spec.event_shape for spec in observations.specs.values() if not spec.is_label}
    pixels = np.concatenate([table for table, _ in features(model, observations)], 1).reshape(-1, *shape)
    pixels = pixels - pixels.mean((-2, -1), keepdims=True)
    window = np.outer(*(np.hanning(side + 2)[1:-1] for side in shape[-2:]))
    power = np.square(np.abs(np.fft.rfft2(pixels * window))).reshape(len(pixels), -1)
    logs = np.log(power + FLOOR * power.mean())
    there = observations.exists.ravel()
    spread = logs[there].std(0)
    standard = (logs - logs[there].mean(0)) / np.where(spread > 0, spread, 1.0)
    return compact(np.where(there[:, None], standard, 0.0), seed)
