"""The one blocked log-sum-exp over site × atom pairs.

F_j couples every site with every atom. The pairs are never held all at once: atoms come in blocks
sized from a memory budget, and in the backward pass each block is computed again instead of kept.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from rpmodels.linalg import log_sum_exp

PAIR_BUDGET = 2**25
"""Numbers held at once for one block of pairs (128 MB in float32).

Half of it already makes arrays above 32 MB, which glibc gives back to the system at once; smaller ones stay in a heap
that the backward pass has been seen to fragment to five times their size.
"""


def log_add_exp(left: Float[Tensor, "..."], right: Float[Tensor, "..."]) -> Float[Tensor, "..."]:
    """log(exp left + exp right), as safe as `log_sum_exp`; the two broadcast."""
    pair = torch.broadcast_tensors(left, right)  # type: ignore[no-untyped-call]
    return log_sum_exp(torch.stack(pair, -1))


def over_atoms(
    pairs: Callable[[slice], Float[Tensor, "*sites a"]], n_atoms: int, numbers_per_atom: int
) -> Float[Tensor, "*sites"]:
    """log Σ_m exp pairs(m), where `pairs(block)` computes the terms of a block of atoms in its last axis."""
    parts = _each_block(lambda block: (log_sum_exp(pairs(block)),), n_atoms, numbers_per_atom)
    return parts[0][0] if len(parts) == 1 else log_sum_exp(torch.stack([part[0] for part in parts], -1))


def averaged_over_atoms(
    pairs: Callable[[slice], tuple[Float[Tensor, "*sites a"], Float[Tensor, "*sites a V"]]],
    n_atoms: int,
    numbers_per_atom: int,
) -> tuple[Float[Tensor, "*sites"], Float[Tensor, "*sites V"]]:
    """log Σ_m exp l_m and Σ_m π_m v_m with π = softmax l, where `pairs(block)` gives (l, v) of a block of atoms."""

    def reduced(block: slice) -> tuple[Tensor, Tensor]:
        logits, values = pairs(block)
        return _average(logits, values)

    parts = _each_block(reduced, n_atoms, numbers_per_atom)
    if len(parts) == 1:
        return parts[0][0], parts[0][1]
    logs, averages = (torch.stack(each, axis) for each, axis in zip(zip(*parts, strict=True), (-1, -2), strict=True))
    return _average(logs, averages)


def _average(
    logits: Float[Tensor, "*sites a"], values: Float[Tensor, "*#sites a V"]
) -> tuple[Float[Tensor, "*sites"], Float[Tensor, "*sites V"]]:
    total = log_sum_exp(logits)
    shares = (logits - torch.nan_to_num(total, neginf=0.0)[..., None]).exp()
    return total, (shares[..., None, :] @ values)[..., 0, :]


def block_size(numbers_per_atom: int) -> int:
    """Atoms at a time."""
    return max(1, PAIR_BUDGET // max(1, numbers_per_atom))


def _each_block(
    reduced: Callable[[slice], tuple[Tensor, ...]], n_atoms: int, numbers_per_atom: int
) -> list[tuple[Tensor, ...]]:
    """Every block of atoms reduced; several blocks are computed again in the backward pass instead of kept."""
    size = block_size(numbers_per_atom)
    blocks = [slice(start, min(start + size, n_atoms)) for start in range(0, max(n_atoms, 1), size)]
    if len(blocks) == 1:
        return [reduced(blocks[0])]
    return [checkpoint(reduced, block, use_reentrant=False) for block in blocks]
