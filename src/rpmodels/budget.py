"""How much memory there is, and the refusal of what would need more: asked before anything is allocated."""

import os
from functools import cache

from rpmodels import errors

SHARE = 0.5
"""Of the machine's memory that one thing may need."""
UNKNOWN = 2**34
"""Bytes that are taken to be there where the system does not say."""


@cache
def memory() -> int:
    """Of this machine, in bytes."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return UNKNOWN


def afford(argument: str, value: object, needed: float) -> None:
    """Refuse an argument whose value needs so many bytes that the machine has no room for them."""
    if needed > SHARE * memory():
        raise errors.needs_memory(argument, value, needed, SHARE * memory())
