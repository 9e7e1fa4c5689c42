"""What cannot be drawn as it was asked for."""

from collections.abc import Iterable, Sequence

from rpmodels.errors.kinds import InputError


def conditions_per_trial(expected: int, got: str) -> InputError:
    """As many conditions as there are not trials."""
    return InputError(
        f"conditions: expected one for every trial, {expected} of them (None where a trial has none), got {got}. For a "
        "value at every time colour the points: plots.latents_2d(latents, colour)."
    )


def unknown_conditions(names: Iterable[object], known: Sequence[object]) -> InputError:
    """No trial has them."""
    wanted = ", ".join(repr(each) for each in names)
    return InputError(f"order: expected names of conditions, some of {_listed(known)}; got {wanted}.")


def no_conditions() -> InputError:
    """All of them are missing."""
    return InputError("conditions: expected a name or a number for some trial, got none but None and NaN.")


def conditions_not_there(name: str, known: Sequence[object]) -> InputError:
    """A word that names no factor of the data."""
    return InputError(
        f"conditions='{name}': expected one for every trial, or the name of a factor of X that has one number or label "
        f"for every trial; X has {_listed(known) or 'no names'}."
    )


def latents_and_data(got: str) -> InputError:
    """Data beside latents that are there already."""
    return InputError(
        f"X: expected None, as the latents themselves were given, got {got}. Data go with a fitted estimator; pass "
        "conditions by name, conditions=…."
    )


def needs_data(what: str) -> InputError:
    """An estimator without data."""
    return InputError(f"{what}: expected data beside the estimator, as in model.latents(X), got none. Pass X.")


def no_states(what: str, names: str) -> InputError:
    """Coordinates, where states are drawn."""
    return InputError(f"{what}: expected latents with states, got {names}. Use plots.latents.")


def no_rows_to_draw(factors: Sequence[str]) -> InputError:
    """Labels alone."""
    return InputError(f"factor: expected one of numbers over time, got none: {', '.join(factors)} are labels.")


def no_such_plot(name: str, near: Sequence[str]) -> AttributeError:
    """A guess that was none."""
    instead = f": did you mean {' or '.join(near)}?" if near else "; dir(rpmodels.plots) has their names."
    return AttributeError(f"rpmodels.plots has no '{name}'{instead}")


def _listed(names: Sequence[object]) -> str:
    return ", ".join(repr(each) for each in names)
