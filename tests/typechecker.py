"""What checks the annotations: beartype, with an int welcome where a float is."""

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
CALLS = 10
"""So many calls of every function are checked in a test: a fit calls some a thousand times with the same shapes."""
counted: Counter[Callable[..., Any]] = Counter()


def outside_functions(decorator: Callable[..., Any]) -> Callable[..., Any]:
    """The import hook's decorator, for functions of modules and classes only, and for their first calls in a test.

    A function inside a function is made anew at every call; compiling its checks each time takes longer than its work.
    """

    def decorate(*, typechecker: Callable[..., Any]) -> Callable[[Any], Any]:
        check = decorator(typechecker=typechecker)

        def at_first(thing: Any) -> Any:
            # What is compiled has no checks in it.
            if "<locals>" in thing.__qualname__ or thing.__module__.startswith("rpmodels.kernels."):
                return thing
            return check(thing) if isinstance(thing, type) else first_calls(check(thing), thing)

        return at_first

    return decorate


def first_calls(check: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
    """The checked function until it has been called often enough since `counted` was cleared, then the plain one."""

    @wraps(check)
    def function(*args: Any, **options: Any) -> Any:
        if counted[plain] >= CALLS:
            return plain(*args, **options)
        counted[plain] += 1
        return check(*args, **options)

    return function
