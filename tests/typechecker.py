"""What checks the annotations: beartype, with an int welcome where a float is."""

from collections.abc import Callable
from typing import Any

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))


def outside_functions(decorator: Callable[..., Any]) -> Callable[..., Any]:
    """The import hook's decorator, for functions of modules and classes only.

    A function inside a function is made anew at every call; compiling its checks each time takes longer than its work.
    """

    def decorate(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
        check = decorator(typechecker=typechecker)
        return lambda thing: thing if "<locals>" in thing.__qualname__ else check(thing)

    return decorate
