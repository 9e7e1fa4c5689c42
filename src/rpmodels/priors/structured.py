"""Transition tables with structure: several chains at once, and states with an age.

Both are a `Simplex` over the joint states of what moves, so that `MarkovChainPrior` is the prior of each; their
closed-form M-step sums expected counts over what they do not depend on.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from rpmodels import errors
from rpmodels.priors.simplex import Simplex

IMPOSSIBLE = -300.0
"""log p of what cannot be: finite, so that gradients are, and beyond what any factor can say."""


class ProductSimplex(Simplex):
    """Independent rows: p(k₁, k₂, … | r₁, r₂, …) = ∏_c p_c(k_c | r_c), joint states with the last one's fastest."""

    def __init__(self, parts: Sequence[Simplex]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def _parts(self) -> list[Simplex]:
        return [cast(Simplex, each) for each in self.parts]

    def log_weights(self) -> Float[Tensor, "R K"]:
        """Σ_c log π_c."""
        total, *others = (each.log_weights() for each in self._parts())
        for each in others:
            joint = total[:, None, :, None] + each[None, :, None, :]
            total = joint.reshape(total.shape[0] * each.shape[0], -1)
        return total

    def probabilities(self) -> Float[Tensor, "R K"]:
        """∏_c π_c."""
        total, *others = (each.probabilities() for each in self._parts())
        for each in others:
            total = torch.kron(total, each)
        return total

    def _shared(self, table: Float[Tensor, "R K"]) -> list[Float[Tensor, "..."]]:
        """The table of every part, summed over the others."""
        shapes = [tuple(each.probabilities().shape) for each in self._parts()]
        whole = table.reshape([rows for rows, _ in shapes] + [columns for _, columns in shapes])
        count = len(shapes)
        every = range(2 * count)
        return [whole.sum([axis for axis in every if axis % count != c]) if count > 1 else whole for c in range(count)]

    def update(self, counts: Float[Tensor, "R K"], fraction: float) -> None:
        """Every part from its own counts."""
        for part, own in zip(self._parts(), self._shared(counts), strict=True):
            part.update(own, fraction)

    def restart(self, pi: Float[Tensor, "R K"]) -> None:
        """Every part from its own share."""
        for part, own in zip(self._parts(), self._shared(pi), strict=True):
            part.restart(own / own.sum(-1, keepdim=True))

    @contextmanager
    def by_gradient(self) -> Iterator[None]:
        """All parts."""
        with ExitStack() as stack:
            for each in self._parts():
                stack.enter_context(each.by_gradient())
            yield

    def kl(self) -> Float[Tensor, ""]:
        """Σ_c."""
        return torch.stack([each.kl() for each in self._parts()]).sum()


class AgeSimplex(Simplex):
    """Transitions of (state, age): a state goes on, one step older, or gives way to another, which begins at age 0.

    `hazards` has a row for every state and age, the state's ages side by side: goes on, gives way. The last age is for
    all that are as old or older. `jumps` has a row for every state: which of the others follows.
    """

    def __init__(self, hazards: Simplex, jumps: Simplex) -> None:
        super().__init__()
        self.hazards = hazards
        self.jumps = jumps
        self.count, others = jumps.log_weights().shape
        rows, ways = hazards.log_weights().shape
        if others != self.count - 1 or ways != 2 or rows % self.count:
            expected = f"(states · ages, 2) beside ({self.count}, {self.count - 1})"
            raise errors.bad_value("hazards", expected, f"({rows}, {ways}) beside ({self.count}, {others})")
        self.ages = rows // self.count
        ahead = torch.arange(rows).reshape(self.count, self.ages)
        older = torch.cat([ahead[:, 1:], ahead[:, -1:]], 1).flatten()
        follower = torch.tensor([[s for s in range(self.count) if s != k] for k in range(self.count)])
        self.register_buffer("_older", older, persistent=False)
        self.register_buffer("_born", follower * self.ages, persistent=False)

    _older: Tensor
    _born: Tensor

    def _table(
        self, stay: Float[Tensor, "R"], leave: Float[Tensor, "R"], jumps: Float[Tensor, "S O"]
    ) -> Float[Tensor, "R R"]:
        """Logarithms in the places that are possible."""
        size = len(stay)
        table = stay.new_full((size, size), IMPOSSIBLE)
        table = table.scatter(1, self._older[:, None], stay[:, None])
        going = leave.reshape(self.count, self.ages, 1) + jumps[:, None]
        places = self._born[:, None].expand(-1, self.ages, -1).reshape(size, -1)
        return table.scatter(1, places, going.reshape(size, -1))

    def log_weights(self) -> Float[Tensor, "R K"]:
        """log of going on, or of giving way to each other state."""
        hazards = self.hazards.log_weights()
        return self._table(hazards[:, 0], hazards[:, 1], self.jumps.log_weights())

    def probabilities(self) -> Float[Tensor, "R K"]:
        """The same, not their logarithms."""
        hazards = self.hazards.probabilities().log()
        return self._table(hazards[:, 0], hazards[:, 1], self.jumps.probabilities().log()).exp()

    def _counts(self, table: Float[Tensor, "R K"]) -> tuple[Float[Tensor, "R 2"], Float[Tensor, "S O"]]:
        places = self._born[:, None].expand(-1, self.ages, -1).reshape(len(table), -1)
        going = table.gather(1, places)
        hazards = torch.cat([table.gather(1, self._older[:, None]), going.sum(1, keepdim=True)], 1)
        return hazards, going.reshape(self.count, self.ages, -1).sum(1)

    def update(self, counts: Float[Tensor, "R K"], fraction: float) -> None:
        """How often a state of some age went on or gave way, and to which."""
        hazards, jumps = self._counts(counts)
        self.hazards.update(hazards, fraction)
        self.jumps.update(jumps, fraction)

    def restart(self, pi: Float[Tensor, "R K"]) -> None:
        """From the same of these transitions."""
        hazards, jumps = self._counts(pi)
        self.hazards.restart(hazards / hazards.sum(-1, keepdim=True))
        self.jumps.restart(jumps / jumps.sum(-1, keepdim=True))

    @contextmanager
    def by_gradient(self) -> Iterator[None]:
        """Hazards and jumps."""
        with self.hazards.by_gradient(), self.jumps.by_gradient():
            yield

    def kl(self) -> Float[Tensor, ""]:
        """Of both."""
        return self.hazards.kl() + self.jumps.kl()

    def durations(self) -> Float[Tensor, "S D"]:
        """p(a state lasts 1, 2, …, D or more steps)."""
        leave = self.hazards.probabilities()[:, 1].reshape(self.count, self.ages)
        still = torch.cat([torch.ones_like(leave[:, :1]), (1.0 - leave[:, :-1]).cumprod(1)], 1)
        return torch.cat([still[:, :-1] * leave[:, :-1], still[:, -1:]], 1)


def joint_size(sizes: Sequence[int], largest: int, what: str) -> int:
    """How many joint states there are; too many are refused, whose transitions would be that number squared."""
    total = math.prod(sizes)
    if total > largest:
        raise errors.too_many_joint_states(what, list(sizes), total, largest)
    return total
