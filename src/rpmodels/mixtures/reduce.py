"""The one blocked log-sum-exp over site × atom pairs.

F_j couples every site with every atom. The pairs are never held all at once: atoms come in blocks
sized from a memory budget, and in the backward pass each block is computed again instead of kept.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

PAIR_BUDGET = 2**24
"""Numbers held at once for one block of pairs (64 MB in float32)."""


def log_sum_exp(values: Float[Tensor, "..."], dim: int = -1) -> Float[Tensor, "..."]:
    """log Σ exp with −∞ for an empty sum, and a zero (not NaN) gradient there."""
    top = values.detach().amax(dim, keepdim=True)
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    total = (values - top).exp().sum(dim)
    empty = total == 0
    logs = torch.where(empty, torch.ones_like(total), total).log() + top.squeeze(dim)
    return torch.where(empty, torch.full_like(logs, -torch.inf), logs)


def log_add_exp(left: Float[Tensor, "..."], right: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(exp left + exp right), as safe as `log_sum_exp`; the two broadcast."""
    pair = torch.broadcast_tensors(left, right)  # type: ignore[no-untyped-call]
    return log_sum_exp(torch.stack(pair, -1))


def over_atoms(
    pairs: Callable[[slice], Float[Tensor, "*sites a"]], n_atoms: int, numbers_per_atom: int
) -> Float[Tensor, "*sites"]:
    """log Σ_m exp pairs(m), where `pairs(block)` computes the terms of a block of atoms in its last axis."""
    size = max(1, PAIR_BUDGET // max(1, numbers_per_atom))
    blocks = [slice(start, min(start + size, n_atoms)) for start in range(0, n_atoms, size)]

    def reduced(block: slice) -> Tensor:
        return log_sum_exp(pairs(block))

    if len(blocks) == 1:
        return reduced(blocks[0])
    parts = [checkpoint(reduced, block, use_reentrant=False) for block in blocks]
    return log_sum_exp(torch.stack(parts, -1))
