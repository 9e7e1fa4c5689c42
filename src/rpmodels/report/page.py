"""A self-contained HTML page from the folder of a run: no network, opens from disk."""

from pathlib import Path

from rpmodels import errors
from rpmodels.report.run_page import run_page
from rpmodels.writing import write_text


def build_page(folder: Path, out: Path, force: bool = False) -> Path:
    """The page of one run; never replaces a file unless told to."""
    if not (folder / "metrics.json").exists():
        raise errors.no_run(str(folder))
    check_free(out, force)
    write_text(out, run_page(folder))
    return out


def check_free(out: Path, force: bool) -> None:
    """Before any work: is something there that would be lost?"""
    if out.exists() and not force:
        raise errors.would_overwrite(str(out))
