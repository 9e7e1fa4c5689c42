"""What a graph of discrete latents is made from: names, parents and tables as the user gives them, checked."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from rpmodels import checks, errors

Latents = Mapping[str, int]
"""{name: number of states}."""
Specification = Mapping[str, Sequence[str]]
"""{latent: its parents}; those that are not there have none."""
TOWARDS_UNIFORM = 0.5
"""How far tables start from random rows."""


@dataclass(frozen=True)
class LogTable:
    """Where p(z_a | parents) stands: rows of parents as a table, and the table of the scope in rising order."""

    latent: int
    parents: tuple[int, ...]
    states: tuple[int, ...]

    @property
    def _order(self) -> tuple[int, ...]:
        return (*self.parents, self.latent)

    @property
    def scope(self) -> tuple[int, ...]:
        """The latent and its parents, in rising order."""
        return tuple(sorted(self._order))

    def as_parents(self, rows: Float[Tensor, "R K"]) -> Float[Tensor, "..."]:
        """An axis for every parent and one of its own."""
        return rows.reshape([self.states[a] for a in self._order])

    def as_scope(self, rows: Float[Tensor, "R K"]) -> Float[Tensor, "d"]:
        """In the order of the scope, flat."""
        return self.as_parents(rows).permute([self._order.index(a) for a in self.scope]).flatten()

    def as_rows(self, flat: Float[Tensor, "d"]) -> Float[Tensor, "R K"]:
        """The inverse of `as_scope`."""
        table = flat.reshape([self.states[a] for a in self.scope])
        return table.permute([self.scope.index(a) for a in self._order]).reshape(-1, self.states[self.latent])


@dataclass(frozen=True)
class Specified:
    """A graph by places instead of names."""

    names: list[str]
    states: list[int]
    parents: list[list[int]]
    scopes: list[list[int]]
    cliques: list[list[int]]

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Rows and columns of every table."""
        sizes = [math.prod(self.states[a] for a in each) for each in self.parents]
        return list(zip(sizes, self.states, strict=True))

    def of_cliques(self) -> dict[str, Tensor]:
        """Uniform tables of the latents that potentials speak of."""
        spoken = {a for each in self.cliques for a in each}
        return {self.names[a]: torch.full((1, self.states[a]), 1.0 / self.states[a]).double() for a in sorted(spoken)}

    def rows(self, tables: Mapping[str, Float[Tensor, "..."]]) -> dict[str, Tensor]:
        """Given tables as rows that sum to one."""
        found = {}
        for name, each in tables.items():
            a = _place("tables", self.names, name)
            if any(a in clique for clique in self.cliques):
                raise errors.bad_value("tables", "none of a latent that is in a clique", f"one of '{name}'")
            shape = [self.states[b] for b in (*self.parents[a], a)]
            given = torch.as_tensor(each, dtype=torch.float64)
            if list(given.shape) != shape:
                raise errors.bad_value(f"the table of '{name}'", f"shape {shape}", f"shape {list(given.shape)}")
            sums = given.sum(-1, keepdim=True)
            if not bool((given >= 0).all()) or bool(((sums - 1.0).abs() > 1e-3).any()):
                expected = "numbers ≥ 0, every row (the last axis) with sum 1"
                raise errors.bad_value(f"the table of '{name}'", expected, given.tolist())
            found[name] = (given / sums).reshape(-1, self.states[a])
        return found


def specified(
    states: Latents,
    parents: Specification | None,
    scopes: Sequence[Sequence[str]],
    cliques: Sequence[Sequence[str]] = (),
) -> Specified:
    """What the user said, in places; no circles, no unknown names; no parents in cliques."""
    names = [str(each) for each in states]
    if not names:
        raise errors.bad_value("states", "{latent: number of states}", dict(states))
    sizes = [checks.integer(f"states of the latent '{name}'", each, 2) for name, each in states.items()]
    above = {str(name): each for name, each in (parents or {}).items()}
    for name in above:
        _place("parents", names, name)
    listed = [[_place(f"parents of '{name}'", names, each) for each in above.get(name, ())] for name in names]
    for name, each in zip(names, listed, strict=True):
        if len(set(each)) < len(each):
            raise errors.bad_value(f"parents of '{name}'", "different latents", above[name])
    _check_order(names, listed)
    spoken = [[_place("scopes", names, each) for each in scope] for scope in scopes]
    coupled = [[_place("cliques", names, each) for each in clique] for clique in cliques]
    _check_cliques(names, listed, coupled)
    return Specified(names, sizes, listed, spoken, coupled)


def _check_cliques(names: Sequence[str], parents: Sequence[Sequence[int]], cliques: Sequence[Sequence[int]]) -> None:
    """Different latents in each, every set once, and none of a latent that has parents."""
    for each in cliques:
        given = [names[a] for a in each]
        if not each or len(set(each)) < len(each) or sum(set(each) == set(other) for other in cliques) > 1:
            raise errors.bad_value("cliques", "sets of different latents, each once", given)
        for a in each:
            if parents[a]:
                raise errors.bad_value("cliques", "latents without parents", f"'{names[a]}' in {given}")


def _place(what: str, names: Sequence[str], name: str) -> int:
    if name not in names:
        raise errors.bad_choice(what, names, name)
    return list(names).index(name)


def _check_order(names: Sequence[str], parents: Sequence[Sequence[int]]) -> None:
    """Every latent must come after its parents in some order."""
    left = set(range(len(names)))
    while left:
        first = {a for a in left if not left.intersection(parents[a])}
        if not first:
            raise errors.cyclic_parents([names[a] for a in sorted(left)])
        left -= first


def started(rows: int, size: int) -> Float[Tensor, "R K"]:
    """Tables to begin with, from torch's global generator: a root uniform, others between that and random rows."""
    uniform = torch.full((rows, size), 1.0 / size, dtype=torch.float64)
    if rows == 1:
        return uniform
    drawn = -torch.rand(rows, size, dtype=torch.float64).clamp_min(1e-12).log()
    return TOWARDS_UNIFORM * uniform + (1.0 - TOWARDS_UNIFORM) * drawn / drawn.sum(-1, keepdim=True)
