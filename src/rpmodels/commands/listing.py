"""`rpmodels datasets`: the catalogue as text or JSON."""

import json
from typing import Any

from rpmodels.datasets.catalogue import DATA_SETS

FACTS = ("size", "origin", "needs")


def list_data_sets(as_json: bool) -> str:
    """Every data set with what it is, whose, what it needs and where it is."""
    known: list[dict[str, Any]] = [
        {"name": each.name, "summary": each.summary, **{fact: getattr(each, fact) for fact in FACTS},
         "here": each.where()}
        for each in DATA_SETS
    ]  # fmt: skip
    if as_json:
        return json.dumps(known, indent=1, ensure_ascii=False)
    return "\n".join(
        "\n".join([f"{each['name']}: {each['summary']}", *(f"    {fact:6} {each[fact]}" for fact in (*FACTS, "here"))])
        for each in known
    )
