"""Arguments by their full names, those in groups as group.name: as they are checked, resolved, compared and written."""

from collections.abc import Mapping
from typing import Any

from rpmodels import errors
from rpmodels.estimators.arguments import AUTO, Declared, Group, every_argument


def flat(estimator: Declared) -> dict[str, Any]:
    """{name or group.name: value} of all arguments, with those of groups that are None or a word."""
    found: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        kind = estimator.declared[name].group if name in estimator.declared else None
        inner = value if kind is None else kind.meant(value)
        if isinstance(inner, Group):
            found |= {f"{name}.{part}": each for part, each in inner.get_params(deep=False).items()}
        else:
            found[name] = value
    return found


def nested(kind: type[Declared], given: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments for the constructor from {name or group.name: value}."""
    made: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        outer, dot, inner = name.partition(".")
        if dot:
            parts.setdefault(outer, {})[inner] = value
        else:
            made[name] = value
    groups = {name: kind.declared[name].group for name in parts}
    return made | {name: make(**parts[name]) for name, make in groups.items() if make is not None}


def check(estimator: Declared) -> None:
    """Every value against its declaration, those in groups by their full names."""
    for name, each in estimator.declared.items():
        each.rule.check(name, getattr(estimator, name))
    declared = every_argument(type(estimator))
    for name, value in flat(estimator).items():
        if name in declared:
            declared[name].rule.check(name, value)
        default = declared[name].default if name in declared else None
        if name in estimator.refused and value not in (default, estimator.usual.get(name, default)):
            raise errors.not_for(name, type(estimator).__name__, estimator.refused[name])


def resolved(estimator: Declared) -> dict[str, Any]:
    """The groups by name, with the estimator's own choices in the place of "auto"."""
    values = {
        name: estimator.usual.get(name, value) if isinstance(value, str) and value == AUTO else value
        for name, value in flat(estimator).items()
        if "." in name
    }
    return nested(type(estimator), values)
