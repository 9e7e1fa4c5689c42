"""How many bytes one piece of work may take: what is larger is done in pieces, or refused before it is tried."""

import os
from contextlib import suppress
from pathlib import Path

from rpmodels import errors

BUDGET = 2**28
"""Bytes of intermediate numbers in one piece: a quarter of a gigabyte."""
SHARE = 0.8
"""Of the machine's memory, which a single request may ask for."""
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def available() -> int:
    """Bytes that a request may ask for: a share of the machine's memory, or of what a container is allowed."""
    found = []
    with suppress(ValueError, OSError, AttributeError):  # no such names on Windows
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # "max", or no container
            found.append(int(path.read_text()))
    return int(SHARE * min(found)) if found else 2**62


def in_words(size: float) -> str:
    """1.5 GB."""
    return f"{size / 1e9:.2g} GB" if size < 1e11 else f"{size / 1e9:.0f} GB"


def afford(argument: str, value: object, needed: float) -> None:
    """Refuse an argument whose value needs so many bytes that the machine has no room for them."""
    if needed > available():
        raise errors.needs_memory(argument, value, needed, available())
