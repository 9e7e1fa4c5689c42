"""Every verb of every estimator with nasty data and arguments: writes outcomes.json.

Words: how many calls, a seed, and the folder of the tests. In a process of its own, where annotations are not checked.
"""

import inspect
import json
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

LONGEST = 30.0
"""Seconds after which a call hangs."""
TEXT = 2500
"""Characters that a refusal may have."""


class Hanging(BaseException):
    """A call that does not come back."""


def alarmed(*_):
    raise Hanging


# ---- what is handed in ----------------------------------------------------------------------------


def values(name, kind):
    """One nasty thing by its name, made anew: nothing that a call does to it is seen by the next."""
    return NASTY[kind][name]()


def frame(array, **options):
    import pandas as pd  # noqa: PLC0415

    return pd.DataFrame(array, **options)


def missing(array):
    found = frame(np.array(array, float).reshape(len(array), -1)).astype("Float64")
    found.iloc[0] = None
    return found


NASTY = {
    "whole": {
        "None": lambda: None,
        "3.0": lambda: 3.0,
        "nan": lambda: np.nan,
        "True": lambda: True,
        "'x'": lambda: "x",
        "b'x'": lambda: b"x",
        "[]": list,
        "{}": dict,
        "()": tuple,
        "object": object,
        "class": lambda: int,
        "function": lambda: print,
        "generator": lambda: (n for n in range(3)),
        "set": lambda: {1, 2},
        "(0,)": lambda: np.zeros(0),
        "(0, 3)": lambda: np.zeros((0, 3)),
        "(3, 0)": lambda: np.zeros((3, 0)),
        "()-array": lambda: np.array(1.0),
        "array(None)": lambda: np.array(None),
        "complex": lambda: np.ones((8, 3)) * 1j,
        "dates": lambda: np.zeros((8, 3), "datetime64[s]"),
        "ragged": lambda: [[1.0], [1.0, 2.0]],
        "[None]": lambda: [None],
        "[None, None]": lambda: [None, None],
        "['x', 1.0]": lambda: ["x", 1.0],
        "words": lambda: np.array([["x", "y"]] * 8),
        "{1: 2}": lambda: {1: 2},
        "{None: None}": lambda: {None: None},
        "{'a': {}}": lambda: {"a": {}},
        "10**30": lambda: 10**30,
        "[10**30]": lambda: [10**30] * 8,
        "[[2**63]]": lambda: [[2**63, -1]] * 8,
        "sparse": lambda: torch.eye(8).to_sparse(),
        "csr": lambda: torch.eye(8).to_sparse_csr(),
        "scipy": lambda: __import__("scipy.sparse").sparse.eye(8).tocsr(),
        "meta": lambda: torch.ones(8, 3, device="meta"),
        "complex tensor": lambda: torch.ones(8, 3) * 1j,
        "frame": lambda: frame(np.ones((8, 3))),
        "frame of words": lambda: frame([["x", 1.0]] * 8),
        "empty frame": lambda: frame(np.zeros((0, 0))),
        "frame with NA": lambda: missing(np.ones((8, 3))),
        "series": lambda: frame(np.ones((8, 1)))[0],
        "records": lambda: np.zeros(8, [("a", float), ("b", int)]),
        "void": lambda: np.zeros(8, "V3"),
        "quantized": lambda: torch.quantize_per_tensor(torch.ones(8, 3), 1.0, 0, torch.qint8),
        "nested None": lambda: [[None, 1.0]] * 8,
        "10 axes": lambda: np.ones((2,) * 10),
        "[{}]": lambda: [{}],
        "[3.0]": lambda: [3.0, 4.0],
        "list of lists of words": lambda: [["a", "b"], ["c"]],
        "module": lambda: torch.nn.Linear(1, 1),
    },
    "argument": {
        "None": lambda: None,
        "0": lambda: 0,
        "-1": lambda: -1,
        "1": lambda: 1,
        "3": lambda: 3,
        "1.5": lambda: 1.5,
        "nan": lambda: float("nan"),
        "inf": lambda: float("inf"),
        "10**7": lambda: 10**7,
        "2**40": lambda: 2**40,
        "2**70": lambda: 2**70,
        "'x'": lambda: "x",
        "'a'": lambda: "a",
        "True": lambda: True,
        "[]": list,
        "{}": dict,
        "[1, 2]": lambda: [1, 2],
        "array": lambda: np.ones(8),
        "booleans": lambda: np.ones(8, bool),
        "object": object,
        "NaNs": lambda: np.full(8, np.nan),
        "{'a': 3}": lambda: {"a": 3},
        "{'zz': 3}": lambda: {"zz": 3},
        "{'a': 'x'}": lambda: {"a": "x"},
        "{'a': booleans}": lambda: {"a": np.ones(30, bool)},
        "function": lambda: print,
        "{'a': numbers}": lambda: {"a": np.ones(30)},
        "{'x': False}": lambda: {"x": np.zeros((6, 7), bool)},
        "matrix": lambda: np.ones((6, 7)),
        "falling": lambda: np.arange(7.0)[::-1],
        "1j": lambda: 1j,
        "words": lambda: ["x"] * 8,
        "tensor": lambda: torch.ones(8),
        "sparse": lambda: torch.eye(8).to_sparse(),
        "30 weights": lambda: np.ones(30),
        "negative": lambda: -np.ones(30),
        "no weight": lambda: np.zeros(30),
        "'auto'": lambda: "auto",
        "'q'": lambda: "q",
        "'importance'": lambda: "importance",
        "'quadrature'": lambda: "quadrature",
        "'natural_gradient'": lambda: "natural_gradient",
        "[[0, 1]]": lambda: [[0, 1]],
        "frame": lambda: missing(np.ones((8, 1))),
        "0.9": lambda: 0.9,
        "1e300": lambda: 1e300,
        "[None]": lambda: [None],
        "dates": lambda: np.zeros(7, "datetime64[s]"),
        "(7,)": lambda: np.arange(7.0),
    },
}


