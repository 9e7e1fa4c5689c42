"""The estimator that the options of the command line ask for: its size, and its arguments from `--set`."""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from rpmodels import errors
from rpmodels.estimators import Description, RPMEstimator, registered

ELSEWHERE = {
    "factors": "use --factor",
    "random_state": "use --seed",
    "optimiser": "it takes Python objects; fit in Python",
    "scheduler": "it takes Python objects; fit in Python",
    "callbacks": "it takes Python objects; fit in Python",
    "warm_start": "every command fits anew; fit in Python",
}
"""Arguments that `--set` does not take, and what to do instead."""

WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a word",
    bool: "true or false",
    type(None): "null",
    Mapping: 'an object such as {"left": "standard"}',
}


def names_of(chosen: Callable[[Description], bool]) -> str:
    """The models of which this is true, for texts."""
    return ", ".join(name for name, each in registered().items() if chosen(each.description))


def counting(what: str) -> str:
    """The models whose size counts these: "latents" or "states"."""
    return names_of(lambda each: each.latent.counted == what)


def make_estimator(
    kind: type[RPMEstimator], latents: int | None, states: int | None, settings: Sequence[str], seed: int
) -> RPMEstimator:
    """The untrained estimator that the options ask for."""
    arguments = _settings(kind, settings)
    description = kind.description
    for counted, count in (("latents", latents), ("states", states)):
        if count is None:
            continue
        if counted != description.latent.counted:
            raise errors.other_size(description.name, f"--{description.latent.counted}", f"--{counted}")
        if description.size in arguments:
            raise errors.not_by_set(description.size, f"--{counted} is there too; give one of them")
        arguments[description.size] = count
    make: Callable[..., RPMEstimator] = kind
    return make(**{"verbose": 1, "random_state": seed, **arguments})


def _settings(kind: type[RPMEstimator], texts: Sequence[str]) -> dict[str, Any]:
    """`ARGUMENT=VALUE` texts as arguments of the estimator, checked against its own annotations."""
    hints = dict.fromkeys(inspect.signature(kind).parameters, Any) | get_type_hints(kind.__init__)
    known = [name for name in hints if name != "return"]
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name or name in found:
            raise errors.bad_setting_text(text)
        if name not in known:
            raise errors.unknown_setting(kind.description.name, name, [each for each in known if each not in ELSEWHERE])
        if name in ELSEWHERE:
            raise errors.not_by_set(name, ELSEWHERE[name])
        found[name] = _value(value)
        if not _fits(found[name], hints[name]):
            raise errors.bad_value(f"--set {name}", _expected(hints[name]), repr(found[name]))
    return found


def _value(text: str) -> Any:
    """JSON, otherwise the text itself."""
    try:
        return json.loads(text, parse_constant=_refuse)
    except ValueError:
        return text


def _refuse(constant: str) -> Any:
    """NaN and infinities are no settings."""
    raise ValueError(constant)


def _choices(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    return any(_is(value, get_origin(each) or each) for each in _choices(hint))


def _is(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if isinstance(value, bool):
        return kind is bool
    return isinstance(value, (int, float) if kind is float else kind)


def _expected(hint: Any) -> str:
    kinds = [get_origin(each) or each for each in _choices(hint)]
    return " or ".join(WORDS.get(kind, str(kind)) for kind in kinds)
