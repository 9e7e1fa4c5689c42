"""The folder of a fit: claimed before the work begins, and never left half old, half new."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rpmodels import errors
from rpmodels.writing import write_atomically

RECORD, PAGE = "fit.json", "report.html"
FILES = ("model.rpm", "latents.npz", "latents.csv", "history.csv", PAGE, RECORD)
"""What a fit may write; the record is the last."""
STAGE = ".rpmodels-"
"""How folders begin in which new files wait."""

Writers = Mapping[str, Callable[[Path], None]]


def fit_record(folder: Path) -> dict[str, Any] | None:
    """What the fit in this folder says of itself; None where there is none."""
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and {"command", "estimator", "score"} <= set(found) else None


@contextmanager
def claimed(folder: Path, force: bool, inputs: Sequence[Path]) -> Iterator[None]:
    """The folder is there, ours, and can be written to. Without results it is left as it was found."""
    there = folder.exists()
    _recover(folder)
    _check(folder, force, inputs)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as failure:
        raise errors.cannot_write(str(folder), failure.strerror or failure) from failure
    try:
        yield
    except BaseException:
        if not there and not any(folder.iterdir()):
            folder.rmdir()
        raise


def _check(folder: Path, force: bool, inputs: Sequence[Path]) -> None:
    if folder.exists() and not folder.is_dir():
        raise errors.not_a_folder(str(folder))
    for path in inputs:
        if path.resolve().parent == folder.resolve() and path.name in FILES:
            raise errors.is_an_input(str(path))
    if not folder.exists() or all(each.name.startswith(STAGE) for each in folder.iterdir()):
        return
    if fit_record(folder) is None:
        raise errors.not_a_fit(str(folder))
    if not force:
        raise errors.fit_is_there(str(folder))


def _recover(folder: Path) -> None:
    """Clean up after runs that were killed; one that was killed while it exchanged files gives the old ones back."""
    for stage in folder.glob(f"{STAGE}*"):
        kept = list((stage / "old").glob("*"))
        out = any(path.name == RECORD for path in kept)  # the last that goes out, and the last that comes in
        if out and not (folder / RECORD).exists():
            for name in FILES:
                (folder / name).unlink(missing_ok=True)
        if not (out and (folder / RECORD).exists()):
            for path in kept:
                path.replace(folder / path.name)
        shutil.rmtree(stage, ignore_errors=True)


def replace_files(folder: Path, writers: Writers) -> None:
    """Write all files aside, and only then put them in the place of the old ones."""
    stage = Path(tempfile.mkdtemp(dir=folder, prefix=STAGE))
    try:
        for name, write in writers.items():
            write_atomically(stage / name, write)
        _exchange(folder, stage, list(writers))
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _exchange(folder: Path, stage: Path, names: Sequence[str]) -> None:
    """Old files out, new files in; whatever happens in between, the old ones come back."""
    old = stage / "old"
    old.mkdir()
    try:
        for name in FILES:
            if (folder / name).exists():
                (folder / name).replace(old / name)
        for name in names:
            (stage / name).replace(folder / name)
    except BaseException:
        for name in names:
            (folder / name).unlink(missing_ok=True)
        for path in old.iterdir():
            path.replace(folder / path.name)
        raise
