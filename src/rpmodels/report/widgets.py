"""From arrays to the numbers of a widget (static/report.js)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rpmodels.report import html


@dataclass(frozen=True)
class Strip:
    """Observations over time (T, D), shown as a row of grey cells."""

    name: str
    rows: NDArray[Any]


@dataclass(frozen=True)
class Path:
    """A Gaussian at every time: mean (T,) and standard deviation (T,).

    `without` are the numbers of the strips, and of the factors beside them, that are missing in the `gap`.
    """

    name: str
    mean: NDArray[Any]
    sd: NDArray[Any]
    gap: tuple[int, int] | None = None
    without: tuple[int, ...] = ()


def scrub(
    alt: str,
    truth: NDArray[Any],
    strips: Sequence[Strip],
    views: Sequence[Path],
    factors: Sequence[Path],
    choice: str = "",
) -> str:
    """A slider over time; `choice` names what differs between the views."""
    return html.widget(
        "scrub",
        {
            "alt": alt,
            "choice": choice,
            "truth": _plain(truth),
            "observations": [_strip(each) for each in strips],
            "views": [_path(each) for each in views],
            "factors": [_path(each) for each in factors],
        },
    )


def mosaic(
    alt: str,
    image: bytes,
    grid: tuple[int, int],
    probabilities: NDArray[Any],
    truth: NDArray[Any],
    names: Sequence[str],
) -> str:
    """A PNG image cut into a grid of patches with probabilities (J, K) and true categories (J,)."""
    return html.widget(
        "mosaic",
        {
            "alt": alt,
            "image": html.data_url(image),
            "rows": grid[0],
            "columns": grid[1],
            "probabilities": _plain(probabilities),
            "truth": truth.tolist(),
            "names": list(names),
        },
    )


@dataclass(frozen=True)
class SpacePath:
    """A path (T, 3) of one group, or a point (1, 3); thin for a trial, bold for an average."""

    group: int
    points: NDArray[Any]
    bold: bool


def space(alt: str, names: Sequence[str], groups: Sequence[tuple[str, str]], paths: Sequence[SpacePath]) -> str:
    """Three axes to turn; `groups` are names with their colours."""
    numbers = [{"group": each.group, "bold": each.bold, "points": _plain(each.points)} for each in paths]
    named = [{"name": name, "colour": colour} for name, colour in groups]
    return html.widget("space", {"alt": alt, "names": list(names), "groups": named, "paths": numbers})


def _strip(strip: Strip) -> dict[str, Any]:
    low, high = np.nanquantile(strip.rows, [0.02, 0.98])  # an outlier would leave the others grey
    return {"name": strip.name, "rows": _plain(strip.rows), "low": float(low), "high": float(max(high, low + 1e-9))}


def _path(path: Path) -> dict[str, Any]:
    kept = {"name": path.name, "gap": path.gap, "without": path.without}
    return {**kept, "mean": _plain(path.mean), "sd": _plain(path.sd)}


def _plain(values: NDArray[Any]) -> Any:
    """Rounded lists; null where a value is missing."""
    rounded = np.round(np.asarray(values, np.float64), 4).astype(object)
    rounded[~np.isfinite(values)] = None
    return rounded.tolist()
