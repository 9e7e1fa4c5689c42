"""Model files and folders of checkpoints that are damaged, re-sealed, foreign or mixed up: writes outcomes.json.

Words: how many, a seed, and the folder of the tests. In a process of its own, where annotations are not checked.
"""

import copy
import json
import pickle
import random
import shutil
import signal
import sys
import traceback
import warnings
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file

LONGEST = 60.0
FORBIDDEN = ("os.system", "subprocess.Popen", "pickle.find_class", "os.exec", "os.posix_spawn", "os.fork")
"""What a process tells its auditors when it runs something."""
NASTY = [
    None,
    True,
    0,
    -1,
    1,
    2,
    7,
    10**12,
    2**70,
    1.5,
    -0.5,
    1e308,
    "",
    "x",
    "auto",
    "system",
    "__class__",
    "float16",
    "load",
    [],
    {},
    [1, 2],
    [[10**6, 10**6]],
    {"is": "system"},
    {"is": "MLP", "event_shape": [10**6], "n_out": 10**9},
    {"tensor": [10**6, 10**6], "dtype": "float64"},
    {"number": "nan"},
    {"number": "x"},
    {"$part": {"is": "Linear"}},
    {"custom": "os.system"},
    {"$custom": "os.system"},
    {"$array": ["a", 1], "dtype": "O"},
    {"$map": 3},
    {"$number": "inf"},
]
ran: list[str] = []


class Malicious:
    def __reduce__(self):
        return (print, ("ran",))


class Hanging(BaseException):
    """What does not come back."""


def alarmed(*_):
    raise Hanging


# ---- model files ------------------------------------------------------------------------------------


def opened(path):
    with safe_open(str(path), framework="pt") as file:
        return json.loads(file.metadata()["rpmodels"]), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def sealed(path, content, tensors):
    from rpmodels.persistence.sealed import _digest  # noqa: PLC0415

    text = json.dumps(content, ensure_ascii=False)
    tensors = {name: each.contiguous().clone() for name, each in tensors.items()}
    save_file(tensors, str(path), {"rpmodels": text, "sha256": _digest(text, tensors)})


def places(value, path=()):
    """Every place in a header."""
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from places(each, (*path, key))


def damaged(draw, whole):
    """Bytes that were hurt, and how: never the same ones."""
    content, how = _damaged(draw, whole)
    return (content, how) if content != whole else damaged(draw, whole)


def _damaged(draw, whole):
    content, n = bytearray(whole), len(whole)
    how = draw.choice(["bit", "bits", "cut", "zeros", "longer", "moved", "empty"])
    start = draw.randrange(n)
    if how in ("bit", "bits"):
        for _ in range(1 if how == "bit" else 20):
            content[draw.randrange(n)] ^= 1 << draw.randrange(8)
    elif how == "cut":
        del content[start:]
    elif how == "zeros":
        content[start : start + 64] = bytes(len(content[start : start + 64]))
    elif how == "longer":
        content += bytes(draw.randrange(1, 100))
    elif how == "moved":
        content = content[start:] + content[:start]
    else:
        content.clear()
    return bytes(content), how


def resealed(draw, path, target):
    """A whole file by its digest that says something else, and what."""
    content, tensors = opened(path)
    if draw.random() < 0.3:
        name = draw.choice(sorted(tensors))
        how = draw.choice(["drop", "rename", "grow", "flatten", "NaN", "dtype", "another"])
        each = tensors.pop(name)
        if how == "rename":
            tensors[name + "x"] = each
        elif how == "another":
            tensors |= {name: each, "model.pattern.extra": each}
        elif how != "drop":
            changes = {
                "grow": lambda t: torch.cat([t[None], t[None]]),
                "flatten": lambda t: t.reshape(-1)[:-1],
                "NaN": lambda t: t * torch.nan if t.is_floating_point() else t - 10**9,
                "dtype": torch.Tensor.double,
            }
            tensors[name] = changes[how](each if each.numel() else torch.ones(3))
        sealed(target, content, tensors)
        return f"tensor {name}: {how}"
    content = copy.deepcopy(content)
    path_in = draw.choice([each for each in places(content) if each])
    holder = content
    for key in path_in[:-1]:
        holder = holder[key]
    how = draw.choice(["drop", "value", "value", "key"])
    if how == "drop":
        del holder[path_in[-1]]
    elif how == "key" and isinstance(holder, dict):
        holder[draw.choice(["__class__", "fit", "model_", "is", "is_evil", "n_out"])] = draw.choice(NASTY)
    else:
        holder[path_in[-1]] = value = draw.choice(NASTY)
        how = f"{value!r}"
    sealed(target, content, tensors)
    return f"{'.'.join(map(str, path_in))}: {how}"


