"""The estimator that the options of the command line ask for: its size, and its arguments from `--set`."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from rpmodels import errors
from rpmodels.checks import in_words, shown
from rpmodels.estimators import Description, RPMEstimator, registered
from rpmodels.estimators.arguments import every_argument
from rpmodels.estimators.names import nested

ELSEWHERE = {
    "factors": "use --factor",
    "random_state": "use --seed",
    "training.optimiser": "it takes Python objects; fit in Python",
    "training.scheduler": "it takes Python objects; fit in Python",
    "training.callbacks": "it takes Python objects; fit in Python",
    "training.warm_start": "every command fits anew; fit in Python",
}
"""Arguments that `--set` does not take, and what to do instead."""

JSON = {"True": "true", "False": "false", "None": "null"}
"""Words for values as the command line has them."""


def names_of(chosen: Callable[[Description], bool]) -> str:
    """The models of which this is true, for texts."""
    return ", ".join(name for name, each in registered().items() if chosen(each.description))


def counting(what: str) -> str:
    """The models whose size counts these: "latents" or "states"."""
    return names_of(lambda each: each.size is not None and each.latent.counted == what)


def make_estimator(
    kind: type[RPMEstimator], latents: int | None, states: int | None, settings: Sequence[str], seed: int
) -> RPMEstimator:
    """The untrained estimator that the options ask for."""
    arguments = _settings(kind, settings)
    description = kind.description
    for counted, count in (("latents", latents), ("states", states)):
        if count is None:
            continue
        if description.size is None:
            raise errors.no_size(description.name, f"--{counted}")
        if counted != description.latent.counted:
            raise errors.other_size(description.name, f"--{description.latent.counted}", f"--{counted}")
        if description.size in arguments:
            raise errors.not_by_set(description.size, f"--{counted} is there too; give one of them")
        arguments[description.size] = count
    make: Callable[..., RPMEstimator] = kind
    return make(**{"verbose": 1, "random_state": seed, **nested(kind, arguments)})


def _settings(kind: type[RPMEstimator], texts: Sequence[str]) -> dict[str, Any]:
    """`ARGUMENT=VALUE` or `GROUP.ARGUMENT=VALUE` texts as values by name, checked against their declarations."""
    declared = every_argument(kind)
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name or name in found:
            raise errors.bad_setting_text(text)
        if name not in declared:
            known = [each for each in declared if each not in ELSEWHERE]
            raise errors.unknown_setting(kind.description.name, name, known)
        if name in ELSEWHERE:
            raise errors.not_by_set(name, ELSEWHERE[name])
        found[name] = _value(value)
        rule = declared[name].rule
        if not rule.fits(found[name]):
            raise errors.bad_value(
                f"--set {name}", in_words([JSON.get(each, each) for each in rule.words]), shown(found[name])
            )
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
