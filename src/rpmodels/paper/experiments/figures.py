"""Figures as files: PNG to look at, PDF to print."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt

from rpmodels.persistence import write_atomically


def save(figure: Any, stem: Path) -> None:
    """stem.png and stem.pdf, then forget the figure."""
    for suffix in (".png", ".pdf"):
        write_atomically(stem.with_suffix(suffix), lambda path: figure.savefig(path, dpi=150))
    plt.close(figure)
