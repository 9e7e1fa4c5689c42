"""What plain values may be: rules that say it in words, and check it where a value comes in."""

import math
import numbers
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rpmodels import errors

LARGEST = 100_000
"""Number of latents, states, topics or steps ahead that anybody may ask for."""
LONGEST = 80
"""Characters of a wrong value that an error repeats."""
MOST = 2**63 - 1
"""Of integers: what is larger fits no array."""


class Rule(ABC):
    """What a value may be. `rule | other` is what fits one of them."""

    @property
    @abstractmethod
    def words(self) -> tuple[str, ...]:
        """What it may be, in words: one for each kind of value."""

    @property
    def expected(self) -> str:
        """The same in one text, as it follows "expected"."""
        return in_words(self.words)

    @abstractmethod
    def fits(self, value: Any) -> bool:
        """Whether this is one; never raises."""

    def check(self, name: str, value: Any) -> None:
        """Refuse a value that is none."""
        if not self.fits(value):
            raise errors.bad_value(name, self.expected, shown(value))

    def __or__(self, other: "Rule") -> "Rule":
        return _AnyOf(self, other)


@dataclass(frozen=True)
class _AnyOf(Rule):
    first: Rule
    second: Rule

    @property
    def words(self) -> tuple[str, ...]:
        return self.first.words + self.second.words

    def fits(self, value: Any) -> bool:
        return self.first.fits(value) or self.second.fits(value)


@dataclass(frozen=True)
class Integer(Rule):
    """A whole number in a range."""

    least: int = -MOST
    most: int = MOST

    @property
    def words(self) -> tuple[str, ...]:
        """With the ends that were named."""
        limits = [f"≥ {self.least}"] * (self.least > -MOST)
        if self.most != MOST:
            power = (self.most + 1).bit_length() - 1
            limits.append(f"< 2**{power}" if self.most > 10**9 and self.most + 1 == 2**power else f"≤ {self.most}")
        return (f"an integer {' and '.join(limits)}".strip(),)

    def fits(self, value: Any) -> bool:
        """True and False are no numbers here."""
        whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
        return whole and bool(self.least <= value <= self.most)  # numpy compares to a bool of its own


@dataclass(frozen=True)
class Number(Rule):
    """A finite number: at least `least`, above `above`, below `below`."""

    least: float = -math.inf
    above: float = -math.inf
    below: float = math.inf

    @property
    def words(self) -> tuple[str, ...]:
        """With the ends that were named."""
        limits = [f"≥ {self.least:g}"] * (self.least > -math.inf) + [f"> {self.above:g}"] * (self.above > -math.inf)
        limits += [f"< {self.below:g}"] * (self.below < math.inf)
        return (f"a number {' and '.join(limits)}".strip(),)

    def fits(self, value: Any) -> bool:
        """True and False are no numbers here."""
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            return False
        try:
            real = float(value)
        except OverflowError:  # an integer beyond all floats
            return False
        return math.isfinite(real) and real >= self.least and self.above < real < self.below


class Flag(Rule):
    """True or False."""

    words = ("True", "False")

    def fits(self, value: Any) -> bool:
        """Those of numpy as well."""
        return isinstance(value, bool | np.bool_)


class Nothing(Rule):
    """None."""

    words = ("None",)

    def fits(self, value: Any) -> bool:
        """Only that."""
        return value is None


class Word(Rule):
    """One of some names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    @property
    def words(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(map(repr, self.names))

    def fits(self, value: Any) -> bool:
        """By the letter."""
        return isinstance(value, str) and value in self.names


class Same(Rule):
    """One of some objects, themselves."""

    def __init__(self, *objects: Any) -> None:
        self.objects = objects

    @property
    def words(self) -> tuple[str, ...]:
        """All of them."""
        return tuple(map(str, self.objects))

    def fits(self, value: Any) -> bool:
        """By identity: nothing is asked of a value that is none of them."""
        return any(value is each for each in self.objects)


class Instance(Rule):
    """An object of a class, or of one of several."""

    def __init__(self, *kinds: type, called: str = "") -> None:
        self.kinds = kinds
        self.called = (called,) if called else tuple(f"a {kind.__name__}" for kind in kinds)

    @property
    def words(self) -> tuple[str, ...]:
        """What it is called."""
        return self.called

    def fits(self, value: Any) -> bool:
        """Its own class or one below it; a class itself is no object of it."""
        return isinstance(value, self.kinds)


class Path(Rule):
    """Where a file or a folder is."""

    words = ("a path",)

    def fits(self, value: Any) -> bool:
        """Whether there is something turns out when it is looked at."""
        return isinstance(value, str | os.PathLike) and str(value) != "" and "\0" not in str(value)


class Function(Rule):
    """Something that can be called."""

    def __init__(self, called: str = "something that can be called") -> None:
        self.called = called

    @property
    def words(self) -> tuple[str, ...]:
        """What it is called."""
        return (self.called,)

    def fits(self, value: Any) -> bool:
        """Whether it takes what it will be given turns out when it is called."""
        return callable(value)


class Listed(Rule):
    """A list or tuple, every element by one rule."""

    def __init__(self, each: Rule) -> None:
        self.each = each

    @property
    def words(self) -> tuple[str, ...]:
        """Of what."""
        return (f"a list (each {self.each.expected})",)

    def fits(self, value: Any) -> bool:
        """Text is no list of letters."""
        listed = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        row = isinstance(value, np.ndarray) and value.ndim == 1
        return (listed or row) and all(self.each.fits(each) for each in value)


class ByFactor(Rule):
    """A dict, every value by one rule; `called` is what it is in words where the rule itself stands before it."""

    def __init__(self, each: Rule, called: str = "", key: str = "factor") -> None:
        self.each = each
        self.called = called
        self.key = key

    @property
    def words(self) -> tuple[str, ...]:
        """Of what."""
        return (f"a dict {{{self.key}: {self.called or self.each.expected}}}",)

    def fits(self, value: Any) -> bool:
        """Which factors there are turns out with the data."""
        return isinstance(value, Mapping) and all(self.each.fits(each) for each in value.values())


class Array(Rule):
    """Finite numbers in an array of one of these numbers of axes, or what numpy makes one of."""

    def __init__(self, *axes: int) -> None:
        self.axes = axes

    @property
    def words(self) -> tuple[str, ...]:
        """With its axes."""
        return (f"an array of finite numbers with {' or '.join(map(str, self.axes))} axes",)

    def fits(self, value: Any) -> bool:
        """Nothing empty."""
        if isinstance(value, str | bytes | Mapping | None):
            return False
        try:
            array = np.asarray(value, float)
        except (TypeError, ValueError, OverflowError, RuntimeError):
            return False
        return array.ndim in self.axes and array.size > 0 and bool(np.isfinite(array).all())


def in_words(kinds: Sequence[str]) -> str:
    """a, b or c."""
    return " or ".join(filter(None, (", ".join(kinds[:-1]), kinds[-1])))


def shown(value: Any) -> str:
    """A wrong value in an error: the beginning of its text."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a text is wanted here, whatever the value's own __repr__ does
        text = f"a {type(value).__name__}"
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def integer(name: str, value: Any, least: int, most: int = MOST) -> int:
    """A whole number, at least `least` and at most `most`."""
    Integer(least, most).check(name, value)
    return int(value)


def number(
    name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf, below: float = math.inf
) -> float:
    """A finite number, at least `least`, above `above`, below `below`."""
    Number(least, above, below).check(name, value)
    return float(value)