def scaled(factor):
    return lambda a: np.asarray(a, float) * factor


def first(value):
    def change(a):
        a = np.array(a, float)
        a.reshape(len(a), -1)[:1] = value
        return a

    return change


def one(value):
    def change(a):
        a = np.array(a, float)
        a.reshape(-1)[:1] = value
        return a

    return change


def as_type(dtype):
    return lambda a: np.asarray(a).astype(dtype)


CHANGES = {
    "as it is": lambda a: a,
    "NaN row": first(np.nan),
    "inf row": first(np.inf),
    "NaN value": one(np.nan),
    "inf value": one(-np.inf),
    "1e153 value": one(1e153),
    "1e300 value": one(1e300),
    "all NaN": scaled(np.nan),
    "all 0": scaled(0.0),
    "1e-200": scaled(1e-200),
    "1e-320": scaled(1e-320),
    "1e30": scaled(1e30),
    "1e100": scaled(1e100),
    "1e154": scaled(1e154),
    "1e160": scaled(1e160),
    "1e300": scaled(1e300),
    "1e308": scaled(1e308),
    **{
        kind: as_type(kind)
        for kind in (
            "float16",
            "float32",
            "int8",
            "uint64",
            "bool",
            "object",
            "str",
            "S8",
            ">f8",
            "longdouble",
            "complex128",
            "timedelta64[s]",
        )
    },
    "no columns": lambda a: np.asarray(a)[..., :0],
    "no rows": lambda a: np.asarray(a)[:0],
    "one row": lambda a: np.asarray(a)[:1],
    "one column": lambda a: np.asarray(a)[..., :1],
    "more columns": lambda a: np.concatenate([a, a], -1),
    "no last axis": lambda a: np.asarray(a)[..., 0],
    "another axis": lambda a: np.asarray(a)[..., None],
    "turned": lambda a: np.asarray(a).T,
    "list": lambda a: np.asarray(a).tolist(),
    "rows as a list": list,
    "tensor": lambda a: torch.as_tensor(np.asarray(a, float)),
    "with gradient": lambda a: torch.tensor(np.asarray(a, float), requires_grad=True),
    "bfloat16": lambda a: torch.as_tensor(np.asarray(a, float)).bfloat16(),
    "sparse": lambda a: torch.as_tensor(np.asarray(a, float)).to_sparse(),
    "masked": lambda a: np.ma.masked_less(np.asarray(a, float), 0),
    "frame": lambda a: frame(np.asarray(a, float).reshape(len(a), -1)),
    "frame with NA": missing,
    "read only": lambda a: np.broadcast_to(np.asarray(a)[:1], np.shape(a)),
    "integers": lambda a: np.abs(np.asarray(a) * 9).astype(int),
    "2**63": lambda a: np.full(np.shape(a), 2**63, np.uint64),
    "Python integers": lambda a: np.full(np.shape(a), 10**30, object),
    "with None": lambda a: [None, *list(a)[1:]],
    "with words": lambda a: ["x", *list(a)[1:]],
    "words": lambda a: np.array(["u", "v", "w"] * len(a))[: len(a)],
    "repeated": lambda a: np.repeat(a, 2, 0),
    "list of tensors": lambda a: [torch.as_tensor(np.asarray(each, float)) for each in a],
}


