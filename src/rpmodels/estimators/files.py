"""Estimators in files, and out of them again in any other place that has this library."""

import copy
import warnings
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rpmodels import checks, errors
from rpmodels.estimators.arguments import Declared, every_argument
from rpmodels.estimators.names import check, flat, nested
from rpmodels.fitted import FittedRPM
from rpmodels.free_energy import Score
from rpmodels.learning import Attempt, device_of, dtype_of
from rpmodels.learning.adapting import Shift
from rpmodels.learning.consumers import HistoryTable
from rpmodels.persistence import (
    Frugal,
    Opened,
    as_written,
    from_plain,
    handed_in,
    open_file,
    own_parts,
    save_file,
    to_plain,
)

HISTORY = "history."
GROUPS_OF_FORMAT_1 = {
    "recognition": ("tied", "head", "scaling", "dropout", "input_dropout", "targets", "precision", "covariance"),
    "inference": ("expected_log_mixture", "e_step", "atoms", "marginal", "alternate"),
    "training": (
        "batch_size", "tol", "patience", "validation_fraction", "weight_decay", "max_gradient_norm", "optimiser",
        "scheduler", "callbacks", "warm_start",
    ),
    "search": ("retries", "n_jobs"),
    "engine": ("device", "dtype"),
}  # fmt: skip
"""Where arguments went that stood by themselves in files of format 1."""
ENGINE_1 = {"lent": "extra"}
"""How settings of its engine are called now."""
FOR_FITTING = ("optimiser", "scheduler", "finish", "callbacks")
"""Arguments that a fitted model does without."""
PLAIN: Mapping[str, checks.Rule] = {
    "n_iter_": checks.Integer(0), "stop_reason_": checks.Instance(str, called="text"), "converged_": checks.Flag(),
    "clipped_": checks.ByFactor(checks.Integer(0)),
    "validation_curve_": checks.Listed(checks.Instance(dict, called="scores")),
}  # fmt: skip
"""What a fit leaves beside its model, and what a file may set: nothing else."""
LATER = ("converged_",)
"""What files before format 4 need not say."""
OF_TABLES: Mapping[str, checks.Rule] = {
    "n_features_in_": checks.Integer(0), "feature_names_in_": checks.Instance(np.ndarray),
}  # fmt: skip
"""What scikit-learn remembers of a table; other forms of data leave none."""
SHIFT = "shift_"
"""Of models whose prior was adapted."""


def save(estimator: Any, model: FittedRPM, path: str | Path) -> None:
    """Arguments, fitted attributes and model in one file of exactly this name; an older one is replaced as a whole."""
    checks.Path().check("path", path)
    score: Score = estimator.score_
    about = {
        "class": type(estimator).__name__,
        "arguments": {name: to_plain(each) for name, each in flat(estimator).items()},
        "fitted": {
            name: to_plain(getattr(estimator, name)) for name in (*PLAIN, *OF_TABLES) if hasattr(estimator, name)
        }
        | ({SHIFT: to_plain(asdict(estimator.shift_))} if hasattr(estimator, SHIFT) else {}),
        "restarts": [to_plain(asdict(attempt)) for attempt in estimator.restarts_],
        "score": to_plain(list(score.plain)),
        "history": list(estimator.history_),
    }
    history = {HISTORY + name: torch.as_tensor(values) for name, values in estimator.history_.items()}
    save_file(path, model, about, history)


def load(
    path: str | Path,
    known: Mapping[str, type[Declared]],
    device: str | None,
    dtype: str | None,
    given: Mapping[str, Any],
) -> Any:
    """A fitted estimator of one of the `known` classes."""
    checks.Path().check("path", path)
    opened = open_file(path)
    name = str(opened.about["class"])
    if name not in known:
        raise errors.unknown_class(str(path), name)
    kind = known[name]
    with as_written(path):
        written = written_arguments(kind, opened.about["arguments"])
        own = {full.rpartition(".")[2] for full, each in written.items() if own_parts(each)}
        names = [*kind.declared, *sorted(own | own_parts(opened.recipe))]
    for part in given:
        if part not in names:
            raise errors.bad_choice("an argument of load", dict.fromkeys(names), part)
    asked = {"device": device, "dtype": dtype}
    for each, to in asked.items():
        if to is not None:
            every_argument(kind)[f"engine.{each}"].rule.check(each, to)
    with as_written(path), Frugal(opened.tensors.values()):
        return _loaded(opened, kind, written, asked, given)


