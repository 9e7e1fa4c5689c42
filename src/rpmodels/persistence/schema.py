"""What the header of a model file may say: every name in it is known, and every plain value is of its kind."""

from collections.abc import Collection, Mapping
from typing import Any

from rpmodels import errors
from rpmodels.checks import Flag, Instance, Integer, Listed, Nothing, Number, Rule, Word, shown

NAME = Instance(str, called="a name")
PART = Instance(dict, called="a part")
SHAPE = Listed(Integer(0))
PLAIN: Rule = Nothing() | Flag() | Number() | NAME | Instance(list, dict, called="a plain value")

RECIPE: Mapping[str, Rule] = {
    **dict.fromkeys(("prior", "e_step", "expected_log_mixture", "atoms", "marginal", "head"), PART),
    "input_dropout": Number(0.0, below=1.0), "networks": Listed(PART), "factors": Listed(PART),
    "dtype": Word("float32", "float64"), "n_observations": Number(above=0.0), "n_sites": Number(above=0.0),
    "temperature": Number(above=0.0), "excess": Nothing() | Listed(Listed(PLAIN)),
}  # fmt: skip
FACTOR: Mapping[str, Rule] = {
    "name": NAME, "network": Integer(0), "event_shape": SHAPE, "vocabulary": PLAIN, "scaling": PART,
    "clipped": Integer(0), "seen": Integer(0), "targets": PLAIN,
}  # fmt: skip
ABOUT: Mapping[str, Rule] = {
    "class": NAME, "arguments": Instance(dict, called="arguments"), "fitted": Instance(dict, called="attributes"),
    "restarts": Listed(PART), "score": Listed(PLAIN), "history": Listed(NAME), "profile": Nothing() | PART,
}  # fmt: skip
LATER = ("n_sites", "temperature", "excess")
"""What files before format 4 need not say."""
COUNTS: Mapping[str, int] = {"nodes": 1000, "points": 2**16, "samples": 10**5, "draws": 10**6, "steps": 10**5}
"""What makes work of its own, and how much of it a file may ask for."""
SIZE = 10**9
"""Any other whole number, but seeds and what merely limits something."""
LIMITS = ("seed", "pairs", "sample", "largest")


def check(content: Mapping[str, Any], form: int) -> None:
    """Refuse a header with names that nobody here has written, or without those that everybody has."""
    _table("about", content.get("about"), ABOUT, ("profile",))
    recipe = content["recipe"]
    _table("recipe", recipe, RECIPE, () if form > 3 else LATER)
    for n, each in enumerate(recipe["factors"]):
        _table(f"factors[{n}]", each, FACTOR)
        if each["network"] >= len(recipe["networks"]):
            raise errors.bad_value(f"factors[{n}].network", f"one of {len(recipe['networks'])}", each["network"])
    _counts(recipe)


def _table(where: str, found: Any, rules: Mapping[str, Rule], optional: Collection[str] = ()) -> None:
    Instance(dict, called="a table").check(where, found)
    unknown = sorted(found.keys() - rules.keys())
    missing = sorted(rules.keys() - found.keys() - set(optional))
    if unknown or missing:
        got = f"{', '.join(unknown) or 'nothing'} beside them, and {', '.join(missing) or 'none'} missing"
        raise errors.bad_value(where, f"its {len(rules)} entries", got)
    for name, each in found.items():
        rules[name].check(f"{where}.{name}", each)


def _counts(value: Any, name: str = "") -> None:
    """No whole number that would ask for more work or memory than any model has."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            _counts(each, str(key))
    elif isinstance(value, list):
        for each in value:
            _counts(each, name)
    elif isinstance(value, int) and name not in LIMITS and abs(value) > COUNTS.get(name, SIZE):
        raise errors.bad_value(name, f"at most {COUNTS.get(name, SIZE)}", shown(value))
