"""Streams: what an update costs beside the bare network and a step of `filter`, and how far it is from `filter`.

    python benchmarks/streams.py

One thread, K = 4, 20 channels, brief fits (numbers of a fit make no difference to what an update costs). Medians of
1 000 calls, all in one run. `filter`: a whole series of 100 steps, divided by them, and a series of one step.
"""

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

import rpmodels as rp

K, CHANNELS, STEPS, CALLS = 4, 20, 100, 1_000


def median(call: Callable[[], Any], calls: int = CALLS) -> float:
    """Microseconds."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return 1e6 * float(np.median(times))


def models(x: np.ndarray, counts: np.ndarray) -> dict[str, tuple[Any, np.ndarray]]:
    brief: dict[str, Any] = {
        "max_iter": 3, "n_init": 1, "random_state": 0, "training": rp.Training(finish="none"),
        "search": rp.Search(retries=0),
    }  # fmt: skip
    process: dict[str, Any] = {"n_inducing": None, "inference": rp.Inference(atoms="pooled"), **brief}
    full = rp.Recognition(covariance="full")
    return {
        "RPLDS": (rp.RPLDS(K, **brief).fit(x), x),
        "RPGPFA, Matérn 3/2": (rp.RPGPFA(K, kernel="matern32", **process).fit(x), x),
        "RPGPFA, Matérn 5/2, full": (rp.RPGPFA(K, kernel="matern52", recognition=full, **process).fit(x), x),
        "RPHMM": (rp.RPHMM(K, **brief).fit(x), x),
        "RPHMM, two chains": (rp.RPHMM({"a": 2, "b": 2}, **brief).fit(x), x),
        "RPHMM, durations": (rp.RPHMM(K, durations=8, **brief).fit(x), x),
        "RPLDS, population": (rp.RPLDS(K, channels="separate", **brief).fit(counts), counts),
    }


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    z = np.cumsum(rng.standard_normal((20, STEPS, K)), 1) * 0.2
    x = (z @ rng.standard_normal((K, CHANNELS)) + rng.standard_normal((20, STEPS, CHANNELS))).astype(np.float32)
    counts = rng.poisson(np.exp(0.2 * z @ rng.standard_normal((K, CHANNELS)))).astype(np.float32)
    print(f"{'':26}network  update  ratio  filter/step  ratio  filter of one  |stream − filter|")
    for name, (model, data) in models(x, counts).items():
        (_, recogniser), *_ = model.model_.pattern.recognisers()
        row = torch.from_numpy(data[0, :1])
        seen = row[:, None] if recogniser.curves() is not None else row
        with torch.no_grad():
            bare = median(partial(recogniser.network, seen))
        stream = model.stream()
        update = median(partial(stream.update, data[0, 0]))
        whole = median(partial(model.filter, data[0]), 20) / STEPS
        single = median(partial(model.filter, data[0, :1]), 100)
        stream.reset()
        off = 0.0
        filtered = model.filter(data[0])
        for t in range(STEPS):
            said = stream.update(data[0, t])
            if isinstance(said, tuple):
                pairs = [(said[0], filtered.mean[t]), (said[1], filtered.covariance[t])]
            elif isinstance(said, dict):
                pairs = [(each, filtered[chain][t]) for chain, each in said.items()]
            else:
                pairs = [(said, filtered[t])]
            off = max(off, *(float((np.abs(one - two) / (1 + np.abs(two))).max()) for one, two in pairs))
        print(
            f"{name:26}{bare:5.0f} µs {update:5.0f} µs {update / bare:5.1f} {whole:8.0f} µs {update / whole:8.2f} "
            f"{single:11.0f} µs {off:14.1e}"
        )


if __name__ == "__main__":
    main()