def _loaded(
    opened: Opened,
    kind: type[Declared],
    written: Mapping[str, Any],
    asked: Mapping[str, str | None],
    given: Mapping[str, Any],
) -> Any:
    """The estimator, in the place and precision that were asked for."""
    estimator = kind(**_arguments(opened, kind, written, given))
    places = {
        "device": asked["device"] or _device(written["engine.device"]),
        "dtype": asked["dtype"] or written["engine.dtype"],
    }
    changed = {f"engine__{each}": to for each, to in places.items() if to != written[f"engine.{each}"]}
    estimator.set_params(**changed)
    check(estimator)
    opened = replace(opened, recipe=handed_in(opened.recipe, given))
    model = opened.model(lambda argument, each: _part(opened, argument, each, given))
    estimator.model_ = model.to(device_of(places["device"]), dtype_of(places["dtype"]))  # type: ignore[attr-defined]
    _remember(estimator, opened)
    return estimator


def written_arguments(kind: type[Declared], written: Mapping[str, Any]) -> dict[str, Any]:
    """{name or group.name: plain value} of a file, by the names that arguments have now."""
    groups = {name: group for group, names in GROUPS_OF_FORMAT_1.items() for name in names}
    declared = every_argument(kind)
    found: dict[str, Any] = {}
    for name, value in written.items():
        if name == "engine":  # a dict, or None
            found |= {f"engine.{ENGINE_1.get(part, part)}": each for part, each in (value or {"$map": []})["$map"]}
        else:
            moved = f"{groups[name]}.{name}" if name in groups else name
            found[name if name in declared else moved] = value
    return found


def _arguments(
    opened: Opened, kind: type[Declared], written: Mapping[str, Any], given: Mapping[str, Any]
) -> dict[str, Any]:
    """What the constructor is called with; a group in which nothing was changed stays None."""
    declared = every_argument(kind)
    changed = {
        name: value
        for name, value in written.items()
        if "." not in name or name not in declared or value != to_plain(declared[name].default)
    }
    made = nested(kind, {name: _argument(opened, name, each, given) for name, each in changed.items()})
    return made | {name: each for name, each in given.items() if name in kind.declared and kind.declared[name].group}


def _device(saved: Any) -> str:
    """What it was fitted on, unless that was an accelerator of the machine that saved it."""
    return "cpu" if str(saved) == "cpu" else "auto"


def _remember(estimator: Any, opened: Opened) -> None:
    found = {name: from_plain(value, str) for name, value in opened.about["fitted"].items()}
    if SHIFT in found:
        estimator.shift_ = Shift(**found.pop(SHIFT))
    known = {**PLAIN, **OF_TABLES}
    if not set(found) <= set(known) or not set(PLAIN) - set(found) <= set(() if opened.format > 3 else LATER):
        raise errors.bad_value("fitted attributes", f"{', '.join(PLAIN)}", ", ".join(found))
    for name, value in found.items():
        known[name].check(name, value)
        setattr(estimator, name, value)
    estimator.restarts_ = [Attempt(**from_plain(each, str)) for each in opened.about["restarts"]]
    estimator.score_ = Score(*from_plain(opened.about["score"], str))
    history = {name: opened.tensors[HISTORY + name].numpy() for name in opened.about["history"]}
    estimator.history_ = HistoryTable(history)


def _argument(opened: Opened, full: str, value: Any, given: Mapping[str, Any]) -> Any:
    """An argument of the estimator: from the file, or from whoever opens it."""
    name = full.rpartition(".")[2]
    # In a group only what is the user's own can be handed in: names there need not be the only ones.
    mine = given.get(name) if name == full or own_parts(value) else None
    if mine is not None and not isinstance(mine, Mapping):
        return mine

    def missing(kind: str) -> Any:
        if name not in FOR_FITTING:
            raise errors.needs_own_part(str(opened.path), name, kind)
        warnings.warn(errors.not_for_fitting(name, kind), stacklevel=7)
        return None

    if not isinstance(mine, Mapping):
        made = from_plain(value, missing)
        # What is for fitting alone and is the user's own stays where it was.
        return [each for each in made if each is not None] if name in FOR_FITTING and isinstance(made, list) else made
    # Parts by factor: those that are handed in, the others from the file.
    kept = [[key, each] for key, each in value.get("$map", []) if key not in mine]
    return {**from_plain({"$map": kept}, missing), **mine}


def _part(opened: Opened, argument: str, kind: str, given: Mapping[str, Any]) -> Any:
    """A part of the model that is the user's own; "network of factor 'x'" is looked up by its factor."""
    name = argument.split(maxsplit=1)[0]
    if name not in given:
        raise errors.needs_own_part(str(opened.path), argument, kind)
    part = given[name]
    if isinstance(part, Mapping):
        factor = argument.split("'", 1)[-1].removesuffix("'")
        named = {str(key): each for key, each in part.items()}
        if factor not in named:
            raise errors.needs_own_part(str(opened.path), argument, kind)
        part = named[factor]
    # A module of the user's own is never changed.
    return copy.deepcopy(part) if isinstance(part, nn.Module) else part
