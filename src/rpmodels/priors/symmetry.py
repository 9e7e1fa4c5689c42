"""What p(Z) leaves free: maps of the latents under which it, and so the likelihood, stays as it is.

Sessions that share nothing but the prior find the same latents up to one of these. Of normal latents they are the
orthogonal U with U C(t, s) Uᵀ = C(t, s) at all times; of states the permutations that leave all probabilities alone.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

ALIKE = 0.05
"""Relative difference of covariances, and difference of probabilities, that no data of usual size tell apart."""
ENUMERATED = 6
"""States of which all orders are tried; of more, exchanges of two."""
PLACES = (0, 1, 2, 4, 8, 16)
"""Sites between which covariances are compared."""


@dataclass(frozen=True)
class Symmetry:
    """The group of maps; none but the identity where all of it is zero or empty."""

    signs: int = 0
    """Groups of latents whose sign is free, each by itself, where no rotation is."""
    rotations: int = 0
    """Dimensions of the rotations that are free."""
    exchangeable: tuple[tuple[int, ...], ...] = ()
    """States that can take each other's place."""

    @property
    def text(self) -> str:
        """In a sentence."""
        if self.rotations:
            many = f"rotations of {self.rotations} dimension{'s' * (self.rotations > 1)}, and signs, are free"
            return f"p(Z) does not tell all latents apart: {many}."
        if self.signs:
            whose = "the sign of all latents together is" if self.signs == 1 else f"{self.signs} signs of latents are"
            return f"p(Z) tells latents apart: {whose} free, and nothing else."
        if self.exchangeable:
            listed = "; ".join(", ".join(str(k) for k in each) for each in self.exchangeable)
            return f"p(Z) does not tell these states apart: {listed}."
        return "p(Z) tells all states apart: nothing is free."


def of_normals(covariances: Float[Tensor, "S S K K"]) -> Symmetry:
    """From C(t, s) between some sites: the orthogonal maps that commute with all of them."""
    K = covariances.shape[-1]
    every = covariances.detach().double().flatten(0, 1)
    pairs = [(i, j) for i in range(K) for j in range(i)]
    skew = [_unit(K, i, j) - _unit(K, j, i) for i, j in pairs]
    even = [_unit(K, i, j) + _unit(K, j, i) for i, j in pairs] + [2**0.5 * _unit(K, i, i) for i in range(K)]
    rotations = _commuting(every, skew)
    return Symmetry(rotations=rotations) if rotations else Symmetry(signs=_commuting(every, even))


def _unit(size: int, i: int, j: int) -> Float[Tensor, "K K"]:
    made = torch.zeros(size, size, dtype=torch.float64)
    made[i, j] = 0.5**0.5
    return made


def _commuting(matrices: Float[Tensor, "n K K"], basis: Sequence[Tensor]) -> int:
    """Dimensions of the span of the basis (orthonormal) whose members commute with all matrices, nearly."""
    if not basis:
        return 0
    M = matrices.cpu()
    images = torch.stack([(M @ B - B @ M).flatten() for B in basis], 1)
    return int((torch.linalg.svdvals(images) <= ALIKE * M.norm(dim=(1, 2)).amax()).sum())


def of_states(tables: Sequence[Float[Tensor, "..."]]) -> Symmetry:
    """From probabilities of states (K,) and transitions between them (K, K)."""
    K = tables[0].shape[-1]
    orders = list(itertools.permutations(range(K))) if K <= ENUMERATED else _exchanges(K)
    free = [order for order in orders if all(_same(table, order) for table in tables)]
    groups = [{k} for k in range(K)]
    for order in free:
        for k, other in enumerate(order):
            one, two = (next(each for each in groups if place in each) for place in (k, other))
            if one is not two:
                groups.remove(two)
                one |= two
    return Symmetry(exchangeable=tuple(tuple(sorted(each)) for each in groups if len(each) > 1))


def _exchanges(size: int) -> list[tuple[int, ...]]:
    found = []
    for i, j in itertools.combinations(range(size), 2):
        order = list(range(size))
        order[i], order[j] = j, i
        found.append(tuple(order))
    return found


def _same(table: Float[Tensor, "..."], order: Sequence[int]) -> bool:
    index = torch.tensor(order, device=table.device)
    moved = table[index] if table.ndim == 1 else table[index][:, index]
    return float((moved - table).abs().max()) <= ALIKE
