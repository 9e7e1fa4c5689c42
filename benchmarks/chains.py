"""Chains of K states: the associative scan against the loop, forward and backward, one thread.

    python benchmarks/chains.py

Writes docs/results/bench-chains.json.
"""

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from rpmodels.persistence import write_json
from rpmodels.priors import chain

OUT = Path(__file__).parent.parent / "docs" / "results" / "bench-chains.json"
SIZES = [(n, t, k) for k in (2, 6, 10, 16) for n, t in ((20, 25), (20, 100), (1, 1000), (1, 10_000))]


def milliseconds(way: Callable[[Tensor, Tensor], Tensor], n: int, t: int, k: int) -> float:
    """Best of three."""
    start, steps = torch.randn(n, k), torch.randn(n, t - 1, k, k, requires_grad=True)
    best = float("inf")
    for _ in range(3):
        steps.grad = None
        begun = time.perf_counter()
        way(start, steps).sum().backward()  # type: ignore[no-untyped-call]
        best = min(best, time.perf_counter() - begun)
    return best * 1e3


def main() -> None:
    """Every size, both ways."""
    torch.set_num_threads(1)
    rows = []
    for n, t, k in SIZES:
        scan, loop = (milliseconds(way, n, t, k) for way in (chain._scanned, chain._in_turn))
        rows.append(
            {"n": n, "t": t, "k": k, "ms_scan": scan, "ms_loop": loop, "scan_chosen": n * k**3 <= chain.SCAN_UP_TO}
        )
        print(f"N={n} T={t} K={k}: scan {scan:.1f} ms, loop {loop:.1f} ms")
    write_json(OUT, {"rows": rows})


if __name__ == "__main__":
    main()
