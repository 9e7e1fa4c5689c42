"""How figures of a paper look: small letters that stay letters, and colours that everybody can tell apart."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from cycler import cycler

COLOURS = (
    "#3f90da", "#ffa90e", "#bd1f01", "#94a4a2", "#832db6", "#a96b59", "#e76300", "#b9ac70", "#717581", "#92dadd",
)  # fmt: skip
"""Ten that stay apart in every form of colour vision (Petroff, 2021)."""
PAPER = {
    "axes.prop_cycle": cycler(color=COLOURS),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.linewidth": 0.6,
    "axes.titlesize": 7,
    "axes.labelsize": 7,
    "figure.titlesize": 8,
    "font.family": "sans-serif",
    "font.size": 7,
    "legend.fontsize": 6,
    "legend.frameon": False,
    "legend.title_fontsize": 6,
    "lines.linewidth": 1.0,
    "lines.markersize": 3,
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
    "savefig.dpi": 300,
    "svg.fonttype": "none",
    "xtick.labelsize": 6,
    "xtick.major.size": 2.5,
    "xtick.major.width": 0.6,
    "ytick.labelsize": 6,
    "ytick.major.size": 2.5,
    "ytick.major.width": 0.6,
}  # fmt: skip


@contextmanager
def style(settings: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Every plot inside has the look of a paper: `with rp.plots.style(): …`; nothing outside of it changes.

    Letters are 6 to 8 points and stay letters in PDF and SVG, colours can be told apart whatever one's colour vision.
    Save the figure inside, too, as files are written by these settings.

    Args:
        settings: others of matplotlib's, by their names there: {"font.size": 8}

    """
    look: dict[Any, Any] = {**PAPER, **(settings or {})}
    with mpl.rc_context(look):
        yield
