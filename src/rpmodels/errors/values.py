"""Values out of range, names not on offer."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from rpmodels.errors.kinds import ArgumentError, InputError


def bad_value(what: str, expected: str, got: object) -> InputError:
    """A value out of range."""
    return InputError(f"{what}: expected {expected}, got {got}.")


def needs_memory(argument: str, value: object, needed: float, there: float) -> InputError:
    """More than the machine has."""
    return InputError(
        f"{argument}: expected a value that needs at most {there / 1e9:.3g} GB of this machine's memory, got {value}, "
        f"which needs {needed / 1e9:.3g} GB. Choose a smaller one."
    )


def unknown_option(kind: str, name: str, known: Sequence[str]) -> ArgumentError:
    """A verb does not take it."""
    return ArgumentError(
        f"Verbs of {kind} take no '{name}': expected {', '.join(known)} beside the data, and what the verb names. "
        "Leave it out."
    )


def bad_choice(what: str, choices: Iterable[str], got: object) -> InputError:
    """Not one of the names on offer."""
    return InputError(f"{what}: expected one of {', '.join(choices)}; got {got!r:.80}.")


def unknown_argument(kind: str, name: str, known: Sequence[str]) -> ArgumentError:
    """A constructor does not have it; `known` may be group.name."""
    inside = [each for each in known if each.partition(".")[2] == name]
    if inside:
        groups = [each.partition(".")[0] for each in inside]
        ways = " or ".join(f"{group}=rp.{group.capitalize()}({name}=…)" for group in groups)
        return ArgumentError(f"{kind} has no argument '{name}' by itself: expected it in its group, {ways}.")
    near = get_close_matches(name, known, 1)
    instead = f"'{near[0]}'" if near else f"one of {', '.join(known)}"
    return ArgumentError(f"{kind} has no argument '{name}': expected {instead}.")


def not_for(name: str, kind: str, why: str) -> InputError:
    """An argument of a group that means nothing to this estimator."""
    return InputError(f"{name} is not for {kind}: {why}. Leave it out.")
