"""The one atomic writer: a file is either the old one or the new one, whole, whatever happens in between."""

import contextlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rpmodels import errors

try:
    import fcntl
except (
    ImportError
):  # where there are no locks nothing is swept: a file that is being written could be taken for a stray
    fcntl = None  # type: ignore[assignment]

WRITING = ".writing"
"""How the names of folders end in which a file waits until it is whole."""
KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
         stat.S_IFSOCK: "a socket"}  # fmt: skip


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """`write` a temporary file beside `path`, flush it to disk, and move it into place in one step.

    What earlier writers of the same file left when they were killed is removed.
    """
    try:
        place = path.resolve()  # a link stays a link
        mode = _mode(place)
        place.parent.mkdir(parents=True, exist_ok=True)
        sweep(place.parent, place.name)
        with _aside(place) as temporary:
            write(temporary)
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(mode)
            temporary.replace(place)
    except errors.FileError:
        raise
    except (OSError, RuntimeError) as failure:  # a circle of links is the latter
        raise errors.cannot_be_written(str(path), getattr(failure, "strerror", None) or failure) from failure


def sweep(folder: Path, name: str = "") -> None:
    """Remove what writers (of one file, or of all in a folder) have left that are no longer there."""
    if fcntl is None:
        return
    for each in folder.glob(f".{glob_escaped(name)}*{WRITING}"):
        with contextlib.suppress(OSError):  # gone meanwhile, or its writer is at work
            handle = os.open(each, os.O_RDONLY)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(each, ignore_errors=True)
            finally:
                os.close(handle)


def glob_escaped(name: str) -> str:
    """A name in a pattern, by the letter."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def write_text(path: Path, text: str) -> None:
    """Text, atomically."""
    write_atomically(path, lambda temporary: _write(temporary, text))


def write_json(path: Path, value: Any) -> None:
    """JSON, atomically; NaN is refused, because other readers refuse it."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _mode(place: Path) -> int:
    """Of the file that is there, or of a new one; what is no file is never replaced by one."""
    if not place.exists():
        return 0o644
    mode = place.stat().st_mode
    if not stat.S_ISREG(mode):
        raise errors.no_regular_file(str(place), KINDS.get(stat.S_IFMT(mode), "something else"))
    return stat.S_IMODE(mode)


@contextmanager
def _aside(place: Path) -> Iterator[Path]:
    """A file of the same name in a folder of its own beside `place`, which is locked as long as its writer lives."""
    folder, handle = _locked(place)
    try:
        yield folder / place.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _locked(place: Path) -> tuple[Path, int | None]:
    while True:
        folder = Path(tempfile.mkdtemp(dir=place.parent, prefix=f".{place.name}.", suffix=WRITING))
        if fcntl is None:
            return folder, None
        try:
            handle = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # swept before it was locked
            continue
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if folder.exists():
            return folder, handle
        os.close(handle)
