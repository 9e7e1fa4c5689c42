"""Names that a package hands out when they are asked for (PEP 562), so that importing it does not pay for all."""

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any


def attributes(
    package: str, modules: Collection[str] = (), names: Mapping[str, Collection[str]] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package.

    `modules` are modules inside it; `names` says which names come from which module, wherever that stands. What has
    been found once stays in the package as an ordinary attribute.
    """
    homes = {name: home for home, each in (names or {}).items() for name in each}

    def get(name: str) -> Any:
        if name in homes:
            found = getattr(importlib.import_module(homes[name]), name)
        elif name in modules:
            found = importlib.import_module(f"{package}.{name}")
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, found)
        return found

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *modules, *homes})

    return get, listed
