"""Sobol points by their number: a point does not depend on which others are asked for, or in what order."""

from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

BITS = 30
"""Of every coordinate."""
LARGEST = torch.quasirandom.SobolEngine.MAXDIM
"""Coordinates that Sobol points can have."""
SEED = 0
"""Of the scrambling: the same points everywhere."""


@lru_cache(maxsize=8)
def _directions(size: int) -> tuple[Int[Tensor, "D B"], Int[Tensor, "D"]]:
    engine = torch.quasirandom.SobolEngine(size, scramble=True, seed=SEED)  # type: ignore[no-untyped-call]
    return engine.sobolstate, engine.shift


def points(numbers: Int[Tensor, "n"], size: int, fresh: bool = False) -> Float[Tensor, "n D"]:
    """The scrambled Sobol points of these numbers, in (0, 1)ᴰ.

    `fresh`: all shifted alike, digit by digit, at random (torch's generator): as even as before, and none of them
    ever the same again.
    """
    directions, shift = _directions(size)
    numbers = numbers % 2**BITS
    gray = numbers ^ (numbers >> 1)
    place = shift.expand(len(numbers), -1)
    if fresh:
        place = place ^ torch.randint(2**BITS, (size,))
    for bit in range(max(1, int(gray.max()).bit_length() if len(gray) else 1)):
        place = place ^ (directions[:, bit] * ((gray >> bit) & 1)[:, None])
    return (place.double() + 0.5) * 2.0**-BITS


def normals(numbers: Int[Tensor, "n"], size: int, fresh: bool = False) -> Float[Tensor, "n D"]:
    """The same as draws from N(0, I)."""
    found: Tensor = torch.special.ndtri(points(numbers, size, fresh))
    return found
