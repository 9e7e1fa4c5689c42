"""Junction trees: how sums over many discrete latents are done by sums over few at a time.

Scopes are sets of latents that something speaks of: a table p(z_a | parents), a factor. Latents are eliminated one
after the other, always the one whose neighbours lack the fewest edges among themselves (min-fill); the cliques that
appear contain every scope, and are joined by the largest sets that they share. Scopes that are no cliques hang on the
smallest set that contains them, so that what they say is added up, and read off, where tables are small.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

from rpmodels import errors

Scope = tuple[int, ...]
"""Latents by their places, in rising order."""


@dataclass(frozen=True)
class Node:
    """A clique or a scope, and how it hangs on the tree."""

    latents: Scope
    above: int
    """Where the node that it hangs on stands; −1 for the root."""
    shared: Scope
    """The latents that both have."""

    @property
    def inside(self) -> bool:
        """Whether the node above has all of its latents."""
        return self.above >= 0 and self.shared == self.latents


@dataclass(frozen=True)
class JunctionTree:
    """Nodes, each after the one that it hangs on; every latent's nodes are a connected part of the tree."""

    states: tuple[int, ...]
    nodes: tuple[Node, ...]

    def place(self, scope: Scope) -> int:
        """Which node these latents are."""
        return self._places[scope]

    @cached_property
    def _places(self) -> dict[Scope, int]:
        return {node.latents: i for i, node in enumerate(self.nodes)}

    def shape(self, scope: Scope) -> tuple[int, ...]:
        """The numbers of states of these latents."""
        return tuple(self.states[a] for a in scope)


@cache
def junction_tree(
    names: tuple[str, ...], states: tuple[int, ...], scopes: tuple[Scope, ...], largest: int
) -> JunctionTree:
    """The tree in which every scope is a node; no clique may have more joint states than `largest`."""
    cliques = _maximal(_eliminated(states, scopes))
    for each in cliques:
        if _size(each, states) > largest:
            inside = [tuple(names[a] for a in scope) for scope in scopes if set(scope) <= set(each)]
            raise errors.clique_too_large({names[a]: states[a] for a in each}, _size(each, states), largest, inside)
    return JunctionTree(states, tuple(_hung(_joined(cliques), scopes, states)))


def _size(scope: Collection[int], states: Sequence[int]) -> int:
    return math.prod(states[a] for a in scope)


def _eliminated(states: Sequence[int], scopes: Sequence[Scope]) -> list[Scope]:
    """The latent that is eliminated and its neighbours, who are neighbours of each other from then on."""
    around: dict[int, set[int]] = {a: set() for a in range(len(states))}
    for scope in scopes:
        for a in scope:
            around[a].update(b for b in scope if b != a)
    cliques = []
    while around:
        chosen = min(around, key=lambda a: (_missing(a, around), _size(around[a], states), a))
        near = around.pop(chosen)
        cliques.append(tuple(sorted((chosen, *near))))
        for a in near:
            around[a] |= near - {a}
            around[a].discard(chosen)
    return cliques


def _missing(a: int, around: dict[int, set[int]]) -> int:
    """Edges that the neighbours of a latent lack among themselves, each counted twice."""
    return sum(len(around[a] - around[b]) - 1 for b in around[a])


def _maximal(cliques: Sequence[Scope]) -> list[Scope]:
    """Without those that are part of an earlier one: a later one cannot hold what was eliminated before."""
    kept: list[Scope] = []
    for each in cliques:
        if not any(set(each) <= set(other) for other in kept):
            kept.append(each)
    return kept


def _joined(cliques: Sequence[Scope]) -> list[Node]:
    """A spanning tree of the largest shared sets (Prim), which is a junction tree."""
    nodes = [Node(cliques[0], -1, ())]
    best = {each: (len(set(each) & set(cliques[0])), 0) for each in cliques[1:]}
    while best:
        chosen = max(best, key=lambda each: best[each][0])
        _, above = best.pop(chosen)
        shared = tuple(a for a in chosen if a in nodes[above].latents)
        nodes.append(Node(chosen, above, shared))
        for each, (most, _) in best.items():
            common = len(set(each) & set(chosen))
            if common > most:
                best[each] = (common, len(nodes) - 1)
    return nodes


def _hung(nodes: list[Node], scopes: Sequence[Scope], states: Sequence[int]) -> list[Node]:
    """The tree of cliques with every further scope on the smallest node that contains it, large ones first."""
    known = {each.latents for each in nodes}
    for scope in sorted(set(scopes) - known, key=lambda each: (-len(each), each)):
        above = min(
            (i for i, each in enumerate(nodes) if set(scope) <= set(each.latents)),
            key=lambda i: _size(nodes[i].latents, states),
        )
        nodes.append(Node(scope, above, scope))
    return nodes
