"""Fits by groups of processes, for test_distributed.py: `python together.py FOLDER`.

The library is imported once and the processes are forked from there, before any of them has computed anything.
"""

import json
import os
import sys
import traceback
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

import rpmodels as rp
from data import clusters, waves
from rpmodels import errors
from rpmodels.learning.distributed import process_group


def pairs():
    x, _ = clusters(101, noise=0.3)
    x["b"][::5] = np.nan  # one factor is missing now and then
    return x


def hardly_there():
    x = pairs()
    x["c"] = np.full((101, 2), np.nan)
    x["c"][:6] = x["a"][:6, :2]  # so that shares of many batches have nothing of it
    return x


def trials(unequal):
    random = np.random.default_rng(1)
    lengths = random.integers(6, 12, size=21) if unequal else np.full(21, 9)
    return waves(lengths, 3, period=2, noise=0.1, random=random)


def spikes():
    random = np.random.default_rng(2)
    smooth = np.cumsum(0.5 * random.standard_normal((21, 9, 2)), 1)
    counts = random.poisson(np.exp(0.4 * smooth @ random.standard_normal((2, 8)))).astype(float)
    counts[::4, :, 3] = np.nan  # a channel is missing now and then
    return counts


COMMON = {
    "recognition": rp.Recognition(dropout=0.0, input_dropout=0.0), "engine": rp.Engine(dtype="float64"),
    "random_state": 0, "max_iter": 40,
}  # fmt: skip
ONCE = {**COMMON, "search": rp.Search(retries=0)}
UNSEEDED = {"random_state": None, "max_iter": 5}
SHORT = rp.Training(batch_size=8, finish="none")
CASES = {
    "discrete": (rp.RPCategorical(3, training=rp.Training(batch_size=25), n_init=2, **COMMON), pairs),
    "continuous": (rp.RPFA(2, training=rp.Training(batch_size=25), n_init=1, **ONCE), pairs),
    "nearly absent": (rp.RPFA(2, training=rp.Training(batch_size=11, finish="none"), n_init=1, **ONCE), hardly_there),
    "per time": (rp.RPGPFA(1, training=rp.Training(batch_size=8), n_init=1, **ONCE), lambda: trials(False)),
    "unequal": (rp.RPGPFA(1, training=rp.Training(batch_size=8), n_init=1, **ONCE), lambda: trials(True)),
    "chain": (rp.RPHMM(2, training=rp.Training(batch_size=8), n_init=2, **COMMON), lambda: trials(True)),
    "dynamics": (rp.RPLDS(2, training=rp.Training(batch_size=8), n_init=1, **ONCE), lambda: trials(True)),
    "population": (rp.RPGPFA(2, training=SHORT, n_init=1, **{**ONCE, "max_iter": 12}), spikes),
    "unseeded": (rp.RPCategorical(3, training=SHORT, n_init=1, **{**COMMON, **UNSEEDED}), pairs),
}


def told(model):
    return {"free_energy": list(model.history_["free_energy"]), "score": float(model.score_), "n": model.n_iter_}


def every_case(group):
    return {name: told(estimator.fit(data())) for name, (estimator, data) in CASES.items()}


def checkpointed(group, folder, callback=None):
    estimator, data = CASES["discrete"]
    estimator.set_params(training__callbacks=callback and [callback])
    return told(estimator.fit(data(), checkpoint=folder, checkpoint_every=0))


def dying(group, folder):
    def die(state):
        if group.rank == 1 and state.step == 36:
            os._exit(9)

    try:
        return checkpointed(group, folder, die)
    except errors.RunError as failure:
        return str(failure)


def refused(group, folder):
    """The folder of another fit: what the first process finds out, all say."""
    try:
        rp.RPCategorical(3, n_init=1, **{**COMMON, "max_iter": 7}).fit(pairs(), checkpoint=folder)
    except errors.FileError as failure:
        return str(failure)


def stopping(group, folder):
    """A callback that stops in one process alone."""

    def stop(state):
        if group.rank == 1 and state.step == 3:
            state.stop_reason = "enough"

    training = rp.Training(batch_size=25, callbacks=[stop], finish="none")
    model = rp.RPFA(2, training=training, n_init=1, **ONCE).fit(pairs())
    return {**told(model), "reason": model.stop_reason_}


def forked(job, size, out, store, *arguments):
    """The job in `size` processes; what each returns goes to OUT.rank."""
    children = []
    for rank in range(size):
        child = os.fork()
        if child == 0:
            torch.set_num_threads(1)
            os.environ |= {
                "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store),
            }  # fmt: skip
            try:
                with process_group(timeout=60) as group:
                    result = job(group, *arguments)
                Path(f"{out}.{rank}").write_text(json.dumps(result), encoding="utf-8")
                os._exit(0)
            except BaseException:  # a child must never go on with the parent's work
                traceback.print_exc()
                os._exit(1)
        children.append(child)
    return children


def main(folder, port):
    folder, port = Path(folder), int(port)
    torch.optim.AdamW([torch.zeros(1)], fused=True)  # imports torch._dynamo, which each process would do by itself
    first = forked(every_case, 1, folder / "alone", port)
    first += forked(every_case, 2, folder / "pair", port)
    for child in first:
        os.waitpid(child, 0)
    kept = str(folder / "kept")
    for name, job, size in (
        ("dying", dying, 2), ("resumed", checkpointed, 1), ("refused", refused, 2), ("stopping", stopping, 2),
    ):  # fmt: skip
        port += 1
        for child in forked(job, size, folder / name, port, kept):
            os.waitpid(child, 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
