"""Plain values, checked once where they come in."""

import math
import numbers
from typing import Any

from rpmodels import errors


def integer(name: str, value: Any, least: int) -> int:
    """A whole number, at least `least`."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        raise errors.bad_value(name, f"an integer ≥ {least}", repr(value))
    return int(value)


def number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, below: float = math.inf
) -> float:
    """A finite number, at least `least`, above `above`, below `below`."""
    real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not real or not math.isfinite(value) or value < least or value <= above or value >= below:
        limits = [f"≥ {least:g}"] * (least > -math.inf) + [f"> {above:g}"] * (above > -math.inf)
        limits += [f"< {below:g}"] * (below < math.inf)
        raise errors.bad_value(name, f"a number {' and '.join(limits)}".strip(), repr(value))
    return float(value)
