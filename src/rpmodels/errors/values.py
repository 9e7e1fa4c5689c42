"""Values out of range, names not on offer."""

from collections.abc import Iterable

from rpmodels.errors.kinds import InputError


def bad_value(what: str, expected: str, got: object) -> InputError:
    """A value out of range."""
    return InputError(f"{what}: expected {expected}, got {got}.")


def bad_choice(what: str, choices: Iterable[str], got: object) -> InputError:
    """Not one of the names on offer."""
    return InputError(f"{what}: expected one of {', '.join(choices)}; got {got!r}.")
