"""Messages in a junction tree: sums and maxima over all configurations of discrete latents, in log space, batched.

Tables have an axis for every latent of their node, and the observations last: sums over states then run along
contiguous memory, whatever the number of states.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rpmodels.families.junction_tree import JunctionTree, Scope
from rpmodels.linalg import log_sum_exp

Reduce = Callable[[Tensor, tuple[int, ...]], Tensor]
"""A sum or a maximum over some axes."""
Choose = Callable[[Float[Tensor, "F n"]], Int[Tensor, "n"]]
"""One of the rows for every column."""


def log_sum(table: Float[Tensor, "..."], axes: tuple[int, ...]) -> Float[Tensor, "..."]:
    """log Σ exp over some axes."""
    return log_sum_exp(table, axes)


def highest(table: Float[Tensor, "..."], axes: tuple[int, ...]) -> Float[Tensor, "..."]:
    """The maximum over some axes."""
    return torch.amax(table, axes)


@dataclass(frozen=True)
class Messages:
    """What every node of a tree knows from the nodes below it, and told the one above.

    `tables` are Σ over configurations of all that is below (or maxima over them); the root told nothing.
    """

    tree: JunctionTree
    tables: Sequence[Float[Tensor, "..."]]
    told: Sequence[Float[Tensor, "..."]]

    @staticmethod
    def collected(tree: JunctionTree, said: Sequence[Float[Tensor, "..."] | None], reduce: Reduce) -> "Messages":
        """From the leaves to the root; `said` has a potential (*states, n) of every scope, and None for other nodes."""
        n = next(each.shape[-1] for each in said if each is not None)
        like = next(each for each in said if each is not None)
        shapes = [tree.shape(node.latents) for node in tree.nodes]
        tables = [
            like.new_zeros(*shape, 1) if each is None else each.reshape(*shape, n)
            for each, shape in zip(said, shapes, strict=True)
        ]
        told = [like.new_zeros(())] * len(tables)
        for i in range(len(tables) - 1, 0, -1):
            node = tree.nodes[i]
            message = _reduced(tables[i], node.latents, node.shared, reduce)
            told[i] = message
            above = tree.nodes[node.above].latents
            tables[node.above] = tables[node.above] + _stretched(message, node.shared, above)
        return Messages(tree, tables, told)

    @cached_property
    def log_partition(self) -> Float[Tensor, "n"]:
        """log Σ over all configurations (or the highest value of any)."""
        root = self.tables[0]
        return log_sum_exp(root, tuple(range(root.dim() - 1)))

    @cached_property
    def log_marginals(self) -> Sequence[Float[Tensor, "..."]]:
        """log p of every node's latents: from the root to the leaves, each less what it told itself."""
        beliefs = [self.tables[0] - self.log_partition]
        for node, table, told in list(zip(self.tree.nodes, self.tables, self.told, strict=True))[1:]:
            above = self.tree.nodes[node.above].latents
            outside = _reduced(beliefs[node.above], above, node.shared, log_sum)
            beliefs.append(outside if node.inside else table + _stretched(outside - told, node.shared, node.latents))
        return beliefs

    def assigned(self, choose: Choose) -> Int[Tensor, "n A"]:
        """A configuration: latents of the root first, then those of every node given what it shares with the last."""
        n = self.tables[0].shape[-1]
        found = torch.zeros(len(self.tree.states), n, dtype=torch.int64, device=self.tables[0].device)
        for node, table in zip(self.tree.nodes, self.tables, strict=True):
            free = [a for a in node.latents if a not in node.shared]
            if not free:
                continue
            given = self._given(table.expand(*table.shape[:-1], n), node.latents, node.shared, found)
            for a, state in zip(free, _unravelled(choose(given), self.tree.shape(tuple(free))), strict=True):
                found[a] = state
        return found.mT

    def _given(
        self, table: Float[Tensor, "..."], latents: Scope, shared: Scope, found: Int[Tensor, "A n"]
    ) -> Float[Tensor, "F n"]:
        """The rows of a table that agree with what was found."""
        order = [latents.index(a) for a in (*shared, *(a for a in latents if a not in shared))]
        n = table.shape[-1]
        rows = table.permute(*order, len(latents))
        if not shared:
            return rows.reshape(-1, n)
        place = torch.zeros_like(found[0])
        for a in shared:
            place = place * self.tree.states[a] + found[a]
        flat = rows.reshape(int(torch.tensor(self.tree.shape(shared)).prod()), -1, n)
        return flat.gather(0, place.expand(1, flat.shape[1], n))[0]


def marginal_of(table: Float[Tensor, "..."], latents: Scope, wanted: Scope) -> Float[Tensor, "..."]:
    """log p of some of a node's latents."""
    return _reduced(table, latents, wanted, log_sum)


def _reduced(table: Float[Tensor, "..."], latents: Scope, kept: Scope, reduce: Reduce) -> Float[Tensor, "..."]:
    axes = tuple(i for i, a in enumerate(latents) if a not in kept)
    return reduce(table, axes) if axes else table


def _stretched(message: Float[Tensor, "..."], latents: Scope, wanted: Scope) -> Float[Tensor, "..."]:
    """With an axis of length one for every latent that the message does not speak of."""
    sizes = dict(zip(latents, message.shape[:-1], strict=True))
    return message.reshape(*(sizes.get(a, 1) for a in wanted), message.shape[-1])


def _unravelled(index: Int[Tensor, "n"], shape: tuple[int, ...]) -> list[Int[Tensor, "n"]]:
    """Rows of a table as the states of its latents."""
    found = []
    for size in reversed(shape):
        found.append(index % size)
        index = index // size
    return found[::-1]