def changed(data, draw):
    """Data as they should be, with a change or two."""
    told = []
    if draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from(sorted(NASTY["whole"])))
        return values(name, "whole"), f"whole={name}"
    if isinstance(data, dict):
        data = dict(data)
        for factor in draw(st.sampled_from([["a"], ["b"], ["a", "b"], []])):
            if draw(st.integers(0, 4)) == 0:
                name = draw(st.sampled_from(sorted(NASTY["whole"])))
                data[factor] = values(name, "whole")
            else:
                name = draw(st.sampled_from(sorted(CHANGES)))
                data[factor] = CHANGES[name](data[factor])
            told.append(f"{factor}={name}")
        shape = draw(st.sampled_from(["same"] * 8 + ["without b", "with zz", "1 for a", "None for a"]))
        if shape == "without b":
            data.pop("b")
        elif shape == "with zz":
            data["zz"] = data["a"]
        elif shape != "same":
            data[1 if shape[0] == "1" else None] = data.pop("a")
        return data, ", ".join([*told, shape])
    name = draw(st.sampled_from(sorted(CHANGES)))
    if isinstance(data, list):
        which = draw(st.sampled_from(["one", "all", "gathered"]))
        if which == "one":
            return [CHANGES[name](data[0]), *data[1:]], f"trial 0={name}"
        if which == "all":
            return [CHANGES[name](each) for each in data], f"trials={name}"
        data = data[0] if draw(st.booleans()) else np.stack([each[:4] for each in data])
    return CHANGES[name](data), f"array={name}"


# ---- what is called -------------------------------------------------------------------------------


def prepared():
    """Tiny fitted models with their data, each a few parameters."""
    from registry import ESTIMATORS  # noqa: PLC0415

    found = {name: (tiny, *tiny.fitted()) for name, tiny in ESTIMATORS.items()}
    for name in ("categorical", "fa"):
        tiny = ESTIMATORS[name]
        data = {**tiny.data(0), "label": np.array(["x", "y", "z"] * 10)}
        found[f"{name} with labels"] = (tiny, tiny.make().fit(data), data)
    tiny = ESTIMATORS["fa"]
    counts = {name: np.abs(5 * each).astype(int) for name, each in tiny.data(0).items()}
    found["fa with populations"] = (tiny, tiny.make(channels="separate").fit(counts), counts)
    plain = tiny.make(scaling="none")
    found["fa without scaling"] = (tiny, plain.fit(tiny.data(0)), tiny.data(0))
    return found


VERBS = {
    "fit": ("presence", "sample_weight", "times"),
    "transform": ("presence", "times"),
    "latents": ("presence", "times"),
    "predict": ("presence",),
    "predict_proba": ("presence",),
    "score": ("presence", "exact", "times"),
    "score_samples": ("presence", "exact", "times"),
    "posterior": ("presence", "at", "e_step", "times"),
    "filter": ("times",),
    "forecast": ("steps", "times"),
    "smooth": ("times",),
    "impute": ("factor", "rows", "row_weights", "hide", "method", "draws", "nodes", "presence"),
    "log_weight": ("method", "draws", "nodes"),
    "recognise": ("factor",),
    "predict_label": ("factor",),
    "rates": ("factor",),
    "channel_probabilities": ("factor",),
    "diagnose": (),
    "fit_transform": ("sample_weight",),
}
WITHOUT_DATA = {
    "sample": ("n_samples", "length", "times", "inputs", "rows", "row_weights", "random_state"),
    "conditional_weights": ("factor", "z"),
    "state_names": ("factor",),
    "tuning": ("factor",),
    "save": ("path",),
    "recognise_patch": ("patch",),
    "cut": ("n",),
}


OF_POPULATIONS = ("rates", "channel_probabilities", "tuning")


def first_of(data):
    """The name of a factor; None where there is one only."""
    return "a" if isinstance(data, dict) else None