def foreign(draw, target, checkpoint):
    """Something else under this name."""
    how = draw.choice(["pickle", "torch", "npz", "text", "json", "tensors", "checkpoint", "folder", "deep", "nothing"])
    makers = {
        "pickle": lambda: target.write_bytes(pickle.dumps(Malicious())),
        "torch": lambda: torch.save({"x": torch.ones(2)}, target),
        "npz": lambda: np.savez(target.open("wb"), x=np.ones(3)),
        "text": lambda: target.write_text("hello"),
        "json": lambda: target.write_text("{}"),
        "tensors": lambda: save_file({"x": torch.ones(2)}, str(target)),
        "checkpoint": lambda: shutil.copy(checkpoint, target),
        "folder": target.mkdir,
        "deep": lambda: save_file({"x": torch.ones(2)}, str(target), {"rpmodels": "[" * 10**5, "sha256": "x"}),
        "nothing": lambda: target.symlink_to("/dev/null"),
    }
    makers[how]()
    return how


def answers(model, x):
    found = model.latents(x)
    values = found.values if isinstance(found.values, list) else [found.values]
    return [*map(np.asarray, values), model.score_samples(x)]


def compared(found, expected):
    if any(np.isnan(each).any() for each in found):
        return "nan"
    same = all(a.shape == b.shape and np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    return "same" if same else "another"


def one_file(draw, models, folder):
    import rpmodels as rp  # noqa: PLC0415

    name = draw.choice(sorted(models))
    path, x, expected = models[name]
    target = folder / "hostile"
    if target.is_dir() and not target.is_symlink():
        target.rmdir()
    else:
        target.unlink(missing_ok=True)
    kind = draw.choice(["damaged", "re-sealed", "re-sealed", "foreign"])
    if kind == "damaged":
        content, how = damaged(draw, path.read_bytes())
        target.write_bytes(content)
    elif kind == "re-sealed":
        how = resealed(draw, path, target)
    else:
        how = foreign(draw, target, next(folder.glob("fits/a/*.checkpoint")))
    return kind, f"{name}, {how}", lambda: compared(answers(rp.load(target), x), expected)


# ---- checkpoints ------------------------------------------------------------------------------------


def data(seed):
    from data import clusters  # noqa: PLC0415

    return clusters(24, seed=seed)[0]


def fit(x, folder=None, **changed):
    import rpmodels as rp  # noqa: PLC0415

    search = rp.Search(moves=1)
    settings = {"n_states": 2, "max_iter": 18, "n_init": 2, "random_state": 0, "network": "linear", "search": search}
    return rp.RPCategorical(**{**settings, **changed}, training=rp.Training(finish="none")).fit(x, checkpoint=folder)


def one_folder(draw, folder, expected):
    """The folder of a fit in which something is not as it was; the same fit is called again."""
    target = folder / "c"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(folder / "fits" / "a", target)
    files = sorted(target.glob("*.checkpoint"))
    victim, how = (
        draw.choice(files),
        draw.choice(["damaged", "swapped", "other data", "other seed", "manifest", "re-sealed", "gone", "model"]),
    )
    if how == "damaged":
        content, more = damaged(draw, victim.read_bytes())
        victim.write_bytes(content)
        how += f" {more}"
    elif how == "swapped":
        other = draw.choice([each for each in files if each != victim])
        kept = victim.read_bytes()
        shutil.copy(other, victim)
        other.write_bytes(kept)
    elif how in ("other data", "other seed"):
        source = sorted((folder / "fits" / ("b" if how == "other data" else "c")).glob("*.checkpoint"))
        shutil.copy(draw.choice(source), victim)
        if draw.random() < 0.5:
            for each in source:
                shutil.copy(each, target / each.name)
    elif how == "manifest":
        manifest = target / "manifest.json"
        content, more = damaged(draw, manifest.read_bytes())
        manifest.write_bytes(content)
        how += f" {more}"
    elif how == "re-sealed":
        how += " " + resealed_manifest(draw, target / "manifest.json")
    elif how == "gone":
        victim.unlink()
    else:
        shutil.copy(folder / "fa", victim)
    return "checkpoint", how, lambda: compared([fit(data(0), target).score_samples(data(0))], expected)


def resealed_manifest(draw, path):
    from rpmodels.learning.checkpoints import SEAL, _digest  # noqa: PLC0415

    content = json.loads(path.read_text())
    content.pop(SEAL)
    place = draw.choice(
        [("seeds",), ("about", "max_iter"), ("about", "the data"), ("versions",), ("format",), ("seeds", 1)]
    )
    holder = content
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = draw.choice([each for each in NASTY if not isinstance(each, float)] + [[1, 2, 3]])
    try:
        path.write_text(json.dumps({**content, SEAL: _digest(content)}))
    except ValueError:
        return "nothing"
    return f"{place}: {holder[place[-1]]!r}"


# ---- what comes of it -------------------------------------------------------------------------------


def outcome(kind, call):
    from rpmodels.errors import RPModelsError  # noqa: PLC0415

    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        found = call()
    except (RPModelsError, FileNotFoundError) as refusal:
        return "refused" if str(refusal).endswith(".") else f"unclear: {refusal}"
    except Hanging:
        return "hang"
    except Exception as failure:
        inside = [each for each in traceback.extract_tb(failure.__traceback__) if "rpmodels" in each.filename][-1]
        return f"raw: {type(failure).__name__}: {str(failure)[:100]!r} ({Path(inside.filename).name}:{inside.lineno})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    # What was hurt without a new seal, or belongs to another fit, must be refused or change nothing.
    return "silent" if found == "another" and kind != "re-sealed" else found


def every_outcome(count, start):
    from registry import ESTIMATORS  # noqa: PLC0415

    draw, folder, models = random.Random(start), Path("work"), {}
    folder.mkdir(exist_ok=True)
    for name, tiny in ESTIMATORS.items():
        model, x = tiny.fitted()
        model.save(folder / name)
        models[name] = (folder / name, x, answers(model, x))
    expected = [fit(data(0)).score_samples(data(0))]
    fits = {"a": {}, "b": {}, "c": {"random_state": 1}}
    for name, changed in fits.items():
        fit(data(name == "b"), folder / "fits" / name, **changed)
    counts, wrong = {}, {}
    sys.addaudithook(lambda event, _: ran.append(event) if event in FORBIDDEN else None)
    for number in range(count):
        made = one_folder(draw, folder, expected) if number % 4 == 3 else one_file(draw, models, folder)
        kind, how, call = made
        what = outcome(kind, call)
        if ran:
            what = f"ran {ran.pop()}"
        counts[f"{kind}: {what.partition(':')[0]}"] = counts.get(f"{kind}: {what.partition(':')[0]}", 0) + 1
        if what not in ("refused", "same", "another"):
            wrong.setdefault(f"{kind}: {what}", how)
    return {"counts": counts, "wrong": wrong}


if __name__ == "__main__":
    number, start, tests = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    sys.path.insert(0, tests)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, alarmed)
    Path("outcomes.json").write_text(json.dumps(every_outcome(number, start)), encoding="utf-8")
