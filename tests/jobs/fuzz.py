"""Every argument of the estimator that the file `kind` names, with nasty values: writes outcomes.json.

In a process of its own, where annotations are not checked: so `fit` meets what it would meet anywhere else.
"""

import json
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch

import rpmodels as rp
from rpmodels.estimators.arguments import every_argument
from rpmodels.estimators.names import nested

NASTY = {
    "None": None, "True": True, "0": 0, "-1": -1, "2": 2, "1.5": 1.5, "-0.5": -0.5, "0.0": 0.0, "nan": float("nan"),
    "inf": float("inf"), "2**70": 2**70, "10**400": 10**400, "1j": 1j, "numpy 2": np.int64(2),
    "numpy 0.5": np.float64(0.5), "''": "", "'x'": "x", "'auto'": "auto", "'1e-3'": "1e-3", "b'x'": b"x", "[]": [],
    "['x']": ["x"], "(1, 2)": (1, 2), "{}": {}, "{'a': 1}": {"a": 1}, "{'a': 'x'}": {"a": "x"},
    "{'zz': [0]}": {"zz": [0]}, "{1: None}": {1: None}, "an object": object(), "a class": int,
    "a function": lambda *_: None, "NaNs": np.array([1.0, np.nan]), "a matrix": np.zeros((2, 2)),
    "objects": np.array([None, "x"]), "a tensor": torch.ones(2), "a module": torch.nn.Linear(1, 1),
    "a group": rp.Training(), "a dict": {"workers": 2},
}  # fmt: skip


def views():
    random = np.random.default_rng(0)
    return {name: random.standard_normal((12, 2)) for name in "ab"}


def trials():
    return np.random.default_rng(0).standard_normal((4, 6, 2))


DATA = {
    "RPCategorical": views, "RPCircular": views, "RPFA": views, "RPGPFA": trials, "RPLDS": trials, "RPHMM": trials,
    "RPLDA": trials, "RPGraph": views,
}  # fmt: skip


def outcome(kind, X, arguments):
    """ "fits", "refused", or what was raised instead."""
    try:
        kind(**nested(kind, arguments)).fit(X)
    except rp.RPModelsError as refusal:
        return "refused", str(refusal)
    except Exception as failure:
        place = traceback.extract_tb(failure.__traceback__)[-1]
        return "raw", f"{type(failure).__name__}: {str(failure)[:200]} ({place.filename}:{place.lineno})"
    return "fits", ""


def every_outcome(name):
    """{argument=value: what became of it} of one estimator."""
    kind, X = getattr(rp, name), DATA[name]()
    brief = {"max_iter": 1, "n_init": 1, "random_state": 0}
    groups = [each for each in kind.declared if kind.declared[each].group]
    found = {}
    for argument in (*every_argument(kind), *groups):
        further = {} if argument == "search" else {"search.retries": 0}
        if argument not in ("training", "training.finish"):
            further["training.finish"] = "none"  # which takes longer than all the rest
        for label, value in NASTY.items():
            found[f"{argument}={label}"] = outcome(kind, X, {**brief, **further, argument: value})
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.compile = lambda module, **_: module  # it takes long, and is no part of what is asked here
    name = Path("kind").read_text(encoding="utf-8")
    Path("outcomes.json").write_text(json.dumps(every_outcome(name)), encoding="utf-8")