def called(models, draw, tell):
    """One call, and what came of it."""
    import rpmodels as rp  # noqa: PLC0415

    chosen = draw(st.sampled_from(sorted(models)))
    tiny, model, data = models[chosen]
    there = [verb for verb in {**VERBS, **WITHOUT_DATA} if hasattr(model, verb) or verb == "diagnose"]
    own = [verb for verb in there if verb not in OF_POPULATIONS or "populations" in chosen]
    verb = draw(st.sampled_from(own))
    takes = inspect.signature(getattr(model, verb, rp.evaluation.diagnose)).parameters
    beside = model.description.takes if "options" in takes else ()
    known = [each for each in VERBS.get(verb, WITHOUT_DATA.get(verb, ())) if each in takes or each in beside]
    words = {}
    for name in draw(st.sampled_from([*[()] * len(known), *[(each,) for each in known], known[:2]])):
        label = draw(st.sampled_from(sorted(NASTY["argument"])))
        words[name] = (label, values(label, "argument"))
    given = {name: each for name, (_, each) in words.items()}
    told = ", ".join(f"{name}={label}" for name, (label, _) in words.items())
    told = f"{type(model).__name__}.{verb}(", told
    if verb in WITHOUT_DATA:
        tell("".join(told))
        usual = {
            "save": {"path": "saved"},
            "state_names": {"factor": "label"},
            "conditional_weights": {"factor": first_of(data)},
        }
        given = {**usual.get(verb, {}), **given}
        if verb == "save" and isinstance(given.get("path"), str):
            given["path"] = "saved"
        if "recognise_patch" in verb and not given:
            given = {"patch": data[0][0]}
        return getattr(model, verb)(**given)
    with np.errstate(all="ignore"):
        X, how = changed(data, draw)
    tell(f"{told[0]}{how}; {told[1]}")
    if verb in ("recognise", "predict_label", "rates", "channel_probabilities") and verb != "predict_label":
        given = {**({"factor": "a"} if "factor" in takes else {}), **given}
        X = X.get("a") if verb == "recognise" and isinstance(X, dict) else X
    if verb == "impute":
        given = {"factor": first_of(data), **given}
    if verb == "predict_label":
        given = {"factor": "label", **given}
    if verb == "diagnose":
        return str(rp.evaluation.diagnose(model, X))
    if verb.startswith("fit"):
        fresh = tiny.make(max_iter=1)
        found = getattr(fresh, verb)(X, **given)
        return [fresh.score_samples(X), float(fresh.score_)] if verb == "fit" and not given else found
    found = getattr(model, verb)(X, **given)
    return None if verb == "channel_probabilities" else found  # of missing values there are none


def numbers(found, depth=0):
    """Every array of numbers in a result."""
    if isinstance(found, torch.Tensor):
        found = found.detach().numpy()
    if isinstance(found, float | np.ndarray):
        yield np.asarray(found)
    elif isinstance(found, list | tuple):
        for each in found:
            yield from numbers(each, depth + 1)
    elif isinstance(found, dict):
        yield from numbers(list(found.values()), depth + 1)
    elif hasattr(found, "__dataclass_fields__") and depth < 3:
        for name in found.__dataclass_fields__:
            yield from numbers(getattr(found, name), depth + 1)


def place(failure):
    """The last line of the library before a failure, and where it was raised."""
    frames = traceback.extract_tb(failure.__traceback__)
    inside = [each for each in frames if "rpmodels" in each.filename and "site-packages" not in each.filename]
    ends = [*inside[-1:], frames[-1]]
    return " < ".join(f"{Path(each.filename).name}:{each.lineno}" for each in reversed(ends))


def outcome(call):
    """What came of a call: "fine", "refused", or what is wrong with it."""
    from rpmodels.errors import RPModelsError  # noqa: PLC0415

    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", RuntimeWarning)
            found = call()
            signal.setitimer(signal.ITIMER_REAL, 0)
        if any(each.dtype.kind == "f" and np.isnan(each).any() for each in numbers(found)):
            return "nan", ""
    except RPModelsError as refusal:
        text = str(refusal)
        return ("refused", "") if text.endswith(".") and len(text) <= TEXT else ("unclear", text[:200])
    except Hanging:
        return "hang", ""
    except Exception as failure:
        if "sklearn" in traceback.extract_tb(failure.__traceback__)[-1].filename and isinstance(failure, ValueError):
            return "refused", ""
        return "raw", f"{type(failure).__name__}: {str(failure)[:120]!r} ({place(failure)})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "fine", ""


def every_outcome(count, start):
    """{outcome: number}, and what was wrong, the first of each kind."""
    models, counts, wrong, slowest = prepared(), {}, {}, (0.0, "")

    @seed(start)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def campaign(data):
        nonlocal slowest
        said = []
        began = time.perf_counter()
        what, why = outcome(lambda: called(models, data.draw, said.append))
        slowest = max(slowest, (time.perf_counter() - began, said[-1] if said else ""))
        counts[what] = counts.get(what, 0) + 1
        if what not in ("fine", "refused"):
            wrong.setdefault(f"{what} {why}", said[-1] if said else "")

    campaign()
    return {"counts": counts, "wrong": wrong, "slowest": slowest}


if __name__ == "__main__":
    calls, start, tests = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys.path.insert(0, tests)
    torch.set_num_threads(1)
    signal.signal(signal.SIGALRM, alarmed)
    Path("outcomes.json").write_text(json.dumps(every_outcome(calls, start)), encoding="utf-8")
