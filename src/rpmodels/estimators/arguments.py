"""Arguments as data: each is declared once, and gives the constructor, its documentation, its check and its names.

    class Kettle(Declared):
        litres: float = argument(Number(above=0.0), "how much it holds", default=1.0)

A class below it inherits the declarations; one that writes `litres = 2.0` has another default. Values are kept as they
are (scikit-learn's rule) and checked when they are used.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar, dataclass_transform

from rpmodels import errors
from rpmodels.checks import Rule
from rpmodels.estimators.scikit import BaseEstimator

WIDTH = 116
"""Of lines of documentation."""
AUTO = "auto"
"""A choice that is left to the estimator, and to the data."""
Own = TypeVar("Own", bound="Declared")
ATTRIBUTES = "\n    Attributes:\n"
"""The section of a docstring that arguments stand before."""


@dataclass(frozen=True)
class Argument:
    """One argument of a constructor."""

    rule: Rule
    doc: str
    default: Any
    kw_only: bool = True
    name: str = ""

    @property
    def group(self) -> "type[Group] | None":
        """The class of a group of further arguments, where this is one."""
        return self.rule.kind if isinstance(self.rule, GroupOf) else None


def argument(rule: Rule, doc: str, *, default: Any, kw_only: bool = True) -> Any:
    """Declare an argument: what it may be, a line about it, its default, and whether it must be named."""
    return Argument(rule, doc, default, kw_only)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(argument,))
class Declared(BaseEstimator):
    """A class whose constructor and documentation are made from its declarations."""

    declared: ClassVar[Mapping[str, Argument]] = {}
    """Its arguments by name, in the order of the constructor."""
    usual: ClassVar[Mapping[str, Any]] = {}
    """{group.name: what "auto" stands for here}, where that is not left to the data. A class names what it changes."""
    refused: ClassVar[Mapping[str, str]] = {}
    """{group.name: why it can only be what it is}, of arguments that mean nothing here; inherited as well."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.usual, cls.refused = _inherited(cls, "usual"), _inherited(cls, "refused")
        own = {name: replace(each, name=name) for name, each in _own(cls)}
        found = own | {name: each for name, each in _inherited(cls, "declared").items() if name not in own}
        given = {name: vars(cls)[name] for name in found if name in vars(cls)}
        found |= {name: replace(found[name], default=value) for name, value in given.items()}
        ordered = sorted(found.values(), key=lambda each: (each.kw_only, each.group is not None))
        cls.declared = {each.name: each for each in ordered}
        if "__init__" not in vars(cls):
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        cls.__doc__ = _documented(cls)

    def set_params(self: Own, **params: Any) -> Own:
        """Change arguments; those in a group by `group__name`, also where the group was None or a word."""
        for name in {each.partition("__")[0] for each in params if "__" in each}:
            kind = self.declared[name].group if name in self.declared else None
            given = params.get(name, getattr(self, name, None))
            if kind is not None and (given is None or given in kind.bundles):
                params[name] = kind.meant(given)
        return super().set_params(**params)


def _inherited(cls: type, table: str) -> dict[str, Any]:
    """A table of a class, joined with those of the classes above it."""
    found: dict[str, Any] = {}
    for kind in cls.__mro__:
        found |= {name: each for name, each in vars(kind).get(table, {}).items() if name not in found}
    return found


def _own(cls: type) -> Iterator[tuple[str, Argument]]:
    """Declarations in the body of this class, which give way to their defaults."""
    for name, each in list(vars(cls).items()):
        if isinstance(each, Argument):
            setattr(cls, name, each.default)
            yield name, each


def _constructor(cls: type[Declared]) -> Callable[..., None]:
    kinds = {True: inspect.Parameter.KEYWORD_ONLY, False: inspect.Parameter.POSITIONAL_OR_KEYWORD}
    parameters = [
        inspect.Parameter(each.name, kinds[each.kw_only], default=each.default) for each in cls.declared.values()
    ]
    signature = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD), *parameters])

    def __init__(self: Declared, *given: Any, **named: Any) -> None:  # noqa: N807
        for name in named:
            if name not in self.declared:
                raise errors.unknown_argument(type(self).__name__, name, list(every_argument(type(self))))
        bound = signature.bind(self, *given, **named)
        bound.apply_defaults()
        vars(self).update({name: value for name, value in bound.arguments.items() if name != "self"})

    __init__.__signature__ = signature  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


def _documented(cls: type[Declared]) -> str:
    """The docstring of a class, with its arguments."""
    text, section, rest = (vars(cls).get("__doc__") or "").partition(ATTRIBUTES)
    lines = [
        textwrap.fill(_line(cls, each), WIDTH, initial_indent=8 * " ", subsequent_indent=12 * " ")
        for each in cls.declared.values()
    ]
    arguments = "\n    Args:\n" + "\n".join(lines) + "\n" if lines else ""
    return f"{text.rstrip()}\n{arguments}{section}{rest or '    '}"


def _line(cls: type[Declared], each: Argument) -> str:
    """What an argument is, what it may be, and what it is by default."""
    if each.group is None:
        return f"{each.name}: {each.doc} ({each.rule.expected}; default {each.default!r})"
    names = [name for name in each.group.declared if f"{each.name}.{name}" not in cls.refused]
    usual = {name: cls.usual[f"{each.name}.{name}"] for name in names if f"{each.name}.{name}" in cls.usual}
    here = f"; here {', '.join(f'{name}={value!r}' for name, value in usual.items())}" if usual else ""
    return f"{each.name}: {each.doc}, `rp.{each.group.__name__}({', '.join(names)})`{here}"


class Group(Declared):
    """Arguments that belong together, and travel as one argument of an estimator.

    "auto" leaves a choice to the estimator, and to the data.
    """

    bundles: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """{name: arguments}: groups that can be asked for by a word."""

    @classmethod
    def meant(cls, value: Any) -> "Group":
        """The group that an argument stands for: None for the defaults, a word for a bundle, or itself."""
        if value is None:
            return cls()
        return cls(**cls.bundles[value]) if isinstance(value, str) else value


class GroupOf(Rule):
    """A group of one class, or None for all of its defaults."""

    def __init__(self, kind: type[Group]) -> None:
        self.kind = kind

    @property
    def words(self) -> tuple[str, ...]:
        """How to make one."""
        return (*(repr(each) for each in self.kind.bundles), f"rp.{self.kind.__name__}(…)", "None")

    def fits(self, value: Any) -> bool:
        """No dicts: one way is enough."""
        return value is None or isinstance(value, self.kind) or (isinstance(value, str) and value in self.kind.bundles)


def every_argument(kind: type[Declared]) -> dict[str, Argument]:
    """{name or group.name: declaration}."""
    found: dict[str, Argument] = {}
    for name, each in kind.declared.items():
        found |= {name: each} if each.group is None else {f"{name}.{n}": a for n, a in each.group.declared.items()}
    return found
