"""Words that stand for columns by their names: one, or a range of them."""

import re
from collections.abc import Sequence

from rpmodels import errors

NUMBERED = re.compile(r"(.*?)(\d+)$")


def spread_out(option: str, words: Sequence[str], names: Sequence[str]) -> list[str]:
    """`u0:u29` as u0, u1, …, u29: by number where both ends have one, otherwise as they stand; both ends included."""
    found: list[str] = []
    for word in words:
        found += [word] if word in names or ":" not in word else _range(option, word, names)
    for name in found:
        if name not in names:
            raise errors.no_such_column(option, name, names)
    return found


def _range(option: str, word: str, names: Sequence[str]) -> list[str]:
    first, _, last = (part.strip() for part in word.partition(":"))
    one, other = NUMBERED.match(first), NUMBERED.match(last)
    if one and other and one[1] == other[1] and int(one[2]) <= int(other[2]):
        width = len(one[2]) if one[2].startswith("0") else 0
        return [f"{one[1]}{n:0{width}d}" for n in range(int(one[2]), int(other[2]) + 1)]
    for name in (first, last):
        if name not in names:
            raise errors.no_such_column(option, name, names)
    if names.index(first) > names.index(last):
        raise errors.bad_value(option, "a range from the first column to the last", word)
    return list(names[names.index(first) : names.index(last) + 1])
